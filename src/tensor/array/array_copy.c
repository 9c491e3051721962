/* SPDX-License-Identifier: Apache-2.0
 *
 * The elements of a new array, from those that its pieces are of. Row-major pieces follow one another.
 * Where the first dimension varies fastest, a column of the new array is the pieces' columns one
 * behind the other, so each piece is read through a window of its own. A piece of that kind in a
 * row-major array is turned, a block of rows at a time.
 */
#include "base/cleanup.h"
#include "base/xalloc.h"
#include "tensor/array/array_plan.h"

enum {
    WINDOW_BYTES = 256 * 1024,
    WINDOWS_BYTES = 4 << 20, /* of all pieces together */
    WINDOW_BYTES_MIN = 1024,
    BLOCK_BYTES = 4 << 20, /* of rows that are turned */
    AHEAD_BYTES = 4096,    /* of a column: to read it costs no more than another call */
    AHEAD_MAX = 4          /* times what is wanted */
};

/* ---- row-major ---- */

static int rows_pass(const struct array_plan *plan, const struct array_piece *piece,
                     const struct array_sink *sink, struct err *err)
{
    struct array *array = array_of_piece(plan, piece);
    uint64_t at = piece->first_row * array_row_bytes(array);
    bool is_whole = piece->n_rows == array_n_rows(array);
    uint64_t end = is_whole ? array->bytes : at + piece->n_rows * array_row_bytes(array);
    cleanup_free char *window = xmalloc(WINDOW_BYTES);
    int rc = 0;
    while (rc == 0 && at < end) {
        size_t len = (size_t)MIN(end - at, (uint64_t)WINDOW_BYTES);
        rc = array_read(&plan->set->files[piece->file], array, at, window, len, err);
        if (rc == 0)
            rc = sink->put(sink->context, (struct str){window, len}, err);
        at += len;
    }
    return rc;
}

/* ---- columns ---- */

/* The rows of a piece in each of its columns. */
struct columns {
    struct array_file *file;
    struct array *array;
    uint64_t column_bytes; /* of the array that the piece is of */
    uint64_t skip, take;   /* in each column */
    char *window;
    size_t cap, len;
    uint64_t at; /* of the window in the data */
};

static uint64_t column_count(const struct array *array)
{
    uint64_t n = 1;
    for (size_t i = 1; i < array->n_dims; i++)
        n *= array->shape[i];
    return n;
}

static struct columns columns_of(const struct array_plan *plan, const struct array_piece *piece,
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

/* Beyond what is wanted only where the columns that come next are near. */
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

static int column_pass(struct columns *c, uint64_t column, const struct array_sink *sink,
                       struct err *err)
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

static int columns_pass(const struct array_plan *plan, const struct array_new *made,
                        const struct array_sink *sink, struct err *err)
{
    size_t window_bytes = MIN((size_t)WINDOW_BYTES, MAX((size_t)WINDOWS_BYTES / made->n_pieces,
                                                        (size_t)WINDOW_BYTES_MIN));
    struct columns *columns = xcalloc(made->n_pieces, sizeof(*columns));
    int rc = 0;
    for (size_t i = 0; i < made->n_pieces; i++)
        columns[i] = columns_of(plan, &plan->pieces[made->first_piece + i], window_bytes);
    uint64_t n_columns = column_count(made->like);
    for (uint64_t column = 0; column < n_columns && rc == 0; column++)
        for (size_t i = 0; i < made->n_pieces && rc == 0; i++)
            rc = column_pass(&columns[i], column, sink, err);
    for (size_t i = 0; i < made->n_pieces; i++)
        free(columns[i].window);
    free(columns);
    return rc;
}

/* ---- turning ---- */

/* A block of rows, filled a column at a time. */
struct block {
    char *at;
    uint64_t row_bytes, element_bytes;
    uint64_t place;  /* of the column in a row, in bytes */
    uint64_t n_done; /* bytes of the column */
};

/* A window may end within an element. */
static int block_put(void *context, struct str bytes, struct err *err)
{
    struct block *block = context;
    (void)err;
    while (bytes.len > 0) {
        uint64_t row = block->n_done / block->element_bytes;
        uint64_t within = block->n_done % block->element_bytes;
        size_t len = (size_t)MIN(block->element_bytes - within, (uint64_t)bytes.len);
        memcpy(block->at + row * block->row_bytes + block->place + within, bytes.at, len);
        block->n_done += len;
        bytes = (struct str){bytes.at + len, bytes.len - len};
    }
    return 0;
}

/* Where in a row the column stands that has this number in the order of the columns. */
static uint64_t column_place(const struct array *array, uint64_t column)
{
    uint64_t place = 0;
    for (size_t i = 1; i < array->n_dims; i++) {
        uint64_t stride = array->element_bits / 8;
        for (size_t k = i + 1; k < array->n_dims; k++)
            stride *= array->shape[k];
        place += column % array->shape[i] * stride;
        column /= array->shape[i];
    }
    return place;
}

static int block_turn(const struct array_plan *plan, const struct array_piece *piece,
                      struct block *block, struct err *err)
{
    struct columns columns = columns_of(plan, piece, WINDOW_BYTES);
    const struct array_sink sink = {block_put, block};
    uint64_t n_columns = column_count(columns.array);
    int rc = 0;
    for (uint64_t column = 0; column < n_columns && rc == 0; column++) {
        block->place = column_place(columns.array, column);
        block->n_done = 0;
        if (plan->is_stopped && plan->is_stopped())
            rc = fail(err, ERR_STOPPED, "stopped");
        if (rc == 0)
            rc = column_pass(&columns, column, &sink, err);
    }
    free(columns.window);
    return rc;
}

static int rows_turn(const struct array_plan *plan, const struct array_piece *piece,
                     const struct array_sink *sink, struct err *err)
{
    const struct array *array = array_of_piece(plan, piece);
    uint64_t row_bytes = array_row_bytes(array);
    if (row_bytes > BLOCK_BYTES)
        return fail(err, ERR_DATA,
                    "%s: a row of %lu bytes, column by column, is too large to be turned into "
                    "row-major order as the other files have it; save them all in one order",
                    plan->set->files[piece->file].path, row_bytes);
    uint64_t rows_max = BLOCK_BYTES / row_bytes, end = piece->first_row + piece->n_rows;
    struct block block = {.row_bytes = row_bytes, .element_bytes = array->element_bits / 8};
    block.at = xmalloc(MIN(rows_max, piece->n_rows) * row_bytes);
    int rc = 0;
    for (uint64_t row = piece->first_row; row < end && rc == 0; row += rows_max) {
        struct array_piece part = *piece;
        part.first_row = row;
        part.n_rows = MIN(rows_max, end - row);
        rc = block_turn(plan, &part, &block, err);
        if (rc == 0)
            rc = sink->put(sink->context, (struct str){block.at, part.n_rows * row_bytes}, err);
    }
    free(block.at);
    return rc;
}

/* ---- any of them ---- */

int array_copy(const struct array_plan *plan, const struct array_new *made,
               const struct array_sink *sink, struct err *err)
{
    int rc = 0;
    if (made->bytes == 0)
        return 0;
    if (made->is_fortran)
        return columns_pass(plan, made, sink, err);
    for (size_t i = 0; i < made->n_pieces && rc == 0; i++) {
        const struct array_piece *piece = &plan->pieces[made->first_piece + i];
        bool is_turned = array_of_piece(plan, piece)->is_fortran;
        rc = (is_turned ? rows_turn : rows_pass)(plan, piece, sink, err);
    }
    return rc;
}
