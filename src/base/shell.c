/* SPDX-License-Identifier: Apache-2.0 */
#include "base/shell.h"

#include <ctype.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/console_text.h"

void buf_add_shell_word(struct buf *out, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-./=:,@%+";
    if (*word && strspn(word, plain) == strlen(word)) {
        buf_add_text(out, word);
        return;
    }
    buf_add_char(out, '\'');
    for (const char *at = word; *at; at++)
        if (*at == '\'')
            buf_add_text(out, "'\\''");
        else
            buf_add_char(out, *at);
    buf_add_char(out, '\'');
}

void buf_add_typed_word(struct buf *out, const char *word)
{
    cleanup_free char *visible = console_visible_new(word);
    if (strcmp(visible, word) == 0) {
        buf_add_shell_word(out, word);
        return;
    }
    buf_add_text(out, "$'");
    for (const char *at = word; *at; at++)
        if (*at < ' ' || *at > '~')
            buf_addf(out, "\\%03o", (unsigned char)*at);
        else
            buf_addf(out, "%s%c", *at == '\'' || *at == '\\' ? "\\" : "", *at);
    buf_add_char(out, '\'');
}

int shell_words(const char *text, struct env_list *out, struct err *err)
{
    cleanup_buf struct buf word = BUF_INIT;
    bool is_word = false;
    char quote = 0;
    for (const char *at = text; *at; at++) {
        if (*at == '\\' && at[1] && quote != '\'') {
            buf_add_char(&word, *++at);
            is_word = true;
        } else if (quote ? *at == quote : *at == '\'' || *at == '"') {
            quote = quote ? 0 : *at;
            is_word = true;
        } else if (quote || !isspace((unsigned char)*at)) {
            buf_add_char(&word, *at);
            is_word = true;
        } else if (is_word) {
            env_list_add(out, buf_steal(&word));
            is_word = false;
        }
    }
    if (quote)
        return fail(err, ERR_USAGE, "'%s': a quote is not closed", text);
    if (is_word)
        env_list_add(out, buf_steal(&word));
    return 0;
}
