/* SPDX-License-Identifier: Apache-2.0
 *
 * Splits a file of arrays into parts of the same kind. By rows: each part has a range of the rows
 * of every array, and arrays without a dimension as a whole; all arrays must have the same number
 * of rows. By names, for safetensors: each part has a range of whole tensors, in the order in which
 * the safetensors library places them.
 */
#pragma once

#include "tensor/array/array_plan.h"

enum {
    ARRAY_PARTS_MAX = 100000
};

struct array_split_opts {
    bool by_rows;
    struct stop stop;
    /* Exactly one of these three is not 0: */
    uint64_t n_parts;     /* rows: even, the first parts one more; names: balanced by bytes */
    uint64_t records_max; /* rows or names of a part */
    uint64_t bytes_max;   /* of a part's file, but never less than one row or name */
};

/* A range of rows, or of names. */
struct array_part {
    uint64_t first, n_records;
};

struct array_split;

/* An index file is replaced by its shards. ERR_DATA where there is no dimension to split along. */
MUST_CHECK int array_split_open(struct array_split **out, enum tensor_kind kind, const char *path,
                                const struct array_split_opts *opts, struct err *err);
void array_split_close(struct array_split *split);
/* Borrowed. There is at least one part. */
const struct array_part *array_split_parts(const struct array_split *split, size_t *n_parts);
bool array_split_is_input(const struct array_split *split, const struct stat *st);
size_t array_split_n_files(const struct array_split *split);
/* Writes a part; `out` NULL: only finds its size. The call for the last part compares all arrays
 * with their checksums. */
MUST_CHECK int array_split_fill(struct array_split *split, size_t part, struct outfile *out,
                                uint64_t *n_bytes, struct err *err);
/* After a split by names: adds the text of model.safetensors.index.json for parts with these
 * names. */
void array_split_index(const struct array_split *split, const char *const *names, struct buf *out);
