/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/table.h"

#include <stdlib.h>

#include "base/console_text.h"
#include "base/xalloc.h"

void table_init(struct table *table, const char *const *headings, size_t n_columns, uint32_t left)
{
    ASSERT(n_columns <= TABLE_COLUMNS_MAX);
    *table = (struct table){.n_columns = n_columns, .headings = headings, .left = left};
}

void table_release(struct table *table)
{
    for (size_t i = 0; i < table->n_rows * table->n_columns; i++)
        free(table->cells[i]);
    free(table->cells);
    *table = (struct table){0};
}

void table_row_add(struct table *table)
{
    size_t n = table->n_rows * table->n_columns;
    table->cells = xrealloc(table->cells, (n + table->n_columns) * sizeof(*table->cells));
    memset(table->cells + n, 0, table->n_columns * sizeof(*table->cells));
    table->n_rows++;
}

void table_cell_take(struct table *table, size_t column, char *text)
{
    char **cell = &table->cells[(table->n_rows - 1) * table->n_columns + column];
    free(*cell);
    *cell = text;
}

static const char *cell_at(const struct table *table, size_t row, size_t column)
{
    const char *text = table->cells[row * table->n_columns + column];
    return text ? text : "";
}

static size_t width_of(const char *text)
{
    return console_text_width(str_of(text));
}

/* Computes the width of each column; 0 for a column without text. */
static void widths_take(const struct table *table, size_t widths[TABLE_COLUMNS_MAX])
{
    for (size_t c = 0; c < table->n_columns; c++) {
        widths[c] = 0;
        for (size_t r = 0; r < table->n_rows; r++)
            widths[c] = MAX(widths[c], width_of(cell_at(table, r, c)));
        widths[c] = widths[c] > 0 ? MAX(widths[c], width_of(table->headings[c])) : 0;
    }
}

static void cell_add(const struct table *table, size_t column, const char *text, size_t width,
                     struct buf *out)
{
    bool is_left = table->left & 1u << column;
    size_t blanks = width - MIN(width_of(text), width);
    buf_addf(out, "%*s%s%*s", is_left ? 0 : (int)blanks, "", text, is_left ? (int)blanks : 0, "");
}

static void line_add(const struct table *table, const char *const *cells,
                     const size_t widths[TABLE_COLUMNS_MAX], struct buf *out)
{
    bool is_first = true;
    for (size_t c = 0; c < table->n_columns; c++) {
        if (widths[c] == 0)
            continue;
        buf_add_text(out, is_first ? "" : "  ");
        cell_add(table, c, cells[c] ? cells[c] : "", widths[c], out);
        is_first = false;
    }
    while (out->len > 0 && out->at[out->len - 1] == ' ')
        out->len--;
    buf_add_char(out, '\n');
}

void table_text_add(const struct table *table, struct buf *out)
{
    size_t widths[TABLE_COLUMNS_MAX];
    widths_take(table, widths);
    line_add(table, table->headings, widths, out);
    for (size_t r = 0; r < table->n_rows; r++)
        line_add(table, (const char *const *)table->cells + r * table->n_columns, widths, out);
}

/* Adds the text of a cell. A bar in it would end the cell. */
static void markdown_cell_add(const char *text, struct buf *out)
{
    buf_add_char(out, ' ');
    for (; *text; text++)
        buf_addf(out, *text == '|' ? "\\%c" : "%c", *text);
    buf_add_text(out, " |");
}

static void markdown_line_add(const struct table *table, const char *const *cells,
                              const size_t widths[TABLE_COLUMNS_MAX], struct buf *out)
{
    buf_add_char(out, '|');
    for (size_t c = 0; c < table->n_columns; c++)
        if (widths[c] > 0)
            markdown_cell_add(cells[c] ? cells[c] : "", out);
    buf_add_char(out, '\n');
}

void table_markdown_add(const struct table *table, struct buf *out)
{
    size_t widths[TABLE_COLUMNS_MAX];
    widths_take(table, widths);
    markdown_line_add(table, table->headings, widths, out);
    buf_add_char(out, '|');
    for (size_t c = 0; c < table->n_columns; c++)
        if (widths[c] > 0)
            buf_add_text(out, table->left & 1u << c ? "---|" : "---:|");
    buf_add_char(out, '\n');
    for (size_t r = 0; r < table->n_rows; r++)
        markdown_line_add(table, (const char *const *)table->cells + r * table->n_columns, widths,
                          out);
}
