/* SPDX-License-Identifier: Apache-2.0
 *
 * What is wrong with a file's lines: counted by kind, with the number and the text of the first
 * such line. A line with a flaw is left out. A note is about something by which nothing is lost,
 * but of which the user should know.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

/* X(ID, is a flaw, "what such lines are") */
#define FLAWS(X)                                                                   \
    X(FIELDS, true, "without the right number of fields")                          \
    X(ENTITY, true, "with an entity that is not in the dictionary")                \
    X(RELATION, true, "with a relation that is not in the dictionary")             \
    X(INDEX, true, "with an index that is no whole number, or that nothing has")   \
    X(REPEATED_NAME, true, "with a name that an earlier line gives another index") \
    X(DUPLICATE, false, "repeated from earlier (and kept)")                        \
    X(BLANK, false, "blank")                                                       \
    X(CRLF, false, "ended with CR LF, as on Windows")                              \
    X(MARK, false, "begun with a byte-order mark")

enum flaw {
#define X(id, is_flaw, text) FLAW_##id,
    FLAWS(X)
#undef X
    FLAW_N
};

enum {
    FLAW_EXAMPLE_MAX = 80
};

struct flaws {
    struct flaw_count {
        uint64_t count, line;           /* line: the number of the first such line, from 1 */
        char example[FLAW_EXAMPLE_MAX]; /* the beginning of the text that was found there; may be
                                         * empty */
    } of[FLAW_N];
};

void flaw_add(struct flaws *flaws, enum flaw flaw, uint64_t line, struct str found);
/* The number of lines that are left out. */
uint64_t flaws_count(const struct flaws *flaws);
/*
 * ERR_DATA if lines are left out and is_lenient is false; its text names the first line of each
 * kind.
 */
MUST_CHECK int flaws_check(const struct flaws *flaws, const char *path, bool is_lenient,
                           struct err *err);
/*
 * Adds one line for each kind of flaw and note, such as "train.tsv: 3 lines repeated from earlier
 * …: the first is line 12\n".
 */
void flaws_format(const struct flaws *flaws, const char *path, struct buf *out);
