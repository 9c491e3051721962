/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies the elements of a new array from its pieces. Row-major pieces follow one another. In a
 * column-major array each column consists of the pieces' columns, one behind the other, so each
 * piece is read through a window of its own. A column-major piece of a row-major array is
 * transposed (array_transpose.c). A piece of another type goes through a caster.
 */
#include "base/cleanup.h"
#include "base/xalloc.h"
#include "tensor/array/array_cast.h"
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

/* ---- other types ---- */

/*
 * Returns the sink for the piece's bytes: a caster if the piece does not have the new array's type.
 */
static struct array_sink caster_begin(struct array_caster *caster, const struct array_plan *plan,
                                      const struct array_new *made, size_t piece,
                                      const struct array_sink *sink)
{
    const struct array *array = array_of_piece(plan, &plan->pieces[made->first_piece + piece]);
    *caster = (struct array_caster){.to = sink};
    if (array_types_equal(array, made->like) || !array_cast_find(array, made->like, &caster->cast))
        return *sink;
    return (struct array_sink){array_cast_put, caster};
}

/*
 * Texts of no width, <U0, have no bytes, but the new array may have wider texts, which are made of
 * zeros.
 */
static bool is_empty_text(const struct array_plan *plan, const struct array_new *made, size_t piece)
{
    const struct array *array = array_of_piece(plan, &plan->pieces[made->first_piece + piece]);
    return array->element_bits == 0 && made->like->element_bits > 0;
}

static int zeros_put(const struct array_new *made, uint64_t n_elements,
                     const struct array_sink *sink, struct err *err)
{
    static const char zeros[4096];
    uint64_t left = n_elements * (made->like->element_bits / 8);
    int rc = 0;
    while (rc == 0 && left > 0) {
        size_t len = (size_t)MIN(left, (uint64_t)sizeof(zeros));
        rc = sink->put(sink->context, (struct str){zeros, len}, err);
        left -= len;
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
    struct array_caster *casters = xcalloc(made->n_pieces, sizeof(*casters));
    struct array_sink *sinks = xcalloc(made->n_pieces, sizeof(*sinks));
    int rc = 0;
    for (size_t i = 0; i < made->n_pieces; i++) {
        columns[i] = columns_of(plan, &plan->pieces[made->first_piece + i], window_bytes);
        sinks[i] = caster_begin(&casters[i], plan, made, i, sink);
    }
    uint64_t n_columns = column_count(made->like);
    for (uint64_t column = 0; column < n_columns && rc == 0; column++)
        for (size_t i = 0; i < made->n_pieces && rc == 0; i++)
            rc = is_empty_text(plan, made, i)
                     ? zeros_put(made, plan->pieces[made->first_piece + i].n_rows, sink, err)
                     : column_pass(&columns[i], column, &sinks[i], err);
    for (size_t i = 0; i < made->n_pieces; i++) {
        free(columns[i].window);
        array_caster_release(&casters[i]);
    }
    free(columns);
    free(casters);
    free(sinks);
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
        struct array_caster caster;
        if (is_empty_text(plan, made, i)) {
            rc = zeros_put(made, piece->n_rows * column_count(made->like), sink, err);
            continue;
        }
        const struct array_sink to = caster_begin(&caster, plan, made, i, sink);
        rc = (is_transposed ? array_transpose : rows_pass)(plan, piece, &to, err);
        array_caster_release(&caster);
    }
    return rc;
}
