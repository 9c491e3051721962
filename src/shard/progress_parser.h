/* SPDX-License-Identifier: Apache-2.0
 *
 * How far a program is, from what it prints anyway. Pure.
 *
 *   [PROGRESS:5/100|acc:0.8500|correct:85/100]       anywhere in a line; the latest one counts
 *   eval:  45%|####5     | 45/100 [00:10<00:12, …]   tqdm's bars, by \r or in lines
 *
 * A program draws bars of other things as well: weights that load, files that come, the tokens of an
 * answer. Only a bar whose total is the number of the shard's items, or of its batches where their size
 * is known, is believed, and its latest state counts; once there is a marker, none is.
 */
#pragma once

#include "base/buf.h"

enum {
    MARKER_LINE_MAX = 1024 /* bytes; what is longer holds no marker */
};

struct progress_parser {
    uint64_t n_items;       /* to do */
    uint64_t n_batches;     /* they come in; 0: not known */
    uint64_t done, total;   /* total 0: nothing was seen yet */
    uint64_t correct, seen; /* seen 0: not said */
    bool is_marked;         /* by a marker, not by a bar */
    char line[MARKER_LINE_MAX];
    size_t len;
    bool is_long; /* the rest of a line that did not fit passes through */
};

/*
 * More of what it prints. *rest gets what is worth showing: everything but lines with a marker. An
 * unfinished line may be held back until its end comes.
 */
void progress_parser_feed(struct progress_parser *progress_parser, struct str bytes,
                          struct buf *rest);
/* The stream has ended. */
void progress_parser_end(struct progress_parser *progress_parser, struct buf *rest);
/* Of n_items, how many are done, as far as is known. */
uint64_t progress_parser_items_done(const struct progress_parser *progress_parser);
