/* SPDX-License-Identifier: Apache-2.0
 *
 * Column-major arrays (the first dimension varies fastest), read column by column through a window.
 */
#pragma once

#include "tensor/array/array_plan.h"

enum {
    COLUMNS_WINDOW_BYTES = 256 * 1024
};

/* The rows of a piece in each of its columns. */
struct columns {
    struct array_file *file;
    struct array *array;
    uint64_t column_bytes; /* of the whole array */
    uint64_t skip, take;   /* bytes of each column that are skipped, then taken */
    char *window;
    size_t cap, len;
    uint64_t at; /* offset of the window in the array's data */
};

/* The caller frees the window with free(). */
struct columns columns_of(const struct array_plan *plan, const struct array_piece *piece,
                          size_t window_bytes);
uint64_t column_count(const struct array *array);
/* Passes the piece's rows of column number `column` to the sink. */
MUST_CHECK int column_pass(struct columns *c, uint64_t column, const struct array_sink *sink,
                           struct err *err);
/* Passes a column-major piece to the sink in row-major order. */
MUST_CHECK int array_transpose(const struct array_plan *plan, const struct array_piece *piece,
                               const struct array_sink *sink, struct err *err);
