/* SPDX-License-Identifier: Apache-2.0
 *
 * The progress of a program, from what it prints. Pure.
 *
 *   [PROGRESS:5/100|acc:0.8500|correct:85/100]       anywhere in a line; the latest one counts
 *   eval:  45%|####5     | 45/100 [00:10<00:12, …]   tqdm's bars, by \r or in lines
 *
 * A program may also draw bars about other things: loading weights, downloads, the tokens of an
 * answer. So a bar counts only if its total is the number of the shard's items, or of its batches
 * if the batch size is known; its latest state counts. Once there is a marker, bars are ignored.
 */
#pragma once

#include "base/buf.h"

enum {
    MARKER_LINE_MAX = 1024 /* bytes; a longer line is not searched for a marker */
};

struct progress_parser {
    uint64_t n_items;       /* of the shard */
    uint64_t n_batches;     /* batches that the items make; 0: not known */
    uint64_t done, total;   /* total 0: no progress was seen yet */
    uint64_t correct, seen; /* seen 0: not known */
    bool is_marked;         /* the progress is from a marker, not from a bar */
    char line[MARKER_LINE_MAX];
    size_t len;
    bool is_long; /* inside a line that was too long; its rest is passed on */
};

/*
 * Takes more output. *rest gets what the user is to see: everything but lines with a marker. An
 * unfinished line may be held back until its end comes.
 */
void progress_parser_feed(struct progress_parser *progress_parser, struct str bytes,
                          struct buf *rest);
/* To be called when the stream has ended. */
void progress_parser_end(struct progress_parser *progress_parser, struct buf *rest);
/* How many of n_items are done, as far as is known. */
uint64_t progress_parser_items_done(const struct progress_parser *progress_parser);
