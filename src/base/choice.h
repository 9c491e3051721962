/* SPDX-License-Identifier: Apache-2.0
 *
 * Values that are typed as one of a few words, such as those of an option.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

/* A table ends with a row without a word. Of several words for one value, the first is printed. */
struct choice {
    const char *word;
    int value;
};

/* ERR_USAGE lists the words. */
MUST_CHECK int choice_parse(struct str text, const struct choice *choices, int *value,
                            struct err *err);
/* NULL: no word has this value. */
const char *choice_word(const struct choice *choices, int value);
/* "file or pykeen", "mean, pessimistic or optimistic". */
void choices_list(const struct choice *choices, struct buf *out);
