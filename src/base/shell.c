/* SPDX-License-Identifier: Apache-2.0 */
#include "base/shell.h"

#include <string.h>

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
