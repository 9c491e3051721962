/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of a split:
 *   split.c       opening, and the parts as files that appear together
 *   split_plan.c  which records go into which part
 *   split_copy.c  copies one part's bytes, and checks them
 *   split_name.c  what parts are called, and which are there already
 */
#pragma once

#include "base/outfile.h"
#include "data/boundaries/rows.h"
#include "data/source_impl.h"
#include "data/split/split.h"

struct split {
    struct split_opts opts; /* its paths are the caller's, and used by split_open() only */
    struct source *source;
    struct split_part *parts;
    size_t n_parts, cap;
    struct stop stop;

    struct buf head;        /* what every part begins with: the CSV header with its line end; "[" */
    struct buf lead, trail; /* JSON: the white space behind "[" and before "]" */

    char *window;
    size_t n_kept; /* bytes at its beginning that `rows` has not seen yet: less than a block */
    struct rows rows;
    uint64_t rows_from; /* the offset in the file that the positions in `rows` count from */
    uint64_t n_rows;    /* rows of the piece before rows_from */
    struct cursor look; /* for rows that are not plain, and for elements */
    struct csv_row row;
    uint64_t n_terminated;
};

/* For tests: with small windows a boundary falls on every kind of byte. window_bytes is a multiple
 * of 64. */
MUST_CHECK int split_open_tuned(struct split **out, const struct split_opts *opts,
                                size_t window_bytes, struct err *err);

MUST_CHECK int split_plan(struct split *split, struct err *err);
/* Finds what every part begins with, and the white space of arrays. */
MUST_CHECK int split_frame(struct split *split, struct err *err);
/* What the first part of lines and JSONL begins with: the input's byte-order mark, or "". */
struct str split_mark(const struct split *split);
/* Checks the part and copies it into `file`, or only checks it if `file` is NULL. Sets
 * part->n_bytes. */
MUST_CHECK int split_copy(struct split *split, struct split_part *part, struct outfile *file,
                          struct err *err);
