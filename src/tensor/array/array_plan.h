/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan of a new file of arrays: each new array consists of rows of arrays in the input files.
 * The result of a merge and a part of a split are both plans, and every format can write every
 * plan.
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
    /*
     * The array that gives the new array its name, its type, and its dimensions except the first.
     * Pieces of another type are converted (array_cast.h).
     */
    const struct array *like;
    uint64_t n_rows, bytes;
    bool is_fortran; /* column-major, as are all pieces; else column-major pieces are transposed */
    size_t first_piece, n_pieces;
};

struct array_plan {
    struct array_set *set;
    struct array_new *at;
    size_t len, cap;
    struct array_piece *pieces;
    size_t n_pieces, cap_pieces;
    struct buf metadata; /* safetensors: an object, or empty */
    struct stop stop;
    /*
     * No other plan needs the arrays: after each array is written (or measured), it is compared
     * with its checksum, and its unpacked bytes are freed.
     */
    bool is_only;
};

/* Adds an array as the last one; the pieces that are added next belong to it. */
void array_plan_add(struct array_plan *plan, const struct array *like);
void array_plan_piece(struct array_plan *plan, struct array_piece piece);
/* Adds an array that consists of all rows of one input array. */
void array_plan_whole(struct array_plan *plan, uint32_t file, uint32_t array);
/* Sorts the arrays as the reference writer of safetensors places them: by type, the widest first,
 * then by name. */
void array_plan_sort(struct array_plan *plan);
void array_plan_release(struct array_plan *plan);

static inline struct array *array_of_piece(const struct array_plan *plan,
                                           const struct array_piece *piece)
{
    return &plan->set->files[piece->file].arrays[piece->array];
}

/* Takes the bytes of a new array's elements, in order. */
struct array_sink {
    int (*put)(void *context, struct str bytes, struct err *err);
    void *context;
};
MUST_CHECK int array_copy(const struct array_plan *plan, const struct array_new *made,
                          const struct array_sink *sink, struct err *err);

/*
 * array_head_bytes(): the bytes of a safetensors header without any array. array_head_more(): how
 * many bytes one more array adds at most, if its data begin at `at`.
 */
uint64_t array_head_bytes(const struct array_plan *plan);
uint64_t array_head_more(const struct array_new *made, uint64_t at);
/* Writes the whole file; `out` NULL: only finds its size. ERR_DATA where the format cannot hold the
 * plan. */
MUST_CHECK int array_write(struct array_plan *plan, struct outfile *out, uint64_t *n_bytes,
                           struct err *err);
