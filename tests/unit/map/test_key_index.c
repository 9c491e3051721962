/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "map/key_index.h"

static void answers_find_their_items_in_any_order(void **state)
{
    (void)state;
    struct key_index *key_index = NULL;
    struct buf lines = BUF_INIT, answer = BUF_INIT;
    for (int i = 0; i < 1000; i++)
        buf_addf(&lines, "{\"id\":\"k%d\",\"text\":\"x\"}\n", i);
    uint64_t n;
    size_t used;
    assert_int_equal(key_index_add(&key_index, "id", 5000, buf_str(&lines), &n, &used), KEY_ALL);
    assert_int_equal(n, 1000);
    assert_int_equal(used, lines.len);
    for (int i = 999; i >= 0; i--) {
        uint64_t item = 0;
        buf_reset(&answer);
        buf_addf(&answer, "{\"out\":1,\"id\":\"k%d\"}", i);
        assert_true(key_index_take(key_index, "id", buf_str(&answer), &item));
        assert_int_equal(item, 5000 + i);
        assert_false(key_index_take(key_index, "id", buf_str(&answer), &item));
    }
    buf_release(&lines);
    buf_release(&answer);
    key_index_free(key_index);
}

static void a_value_stands_for_one_item_in_flight(void **state)
{
    (void)state;
    struct key_index *key_index = NULL;
    uint64_t n, item = 0;
    size_t used;
    struct str lines = STR("{\"id\":1}\n{\"id\":2}\n{\"id\":1.0}\n{\"id\":3}\n");
    assert_int_equal(key_index_add(&key_index, "id", 3, lines, &n, &used), KEY_TAKEN);
    assert_int_equal(n, 2);
    assert_int_equal(used, strlen("{\"id\":1}\n{\"id\":2}\n"));
    assert_true(key_index_take(key_index, "id", STR("{\"id\":1}"), &item));
    assert_int_equal(item, 3);
    assert_false(key_index_take(key_index, "id", STR("{\"id\":1}"), &item));
    assert_int_equal(key_index_add(&key_index, "id", 5, STR("{\"id\":1.0}\n"), &n, &used), KEY_ALL);
    assert_true(key_index_take(key_index, "id", STR("{\"id\":1}"), &item));
    assert_int_equal(item, 5);
    key_index_free(key_index);
}

static void an_item_without_the_field_is_where_it_stops(void **state)
{
    (void)state;
    struct key_index *key_index = NULL;
    uint64_t n, item;
    size_t used;
    struct str lines = STR("{\"id\":1}\n{\"ix\":1}\n{\"id\":2}\n");
    assert_int_equal(key_index_add(&key_index, "id", 41, lines, &n, &used), KEY_MISSING);
    assert_int_equal(n, 1);
    assert_int_equal(used, strlen("{\"id\":1}\n"));
    assert_false(key_index_take(key_index, "id", STR("{\"id\":2}"), &item));
    assert_int_equal(key_index_add(&key_index, "id", 42, STR("[1]\n"), &n, &used), KEY_MISSING);
    assert_int_equal(n, 0);
    assert_int_equal(used, 0);
    assert_false(key_index_take(key_index, "id", STR("{\"ix\":1}"), &item));
    assert_false(key_index_take(NULL, "id", STR("{\"id\":1}"), &item));
    key_index_free(key_index);
}

static void a_value_is_found_however_it_is_written(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"\"\u00e9\"", "\"\\u00e9\""},
        {"\"a/b\"", "\"a\\/b\""},
        {"1.0", "1.00"},
        {"1", "1e0"},
        {"[1, {\"a\":2}]", "[1,{\"a\":2.0}]"},
    };
    for (size_t i = 0; i < countof(pairs); i++)
        for (int back = 0; back < 2; back++) {
            struct key_index *key_index = NULL;
            struct buf text = BUF_INIT;
            uint64_t n;
            size_t used;
            uint64_t item = 0;
            buf_addf(&text, "{\"id\":%s}\n", pairs[i][back]);
            assert_int_equal(key_index_add(&key_index, "id", 7, buf_str(&text), &n, &used),
                             KEY_ALL);
            assert_int_equal(n, 1);
            buf_reset(&text);
            buf_addf(&text, "{\"\\u0069d\":%s}", pairs[i][!back]);
            if (!key_index_take(key_index, "id", buf_str(&text), &item))
                fail_msg("%s does not find %s", pairs[i][!back], pairs[i][back]);
            assert_int_equal(item, 7);
            buf_release(&text);
            key_index_free(key_index);
        }
}

static void large_numbers_are_not_rounded(void **state)
{
    (void)state;
    struct key_index *key_index = NULL;
    uint64_t n, item;
    size_t used;
    struct str lines = STR("{\"id\":10000000000000000000001}\n");
    assert_int_equal(key_index_add(&key_index, "id", 7, lines, &n, &used), KEY_ALL);
    assert_int_equal(n, 1);
    assert_false(key_index_take(key_index, "id", STR("{\"id\":10000000000000000000000}"), &item));
    assert_false(key_index_take(key_index, "id", STR("{\"id\":1e22}"), &item));
    assert_false(
        key_index_take(key_index, "id", STR("{\"id\":\"10000000000000000000001\"}"), &item));
    assert_true(key_index_take(key_index, "id", STR("{\"id\":10000000000000000000001.0}"), &item));
    key_index_free(key_index);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_find_their_items_in_any_order),
        cmocka_unit_test(a_value_stands_for_one_item_in_flight),
        cmocka_unit_test(an_item_without_the_field_is_where_it_stops),
        cmocka_unit_test(a_value_is_found_however_it_is_written),
        cmocka_unit_test(large_numbers_are_not_rounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
