/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of a merge of results: result_merge.c walks the ranges and proves that they are
 * complete, record_out.c writes records in the format of the output, record_join.c joins input and
 * result.
 */
#pragma once

#include "base/name_index.h"
#include "base/outfile.h"
#include "data/csv.h"
#include "data/part_cache.h"
#include "data/result_merge.h"

struct record_out {
    const struct result_merge_opts *opts;
    enum out_format format;
    struct outfile *file;
    uint64_t n_records;
    char separator; /* CSV, TSV */
    /* CSV: the columns, named by the first record unless they are known, and the values of the
     * current row. */
    struct name_index columns;
    struct str *cells;     /* NULL: there are no columns yet */
    bool fills_columns;    /* a column that a record lacks is empty in its row */
    struct buf name, text; /* scratch */
    struct buf input, joined;
};

/* True if results go out byte for byte. */
bool record_out_is_verbatim(const struct record_out *out);
void record_out_begin(struct record_out *out);
MUST_CHECK int record_out_add(struct record_out *out, uint64_t item, struct str line,
                              struct err *err);
/*
 * Sets the columns of CSV for an output without records. Does nothing if a record has named the
 * columns already.
 */
void record_out_columns(struct record_out *out, const struct csv_row *columns);
void record_out_end(struct record_out *out);
void record_out_release(struct record_out *out);

/*
 * Adds an object with the input's members, then the result's, which replace those of the same key;
 * {"input":…,"result":…} unless both are objects.
 */
MUST_CHECK int join_records(struct str input, struct str result, struct buf *out, struct err *err);
