/* SPDX-License-Identifier: Apache-2.0
 *
 * Cells in columns, as text for a terminal or as Markdown. A column without any content is left out.
 */
#pragma once

#include "base/buf.h"

enum {
    TABLE_COLUMNS_MAX = 16
};

struct table {
    size_t n_columns, n_rows;
    const char *const *headings; /* borrowed */
    uint32_t left;               /* bit i: column i is aligned left; other columns right */
    char **cells;                /* [n_rows][n_columns]; NULL: empty */
};

void table_init(struct table *table, const char *const *headings, size_t n_columns, uint32_t left);
void table_release(struct table *table);
/* Adds a row of empty cells. */
void table_row_add(struct table *table);
/* Sets a cell of the last row and takes ownership of the text; NULL: empty. */
void table_cell_take(struct table *table, size_t column, char *text);
/* Adds the table. Text from users or programs must be made visible text first (base/console_text.h). */
void table_text_add(const struct table *table, struct buf *out);
void table_markdown_add(const struct table *table, struct buf *out);
