/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of a cut:
 *   cut.c       opening, and the parts as files that appear together
 *   cut_plan.c  which records go where
 *   cut_copy.c  one part's bytes, looked at on their way
 *   cut_name.c  what parts are called, and which are there already
 */
#pragma once

#include "base/outfile.h"
#include "data/cut/cut.h"
#include "data/ends/rows.h"
#include "data/source_impl.h"

struct cut {
    struct cut_opts opts; /* its paths are the caller's, used by cut_open only */
    struct source *source;
    struct cut_part *parts;
    size_t n_parts, cap;
    bool (*is_stopped)(void);

    struct buf head;        /* of every part: the CSV header with its line end; "[" */
    struct buf lead, trail; /* JSON: the white space behind "[" and before "]" */

    char *window;
    size_t n_kept; /* bytes at its beginning that rows have not seen yet: less than a block */
    struct rows rows;
    uint64_t rows_from; /* where in the file its positions count from */
    uint64_t n_rows;    /* before that, of the piece */
    struct cursor look; /* at rows that are not plain, and at elements */
    struct csv_row row;
    uint64_t n_mended;
};

/* For tests: windows this small put every boundary everywhere. A multiple of 64. */
MUST_CHECK int cut_open_tuned(struct cut **out, const struct cut_opts *opts, size_t window_bytes,
                              struct err *err);

MUST_CHECK int cut_plan(struct cut *cut, struct err *err);
/* What every part begins with, and the white space of arrays. */
MUST_CHECK int cut_frame(struct cut *cut, struct err *err);
/* Of lines and JSONL, what the first part begins with as the input does: a byte-order mark, or "". */
struct str cut_mark(const struct cut *cut);
/* The part into `file`, or nowhere if that is NULL. Sets its n_bytes. */
MUST_CHECK int cut_copy(struct cut *cut, struct cut_part *part, struct outfile *file,
                        struct err *err);
