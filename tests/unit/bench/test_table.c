/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/xalloc.h"
#include "bench/table.h"

static void table_make(struct table *table)
{
    static const char *const headings[] = {"NAME", "EMPTY", "RATE", "NOTE"};
    table_init(table, headings, 4, 1u << 0 | 1u << 3);
    table_row_add(table);
    table_cell_take(table, 0, xstrdup("größer"));
    table_cell_take(table, 2, xstrdup("12.5"));
    table_row_add(table);
    table_cell_take(table, 0, xstrdup("a|b"));
    table_cell_take(table, 2, xstrdup("3"));
    table_cell_take(table, 2, xstrdup("4"));
    table_cell_take(table, 3, xstrdup("out of memory"));
}

static void columns_are_as_wide_as_their_cells_and_empty_ones_are_left_out(void **state)
{
    (void)state;
    struct table table;
    struct buf out = BUF_INIT;
    table_make(&table);
    table_text_add(&table, &out);
    assert_string_equal(buf_text(&out), "NAME    RATE  NOTE\n"
                                        "größer  12.5\n"
                                        "a|b        4  out of memory\n");
    buf_release(&out);
    table_release(&table);
}

static void markdown_has_no_bar_within_a_cell(void **state)
{
    (void)state;
    struct table table;
    struct buf out = BUF_INIT;
    table_make(&table);
    table_markdown_add(&table, &out);
    assert_string_equal(buf_text(&out), "| NAME | RATE | NOTE |\n"
                                        "|---|---:|---|\n"
                                        "| größer | 12.5 |  |\n"
                                        "| a\\|b | 4 | out of memory |\n");
    buf_release(&out);
    table_release(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_as_wide_as_their_cells_and_empty_ones_are_left_out),
        cmocka_unit_test(markdown_has_no_bar_within_a_cell),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
