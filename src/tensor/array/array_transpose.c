/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes column-major arrays on in row-major order with bounded memory. Where a block of rows has a
 * long run of every column, all columns are read once for each block. Where rows are so wide that a
 * block has only a few bytes of each column, that would be one read for those few bytes. There the
 * array is first cut into tiles, of some columns and many rows each; the tiles are transposed and
 * written to a nameless file in TMPDIR, and a block of rows is then read from every tile.
 */
#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "tensor/array/array_columns.h"
#include "tensor/pread.h"

enum {
    BLOCK_BYTES = 4 << 20, /* bytes of a block of rows, and of a tile */
    TAKE_BYTES_MIN = 2048, /* fewest bytes of a column that are worth a read call */
    TILE_COLUMN_BYTES = 1 << 16
};

/* ---- columns into rows ---- */

/* Rows that are filled a column at a time. */
struct block {
    char *at;
    uint64_t row_bytes, element_bytes;
    uint64_t place;  /* offset of the column in a row, in bytes */
    uint64_t n_done; /* bytes of the column that are filled */
};

/* Puts bytes of a column into the rows; they may end within an element. */
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

static int column_put(struct columns *columns, uint64_t column, struct block *block, uint64_t place,
                      struct err *err)
{
    const struct array_sink sink = {block_put, block};
    block->place = place;
    block->n_done = 0;
    return column_pass(columns, column, &sink, err);
}

/* The offset within a row of the column with this number in column-major order. */
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

static int block_transpose(const struct array_plan *plan, const struct array_piece *piece,
                           struct block *block, struct err *err)
{
    struct columns columns = columns_of(plan, piece, COLUMNS_WINDOW_BYTES);
    uint64_t n_columns = column_count(columns.array);
    int rc = 0;
    for (uint64_t column = 0; column < n_columns && rc == 0; column++) {
        rc = stop_check(plan->stop, err);
        if (rc == 0)
            rc = column_put(&columns, column, block, column_place(columns.array, column), err);
    }
    free(columns.window);
    return rc;
}

/* Transposes one block of rows at a time, reading all columns for each. */
static int blocks_transpose(const struct array_plan *plan, const struct array_piece *piece,
                            const struct array_sink *sink, struct err *err)
{
    const struct array *array = array_of_piece(plan, piece);
    uint64_t row_bytes = array_row_bytes(array);
    uint64_t rows_max = BLOCK_BYTES / row_bytes, end = piece->first_row + piece->n_rows;
    struct block block = {.row_bytes = row_bytes, .element_bytes = array->element_bits / 8};
    block.at = xmalloc(MIN(rows_max, piece->n_rows) * row_bytes);
    int rc = 0;
    for (uint64_t row = piece->first_row; row < end && rc == 0; row += rows_max) {
        struct array_piece part = *piece;
        part.first_row = row;
        part.n_rows = MIN(rows_max, end - row);
        rc = block_transpose(plan, &part, &block, err);
        if (rc == 0)
            rc = sink->put(sink->context, (struct str){block.at, part.n_rows * row_bytes}, err);
    }
    free(block.at);
    return rc;
}

/* ---- tiles ---- */

struct tiles {
    const struct array_plan *plan;
    struct array_piece piece; /* the rows that are in the tiles */
    const struct array *array;
    uint64_t n_columns, per_tile; /* columns */
    uint64_t element_bytes;
    int fd; /* all tiles, one behind the other */
};

/* The number of columns of the tile that begins with column `first`; the last tile may have
 * fewer. */
static uint64_t tile_columns(const struct tiles *t, uint64_t first)
{
    return MIN(t->per_tile, t->n_columns - first);
}

static int tiles_write(const struct tiles *t, struct err *err)
{
    struct columns columns = columns_of(t->plan, &t->piece, COLUMNS_WINDOW_BYTES);
    struct block block = {.element_bytes = t->element_bytes};
    block.at = xmalloc(t->per_tile * t->piece.n_rows * t->element_bytes);
    int rc = 0;
    uint64_t at = 0;
    for (uint64_t first = 0; first < t->n_columns && rc == 0; first += t->per_tile) {
        uint64_t n = tile_columns(t, first);
        block.row_bytes = n * t->element_bytes;
        rc = stop_check(t->plan->stop, err);
        for (uint64_t k = 0; k < n && rc == 0; k++)
            rc = column_put(&columns, first + k, &block, k * t->element_bytes, err);
        size_t len = (size_t)(block.row_bytes * t->piece.n_rows);
        if (rc == 0 && (rc = pwrite_all(t->fd, block.at, len, (off_t)at, err)) != 0)
            wrap(err, rc, "%s: turn it in TMPDIR", t->plan->set->files[t->piece.file].path);
        at += len;
    }
    free(block.at);
    free(columns.window);
    return rc;
}

/* Reads the rows [row, row + n_rows) of the tile that begins with column `first`. */
static int tile_read(const struct tiles *t, uint64_t first, uint64_t row, uint64_t n_rows, char *at,
                     struct err *err)
{
    uint64_t width = tile_columns(t, first) * t->element_bytes;
    uint64_t begin = first * t->piece.n_rows * t->element_bytes;
    return pread_exact(t->fd, at, (size_t)(n_rows * width), begin + row * width, "TMPDIR", err);
}

/*
 * Writes rows that are longer than a block. Only for two dimensions, where the columns of a row
 * have the order of their numbers.
 */
static int wide_rows_put(const struct tiles *t, const struct array_sink *sink, struct err *err)
{
    cleanup_free char *segment = xmalloc(t->per_tile * t->element_bytes);
    int rc = 0;
    for (uint64_t row = 0; row < t->piece.n_rows && rc == 0; row++) {
        for (uint64_t first = 0; first < t->n_columns && rc == 0; first += t->per_tile) {
            rc = tile_read(t, first, row, 1, segment, err);
            if (rc == 0)
                rc = sink->put(
                    sink->context,
                    (struct str){segment, (size_t)(tile_columns(t, first) * t->element_bytes)},
                    err);
        }
    }
    return rc;
}

/* Copies the bytes that were read from a tile into rows of the array. */
static void segment_place(const struct tiles *t, const char *from, uint64_t first, uint64_t n_rows,
                          char *to)
{
    uint64_t n = tile_columns(t, first), width = n * t->element_bytes;
    uint64_t row_bytes = array_row_bytes(t->array);
    if (t->array->n_dims == 2) {
        for (uint64_t i = 0; i < n_rows; i++)
            memcpy(to + i * row_bytes + first * t->element_bytes, from + i * width, width);
        return;
    }
    for (uint64_t k = 0; k < n; k++) {
        uint64_t place = column_place(t->array, first + k);
        for (uint64_t i = 0; i < n_rows; i++)
            memcpy(to + i * row_bytes + place, from + i * width + k * t->element_bytes,
                   t->element_bytes);
    }
}

static int rows_put(const struct tiles *t, const struct array_sink *sink, struct err *err)
{
    uint64_t row_bytes = array_row_bytes(t->array);
    ASSERT(row_bytes > 0);
    uint64_t rows_max = MIN(BLOCK_BYTES / row_bytes, t->piece.n_rows);
    cleanup_free char *rows = xmalloc(rows_max * row_bytes);
    cleanup_free char *segment = xmalloc(rows_max * t->per_tile * t->element_bytes);
    int rc = 0;
    for (uint64_t row = 0; row < t->piece.n_rows && rc == 0; row += rows_max) {
        uint64_t n_rows = MIN(rows_max, t->piece.n_rows - row);
        for (uint64_t first = 0; first < t->n_columns && rc == 0; first += t->per_tile) {
            rc = tile_read(t, first, row, n_rows, segment, err);
            if (rc == 0)
                segment_place(t, segment, first, n_rows, rows);
        }
        if (rc == 0)
            rc = sink->put(sink->context, (struct str){rows, n_rows * row_bytes}, err);
    }
    return rc;
}

/* Transposes through tiles in TMPDIR. *has_room false: TMPDIR is full, and nothing was passed
 * on. */
static int tiles_transpose(const struct array_plan *plan, const struct array_piece *piece,
                           const struct array_sink *sink, bool *has_room, struct err *err)
{
    const struct array *array = array_of_piece(plan, piece);
    cleanup_fd int fd = -1;
    struct tiles t = {.plan = plan,
                      .piece = *piece,
                      .array = array,
                      .n_columns = column_count(array),
                      .element_bytes = array->element_bits / 8};
    uint64_t end = piece->first_row + piece->n_rows;
    uint64_t rows_max = MAX(TILE_COLUMN_BYTES / t.element_bytes, (uint64_t)1);
    int rc = spool_open(&fd, err);
    t.fd = fd;
    for (; t.piece.first_row < end && rc == 0; t.piece.first_row += rows_max) {
        t.piece.n_rows = MIN(rows_max, end - t.piece.first_row);
        t.per_tile = MAX(BLOCK_BYTES / (t.piece.n_rows * t.element_bytes), (uint64_t)1);
        t.per_tile = MIN(t.per_tile, t.n_columns);
        rc = tiles_write(&t, err);
        bool is_full = rc && err && errno_means_full(err->sys);
        *has_room = !is_full || t.piece.first_row > piece->first_row;
        if (rc == 0)
            rc = (array_row_bytes(array) > BLOCK_BYTES ? wide_rows_put : rows_put)(&t, sink, err);
    }
    return rc;
}

/* ---- whichever is better ---- */

int array_transpose(const struct array_plan *plan, const struct array_piece *piece,
                    const struct array_sink *sink, struct err *err)
{
    const struct array *array = array_of_piece(plan, piece);
    uint64_t row_bytes = array_row_bytes(array), element_bytes = array->element_bits / 8;
    bool has_room = true, fits = row_bytes <= BLOCK_BYTES;
    ASSERT(row_bytes > 0); /* an array without bytes has no order, so it is never transposed */
    if (!fits && (array->n_dims > 2 || element_bytes > BLOCK_BYTES))
        return fail(err, ERR_DATA,
                    "%s: a row of %lu bytes, column by column, is too large to be turned into "
                    "row-major order as the other files have it; save them all in one order",
                    plan->set->files[piece->file].path, row_bytes);
    bool is_wide = BLOCK_BYTES / row_bytes * element_bytes < TAKE_BYTES_MIN &&
                   piece->n_rows > BLOCK_BYTES / row_bytes;
    if (!is_wide && fits)
        return blocks_transpose(plan, piece, sink, err);
    int rc = tiles_transpose(plan, piece, sink, &has_room, err);
    return rc && !has_room && fits ? blocks_transpose(plan, piece, sink, err) : rc;
}
