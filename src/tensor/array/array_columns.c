/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/array/array_columns.h"

#include "base/xalloc.h"

enum {
    AHEAD_BYTES = 4096, /* reading a column of this size costs no more than another call */
    AHEAD_MAX = 4       /* a column of at most this many times the wanted bytes is read whole */
};

uint64_t column_count(const struct array *array)
{
    uint64_t n = 1;
    for (size_t i = 1; i < array->n_dims; i++)
        n *= array->shape[i];
    return n;
}

struct columns columns_of(const struct array_plan *plan, const struct array_piece *piece,
                          size_t window_bytes)
{
    struct array *array = array_of_piece(plan, piece);
    uint64_t element_bytes = array->element_bits / 8;
    return (struct columns){.file = &plan->set->files[piece->file],
                            .array = array,
                            .column_bytes = array_n_rows(array) * element_bytes,
                            .skip = piece->first_row * element_bytes,
                            .take = piece->n_rows * element_bytes,
                            .window = xmalloc(window_bytes),
                            .cap = window_bytes};
}

/* Reads ahead, beyond the wanted bytes, only where the next columns are near. */
static int window_fill(struct columns *c, uint64_t from, uint64_t to, struct err *err)
{
    bool is_near = c->column_bytes <= c->cap / 2 &&
                   c->column_bytes <= MAX(AHEAD_MAX * c->take, (uint64_t)AHEAD_BYTES);
    bool is_dense = c->take == c->column_bytes || is_near;
    uint64_t end = is_dense ? c->array->bytes : to;
    c->at = from;
    c->len = (size_t)MIN(end - from, (uint64_t)c->cap);
    return array_read(c->file, c->array, from, c->window, c->len, err);
}

int column_pass(struct columns *c, uint64_t column, const struct array_sink *sink, struct err *err)
{
    uint64_t from = column * c->column_bytes + c->skip, to = from + c->take;
    int rc = 0;
    while (rc == 0 && from < to) {
        if (from < c->at || from >= c->at + c->len)
            rc = window_fill(c, from, to, err);
        if (rc)
            break;
        size_t offset = (size_t)(from - c->at);
        size_t len = (size_t)MIN(to - from, (uint64_t)(c->len - offset));
        rc = sink->put(sink->context, (struct str){c->window + offset, len}, err);
        from += len;
    }
    return rc;
}
