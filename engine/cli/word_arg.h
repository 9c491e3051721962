/* SPDX-License-Identifier: Apache-2.0
 *
 * The value of an option that is one of a few words.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

struct word_arg {
    const char *text;
    int value;
};

/* ERR_USAGE lists the words. */
MUST_CHECK int word_arg_parse(struct str text, const struct word_arg *words, size_t n_words,
                              int *value, struct err *err);
