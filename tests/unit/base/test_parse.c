/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/hex.h"
#include "base/idlist.h"
#include "base/parse.h"
#include "base/rng.h"
#include "base/suggest.h"

static void sizes_are_read_in_both_unit_systems(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int rc;
        uint64_t bytes;
    } cases[] = {
        {"0", 0, 0},
        {"512", 0, 512},
        {"16GiB", 0, 16ull << 30},
        {"16G", 0, 16ull << 30},
        {"1.5k", 0, 1536},
        {"20 GB", 0, 20000000000ull},
        {"2tib", 0, 2ull << 40},
        {"", ERR_USAGE, 0},
        {"GiB", ERR_USAGE, 0},
        {"-1", ERR_USAGE, 0},
        {"1x", ERR_USAGE, 0},
        {"1e9", ERR_USAGE, 0},
        {"99999999TiB", ERR_USAGE, 0},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        uint64_t bytes = 0;
        struct err err = {0};
        int rc = size_parse(str_of(cases[i].text), &bytes, &err);
        if (rc != cases[i].rc || bytes != cases[i].bytes)
            fail_msg("size \"%s\": rc %d, %lu bytes", cases[i].text, rc, bytes);
        assert_int_equal(err.code, cases[i].rc);
    }
}

static void durations_are_read_with_units_and_in_sums(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int rc;
        uint64_t ms;
    } cases[] = {
        {"90", 0, 90000},
        {"250ms", 0, 250},
        {"2h", 0, 7200000},
        {"1h30m", 0, 5400000},
        {"1.5s", 0, 1500},
        {"1d", 0, 86400000},
        {"", ERR_USAGE, 0},
        {"-1s", ERR_USAGE, 0},
        {"9x", ERR_USAGE, 0},
        {"s", ERR_USAGE, 0},
        {"99999999999999999d", ERR_USAGE, 0},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        uint64_t ms = 0;
        int rc = duration_parse(str_of(cases[i].text), &ms, NULL);
        if (rc != cases[i].rc || ms != cases[i].ms)
            fail_msg("duration \"%s\": rc %d, %lu ms", cases[i].text, rc, ms);
    }
}

static void figures_too_long_for_a_double_are_refused_or_rounded(void **state)
{
    (void)state;
    static char nines[701];
    uint64_t value = 1;
    memset(nines, '9', 700);
    nines[350] = '.';
    assert_int_equal(size_parse(str_of(nines), &value, NULL), ERR_USAGE);
    assert_int_equal(duration_parse(str_of(nines), &value, NULL), ERR_USAGE);
    assert_int_equal(size_parse(str_of(nines + 350), &value, NULL), 0);
    assert_true(value == 1);
    assert_int_equal(size_parse(STR("4444444444444442666"), &value, NULL), 0);
    assert_true(value == 4444444444444442666);
    assert_int_equal(size_parse(STR("9007199254740993KiB"), &value, NULL), ERR_USAGE);
    assert_int_equal(size_parse(STR("9007199254740991 KiB"), &value, NULL), 0);
    assert_true(value == 9007199254740991 * 1024);
}

static void id_lists_keep_their_order_and_refuse_doubles(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int rc;
        const char *back;
    } cases[] = {
        {"0,2,5-7", 0, "0,2,5-7"}, {"3,1", 0, "3,1"},        {"0-3", 0, "0-3"},
        {"0,1", 0, "0,1"},         {"", ERR_USAGE, ""},      {"1,,2", ERR_USAGE, ""},
        {"1,1", ERR_USAGE, ""},    {"1-3,2", ERR_USAGE, ""}, {"7-5", ERR_USAGE, ""},
        {"x", ERR_USAGE, ""},      {"1,", ERR_USAGE, ""},    {"9999", ERR_USAGE, ""},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        uint32_t ids[16];
        size_t n_ids = 0;
        struct buf back = BUF_INIT;
        int rc = idlist_parse(str_of(cases[i].text), 1023, ids, countof(ids), &n_ids, NULL);
        if (rc == 0)
            idlist_format(&back, ids, n_ids);
        if (rc != cases[i].rc || strcmp(buf_text(&back), cases[i].back) != 0)
            fail_msg("ids \"%s\": rc %d, \"%s\"", cases[i].text, rc, buf_text(&back));
        buf_release(&back);
    }
}

static void figures_are_printed_as_people_read_them(void **state)
{
    (void)state;
    char text[32];
    size_format(text, 1536);
    assert_string_equal(text, "1.5 KiB");
    size_format(text, 141ull << 30);
    assert_string_equal(text, "141 GiB");
    duration_format(text, 245000);
    assert_string_equal(text, "4 m 05 s");
    count_format(text, 1234567);
    assert_string_equal(text, "1,234,567");
}

static void the_nearest_word_is_suggested_and_a_far_one_is_not(void **state)
{
    (void)state;
    static const char *const words[] = {"gpus", "batch", "retries", "max-failures"};
    assert_string_equal(suggest("gpsu", words, countof(words)), "gpus");
    assert_string_equal(suggest("max-failure", words, countof(words)), "max-failures");
    assert_null(suggest("unrelated", words, countof(words)));
    assert_null(suggest("c", (const char *const[]){"h"}, 1));
}

static void seeds_differ_between_items_and_repeat_between_calls(void **state)
{
    (void)state;
    assert_true(item_seed(42, 0) == item_seed(42, 0));
    for (uint64_t i = 1; i < 1000; i++)
        assert_true(item_seed(42, i) != item_seed(42, i - 1) &&
                    item_seed(42, i) != item_seed(43, i));
}

static void bytes_come_back_from_hex(void **state)
{
    (void)state;
    static const char *const malformed[] = {"0", "0g", "g0", "00f", "0x00", "AB", " 00"};
    cleanup_buf struct buf all = BUF_INIT, hex = BUF_INIT, back = BUF_INIT;
    for (int byte = 0; byte < 256; byte++)
        buf_add_char(&all, (char)byte);
    buf_add_hex(&hex, buf_str(&all));
    assert_int_equal(hex.len, 512);
    assert_true(str_starts_with(buf_str(&hex), STR("000102")));
    assert_true(buf_add_unhex(&back, buf_str(&hex)));
    assert_true(str_equal(buf_str(&back), buf_str(&all)));
    for (size_t i = 0; i < countof(malformed); i++)
        assert_false(buf_add_unhex(&back, str_of(malformed[i])));
    assert_int_equal(back.len, 256);
}

static void texts_are_ordered_by_their_bytes(void **state)
{
    static const char *const rising[] = {"", "a", "a\x01", "ab", "b", "\xc3\xa9"};
    (void)state;
    for (size_t i = 0; i < countof(rising); i++)
        for (size_t k = 0; k < countof(rising); k++) {
            int order = str_compare(str_of(rising[i]), str_of(rising[k]));
            assert_int_equal((order > 0) - (order < 0), (i > k) - (i < k));
        }
    assert_true(str_compare((struct str){NULL, 0}, STR("a")) < 0);
    assert_true(str_compare((struct str){"a\0b", 3}, STR("a")) > 0);
}

static void whole_numbers_are_read_as_python_reads_them(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int rc;
        uint64_t value;
    } cases[] = {
        {"7", 0, 7},
        {"+7", 0, 7},
        {" \t7\n", 0, 7},
        {"1_000", 0, 1000},
        {" +1_0_0 ", 0, 100},
        {"007", 0, 7},
        {"18446744073709551615", 0, UINT64_MAX},
        {"18446744073709551616", ERR_USAGE, 0},
        {"", ERR_USAGE, 0},
        {" ", ERR_USAGE, 0},
        {"+", ERR_USAGE, 0},
        {"+ 1", ERR_USAGE, 0},
        {"++1", ERR_USAGE, 0},
        {"_1", ERR_USAGE, 0},
        {"1_", ERR_USAGE, 0},
        {"1__0", ERR_USAGE, 0},
        {"+_1", ERR_USAGE, 0},
        {"_", ERR_USAGE, 0},
        {"1 0", ERR_USAGE, 0},
        {"-1", ERR_USAGE, 0},
        {"0x1", ERR_USAGE, 0},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        uint64_t value = 0;
        struct err err = {0};
        int rc = python_u64_parse(str_of(cases[i].text), 0, UINT64_MAX, &value, &err);
        if (rc != cases[i].rc || value != cases[i].value)
            fail_msg("number \"%s\": rc %d, %lu", cases[i].text, rc, value);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_read_in_both_unit_systems),
        cmocka_unit_test(whole_numbers_are_read_as_python_reads_them),
        cmocka_unit_test(durations_are_read_with_units_and_in_sums),
        cmocka_unit_test(figures_too_long_for_a_double_are_refused_or_rounded),
        cmocka_unit_test(id_lists_keep_their_order_and_refuse_doubles),
        cmocka_unit_test(figures_are_printed_as_people_read_them),
        cmocka_unit_test(the_nearest_word_is_suggested_and_a_far_one_is_not),
        cmocka_unit_test(bytes_come_back_from_hex),
        cmocka_unit_test(texts_are_ordered_by_their_bytes),
        cmocka_unit_test(seeds_differ_between_items_and_repeat_between_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
