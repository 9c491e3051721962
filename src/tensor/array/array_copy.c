/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies the elements of a new array from its pieces. Row-major pieces follow one another. In a
 * column-major array each column is made of the pieces' columns, one behind the other, so each
 * piece is read through a window of its own. A column-major piece of a row-major array is
 * transposed (array_transpose.c).
 */
#include "base/cleanup.h"
#include "base/xalloc.h"
#include "tensor/array/array_columns.h"

enum {
    WINDOWS_BYTES = 4 << 20, /* of all pieces together */
    WINDOW_BYTES_MIN = 1024
};

/* ---- row-major ---- */

static int rows_pass(const struct array_plan *plan, const struct array_piece *piece,
                     const struct array_sink *sink, struct err *err)
{
    struct array *array = array_of_piece(plan, piece);
    uint64_t at = piece->first_row * array_row_bytes(array);
    bool is_whole = piece->n_rows == array_n_rows(array);
    uint64_t end = is_whole ? array->bytes : at + piece->n_rows * array_row_bytes(array);
    cleanup_free char *window = xmalloc(COLUMNS_WINDOW_BYTES);
    int rc = 0;
    while (rc == 0 && at < end) {
        size_t len = (size_t)MIN(end - at, (uint64_t)COLUMNS_WINDOW_BYTES);
        rc = array_read(&plan->set->files[piece->file], array, at, window, len, err);
        if (rc == 0)
            rc = sink->put(sink->context, (struct str){window, len}, err);
        at += len;
    }
    return rc;
}

/* ---- columns ---- */

static int columns_pass(const struct array_plan *plan, const struct array_new *made,
                        const struct array_sink *sink, struct err *err)
{
    size_t window_bytes =
        MIN((size_t)COLUMNS_WINDOW_BYTES,
            MAX((size_t)WINDOWS_BYTES / made->n_pieces, (size_t)WINDOW_BYTES_MIN));
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
        bool is_transposed = array_of_piece(plan, piece)->is_fortran;
        rc = (is_transposed ? array_transpose : rows_pass)(plan, piece, sink, err);
    }
    return rc;
}
