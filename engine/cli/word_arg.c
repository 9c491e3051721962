/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/word_arg.h"

int word_arg_parse(struct str text, const struct word_arg *words, size_t n_words, int *value,
                   struct err *err)
{
    cleanup_buf struct buf known = BUF_INIT;
    for (size_t i = 0; i < n_words; i++) {
        buf_addf(&known, "%s%s", i == 0 ? "" : i + 1 < n_words ? ", " : " or ", words[i].text);
        if (!str_equal(text, str_of(words[i].text)))
            continue;
        *value = words[i].value;
        return 0;
    }
    return fail(err, ERR_USAGE, "expected %s, found '%.*s'", buf_text(&known), (int)text.len,
                text.at);
}
