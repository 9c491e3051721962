/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/array/array_plan.h"

#include "base/cleanup.h"
#include "base/xalloc.h"
#include "tensor/array/array_columns.h"

void array_plan_add(struct array_plan *plan, const struct array *like)
{
    if (plan->len == plan->cap) {
        plan->cap = MAX(plan->cap * 2, (size_t)16);
        plan->at = xrealloc(plan->at, plan->cap * sizeof(*plan->at));
    }
    plan->at[plan->len++] = (struct array_new){.like = like, .first_piece = plan->n_pieces};
}

void array_plan_piece(struct array_plan *plan, struct array_piece piece)
{
    if (plan->n_pieces == plan->cap_pieces) {
        plan->cap_pieces = MAX(plan->cap_pieces * 2, (size_t)16);
        plan->pieces = xrealloc(plan->pieces, plan->cap_pieces * sizeof(*plan->pieces));
    }
    plan->pieces[plan->n_pieces++] = piece;
    struct array_new *made = &plan->at[plan->len - 1];
    const struct array *array = array_of_piece(plan, &piece);
    bool is_whole = piece.n_rows == array_n_rows(array);
    made->n_pieces++;
    made->n_rows += piece.n_rows;
    uint64_t bytes = is_whole ? array->bytes : piece.n_rows * array_row_bytes(array);
    if (array->element_bits != made->like->element_bits) /* texts that are widened */
        bytes = piece.n_rows * column_count(array) * (made->like->element_bits / 8);
    made->bytes += bytes;
}

void array_plan_whole(struct array_plan *plan, uint32_t file, uint32_t array)
{
    const struct array *of = &plan->set->files[file].arrays[array];
    array_plan_piece(plan, (struct array_piece){file, array, 0, array_n_rows(of)});
    plan->at[plan->len - 1].is_fortran = of->is_fortran;
}

static int place_order(const void *a, const void *b)
{
    const struct array *left = ((const struct array_new *)a)->like,
                       *right = ((const struct array_new *)b)->like;
    unsigned ranks[] = {safetensors_dtype_rank(left->dtype), safetensors_dtype_rank(right->dtype)};
    if (ranks[0] != ranks[1])
        return ranks[0] > ranks[1] ? -1 : 1;
    return str_compare(left->name, right->name);
}

void array_plan_sort(struct array_plan *plan)
{
    if (plan->len > 0)
        qsort(plan->at, plan->len, sizeof(*plan->at), place_order);
}

void array_plan_release(struct array_plan *plan)
{
    free(steal_ptr(&plan->at));
    free(steal_ptr(&plan->pieces));
    buf_release(&plan->metadata);
    plan->len = plan->n_pieces = 0;
}
