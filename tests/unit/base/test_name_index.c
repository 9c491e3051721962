/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/buf.h"
#include "base/name_index.h"

static void names_are_numbered_as_they_come_and_found_as_their_first(void **state)
{
    (void)state;
    cleanup_name_index struct name_index index = NAME_INDEX_INIT;
    assert_int_equal(name_index_find(&index, STR("a")), NAME_NONE);
    assert_int_equal(name_index_add(&index, STR("a")), 0);
    assert_int_equal(name_index_add(&index, STR("")), 1);
    assert_int_equal(name_index_add(&index, STR("a")), 0); /* a header's third column */
    assert_int_equal(name_index_add(&index, STR("b")), 3);
    assert_int_equal(name_index_number(&index, STR("")), 1);
    assert_int_equal(name_index_number(&index, STR("c")), 4);
    assert_int_equal(index.len, 5);
    assert_true(str_equal(name_index_get(&index, 2), STR("a")));
}

static void a_hundred_thousand_names_are_each_found(void **state)
{
    (void)state;
    enum {
        N_NAMES = 100000
    };
    cleanup_name_index struct name_index index = NAME_INDEX_INIT;
    cleanup_buf struct buf name = BUF_INIT;
    for (size_t pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < N_NAMES; i++) {
            buf_reset(&name);
            buf_addf(&name, "column %zu", i);
            assert_int_equal(name_index_number(&index, buf_str(&name)), i);
        }
    assert_int_equal(index.len, N_NAMES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_numbered_as_they_come_and_found_as_their_first),
        cmocka_unit_test(a_hundred_thousand_names_are_each_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
