/* SPDX-License-Identifier: Apache-2.0 */
#include "base/choice.h"

#include "base/cleanup.h"

enum {
    FOUND_MAX = 60 /* bytes of a wrong word that a message repeats */
};

void choices_list(const struct choice *choices, struct buf *out)
{
    for (size_t i = 0; choices[i].word; i++)
        buf_addf(out, "%s%s", i == 0 ? "" : choices[i + 1].word ? ", " : " or ", choices[i].word);
}

int choice_parse(struct str text, const struct choice *choices, int *value, struct err *err)
{
    cleanup_buf struct buf words = BUF_INIT;
    for (const struct choice *choice = choices; choice->word; choice++) {
        if (!str_equal(text, str_of(choice->word)))
            continue;
        *value = choice->value;
        return 0;
    }
    choices_list(choices, &words);
    return fail(err, ERR_USAGE, "expected %s, found '%.*s'", buf_text(&words),
                (int)MIN(text.len, (size_t)FOUND_MAX), text.at);
}

const char *choice_word(const struct choice *choices, int value)
{
    while (choices->word && choices->value != value)
        choices++;
    return choices->word;
}
