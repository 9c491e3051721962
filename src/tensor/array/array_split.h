/* SPDX-License-Identifier: Apache-2.0
 *
 * A file of arrays cut into parts of the same kind. By rows: each part has a stretch of every array's
 * rows, all of which have as many, and arrays without a dimension whole. By names, for safetensors:
 * each part has a stretch of the tensors, whole, in the order in which the library places them.
 */
#pragma once

#include "tensor/array/array_plan.h"

enum {
    ARRAY_PARTS_MAX = 100000
};

struct array_split_opts {
    bool by_rows;
    struct stop stop;
    /* Exactly one of them is not 0: */
    uint64_t n_parts;     /* rows by divmod, the remainder to the first; names balanced by bytes */
    uint64_t records_max; /* rows or names of a part */
    uint64_t bytes_max;   /* of a part's file, but never less than one row or name */
};

/* Of rows, or of names. */
struct array_part {
    uint64_t first, n_records;
};

struct array_split;

/* An index of shards stands for them. ERR_DATA where there is nothing to cut along. */
MUST_CHECK int array_split_open(struct array_split **out, enum tensor_kind kind, const char *path,
                                const struct array_split_opts *opts, struct err *err);
void array_split_close(struct array_split *split);
/* Borrowed. At least one. */
const struct array_part *array_split_parts(const struct array_split *split, size_t *n_parts);
bool array_split_is_input(const struct array_split *split, const struct stat *st);
size_t array_split_n_files(const struct array_split *split);
/* `out` NULL: its bytes only. With the last part everything has been compared with its checksums. */
MUST_CHECK int array_split_fill(struct array_split *split, size_t part, struct outfile *out,
                                uint64_t *n_bytes, struct err *err);
/* By names: model.safetensors.index.json of parts that are called so. */
void array_split_index(const struct array_split *split, const char *const *names, struct buf *out);
