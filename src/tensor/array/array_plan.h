/* SPDX-License-Identifier: Apache-2.0
 *
 * A new file of arrays, before it is written: each array is made of rows of those that were read. What
 * a merge makes and what a part of a split is are both plans; a format writes any plan.
 */
#pragma once

#include "base/outfile.h"
#include "base/stop.h"
#include "tensor/array/array.h"

struct array_piece {
    uint32_t file, array;
    uint64_t first_row, n_rows;
};

struct array_new {
    const struct array *like; /* its first piece's: name, type, dimensions but for the first */
    uint64_t n_rows, bytes;
    bool is_fortran; /* as the pieces are; or row-major, and such pieces are transposed */
    size_t first_piece, n_pieces;
};

struct array_plan {
    struct array_set *set;
    struct array_new *at;
    size_t len, cap;
    struct array_piece *pieces;
    size_t n_pieces, cap_pieces;
    struct buf metadata; /* of safetensors: an object, or empty */
    struct stop stop;
    /* No other plan needs the arrays: when they are written, or would be, they are compared with their
     * checksums and done with. */
    bool is_only;
};

/* Behind the others; the pieces that follow are its. */
void array_plan_add(struct array_plan *plan, const struct array *like);
void array_plan_piece(struct array_plan *plan, struct array_piece piece);
/* All rows. */
void array_plan_whole(struct array_plan *plan, uint32_t file, uint32_t array);
/* As the reference writer of safetensors places them: by type, the widest first, then by name. */
void array_plan_sort(struct array_plan *plan);
void array_plan_release(struct array_plan *plan);

static inline struct array *array_of_piece(const struct array_plan *plan,
                                           const struct array_piece *piece)
{
    return &plan->set->files[piece->file].arrays[piece->array];
}

/* Where the elements of a new array go, one after the other. */
struct array_sink {
    int (*put)(void *context, struct str bytes, struct err *err);
    void *context;
};
MUST_CHECK int array_copy(const struct array_plan *plan, const struct array_new *made,
                          const struct array_sink *sink, struct err *err);

/* Bytes of a header of safetensors: of none of the arrays; what one more adds to it, at most, whose
 * data begin at `at`. */
uint64_t array_head_bytes(const struct array_plan *plan);
uint64_t array_head_more(const struct array_new *made, uint64_t at);
/* The whole file; `out` NULL: its size only. ERR_DATA where the format cannot hold it. */
MUST_CHECK int array_write(struct array_plan *plan, struct outfile *out, uint64_t *n_bytes,
                           struct err *err);
