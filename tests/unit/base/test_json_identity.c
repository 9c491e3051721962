/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/json_identity.h"

/* Values of one row are the same, of different rows they differ. */
static const char *const rows[][10] = {
    {"\"\u00e9\"", "\"\\u00e9\"", "\"\\u00E9\""},
    {"\"e\\u0301\""},
    {"\"/\"", "\"\\/\"", "\"\\u002f\""},
    {"\"\U0001f600\"", "\"\\ud83d\\ude00\"", "\"\\uD83D\\uDE00\""},
    {"\"\\ud83d\"", "\"\\uD83D\""},
    {"\"\\ude00\""},
    {"\"\\ude00\\ud83d\""},
    {"\"\\ufffd\"", "\"\ufffd\""},
    {"\"\\\"\"", "\"\\u0022\""},
    {"\"\\\\\"", "\"\\u005c\""},
    {"\"\\\\u0022\""},
    {"\"\\u0000\""},
    {"\"\""},
    {"\"1\""},
    {"1", "1.0", "1.00", "1e0", "10e-1", "0.1E+1", "100000e-5", "1e-00", " 1 "},
    {"-1", "-1.0"},
    {"0", "-0", "0.0", "-0.0e5", "0e99999999999999999999"},
    {"10", "1e1", "1.0e+1", "100E-1"},
    {"0.1", "1e-1", "0.10", "0.01e1"},
    {"0.1000000000000000055511151231257827"},
    {"0.30000000000000004"},
    {"0.3"},
    {"9007199254740992", "9007199254740992.0"},
    {"9007199254740993"},
    {"10000000000000000000000", "1e22"},
    {"10000000000000000000001", "10000000000000000000001.000"},
    {"1e400", "10e399", "0.1e401"},
    {"1e-400"},
    {"1e99999999999999999999"},
    {"true"},
    {"false"},
    {"null"},
    {"[]"},
    {"{}"},
    {"[1,2]", "[1.0, 2e0]", " [ 1 , 2 ] "},
    {"[2,1]"},
    {"[12]"},
    {"[[1],2]"},
    {"[\"1,2\"]"},
    {"{\"a\":1,\"b\":[]}", "{\"b\":[],\"a\":1.0}", "{ \"\\u0061\" : 1, \"b\" : [ ] }"},
    {"{\"a\":1,\"b\":{}}"},
    {"{\"ab\":1}"},
    {"{\"a\\\":1,\\\"b\":1}"},
};

static void same_values_have_the_same_bytes_and_others_have_others(void **state)
{
    (void)state;
    struct buf first[countof(rows)] = {0}, here = BUF_INIT;
    for (size_t i = 0; i < countof(rows); i++) {
        buf_add_json_identity(&first[i], str_of(rows[i][0]));
        for (size_t k = 1; k < countof(rows[i]) && rows[i][k]; k++) {
            buf_reset(&here);
            buf_add_json_identity(&here, str_of(rows[i][k]));
            if (!str_equal(buf_str(&here), buf_str(&first[i])))
                fail_msg("%s is %s, and %s is %s", rows[i][0], buf_text(&first[i]), rows[i][k],
                         buf_text(&here));
        }
        for (size_t k = 0; k < i; k++)
            if (str_equal(buf_str(&first[k]), buf_str(&first[i])))
                fail_msg("%s and %s are both %s", rows[k][0], rows[i][0], buf_text(&first[i]));
    }
    for (size_t i = 0; i < countof(rows); i++)
        buf_release(&first[i]);
    buf_release(&here);
}

static void numbers_are_shown_as_people_write_them(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"17.0", "17"},        {"1e3", "1000"},  {"-2.50", "-2.5"}, {"0.25", "0.25"},
        {"1e-7", "0.0000001"}, {"1e-9", "1e-9"}, {"1e60", "1e60"},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct buf out = BUF_INIT;
        assert_true(buf_add_number_identity(&out, str_of(cases[i][0])));
        assert_string_equal(buf_text(&out), cases[i][1]);
        buf_release(&out);
    }
    struct buf none = BUF_INIT;
    assert_false(buf_add_number_identity(&none, STR("\"1\"")));
    assert_false(buf_add_number_identity(&none, STR("01")));
    buf_release(&none);
}

/* Each row has the spellings of one number; the rows ascend. */
static const char *const ascending[][3] = {
    {"-18446744073709551617"},
    {"-18446744073709551616", "-18446744073709551616.0"},
    {"-1e3", "-1000"},
    {"-0.5"},
    {"0", "-0.0", "0e99999999999999999999"},
    {"1e-300"},
    {"0.1", "1e-1"},
    {"0.1000000000000000055"},
    {"9", "9.0"},
    {"10", "1e1"},
    {"9007199254740992.0", "9007199254740992"},
    {"9007199254740993", "9007199254740993.00"},
    {"1e300"},
};

static void numbers_have_the_order_of_what_is_written(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3 * countof(ascending); i++) {
        for (size_t k = 0; k < 3 * countof(ascending); k++) {
            const char *a = ascending[i / 3][i % 3], *b = ascending[k / 3][k % 3];
            int wanted = (i / 3 > k / 3) - (i / 3 < k / 3);
            if (a && b && json_number_order(str_of(a), str_of(b)) != wanted)
                fail_msg("%s and %s: not %d", a, b, wanted);
        }
    }
}

static void a_text_of_csv_equals_that_of_json(void **state)
{
    (void)state;
    struct buf plain = BUF_INIT, json = BUF_INIT;
    buf_add_text_identity(&plain, STR("a \"b\" \\ \n"));
    buf_add_json_identity(&json, STR("\"a \\\"b\\\" \\\\ \\n\""));
    assert_string_equal(buf_text(&plain), buf_text(&json));
    buf_release(&plain);
    buf_release(&json);
}

static void whole_numbers_are_known_however_they_are_written(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is_whole;
        uint64_t value;
    } cases[] = {
        {"4", true, 4},
        {"4.0", true, 4},
        {"40e-1", true, 4},
        {"0.4E1", true, 4},
        {"0", true, 0},
        {"-0", true, 0},
        {"-0.0e9", true, 0},
        {"1e2", true, 100},
        {"18446744073709551615", true, UINT64_MAX},
        {"18446744073709551616", true, UINT64_MAX},
        {"1e400", true, UINT64_MAX},
        {"1e30", true, UINT64_MAX},
        {"4.5", false, 0},
        {"-1", false, 0},
        {"-1e400", false, 0},
        {"1e-400", false, 0},
        {"\"4\"", false, 0},
        {"null", false, 0},
        {"04", false, 0},
        {"", false, 0},
        {"NaN", false, 0},
        {"4 5", false, 0},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        uint64_t value = 0;
        bool is_whole = json_to_whole(str_of(cases[i].text), &value);
        if (is_whole != cases[i].is_whole || (is_whole && value != cases[i].value))
            fail_msg("'%s' is %d, %lu", cases[i].text, is_whole, value);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_values_have_the_same_bytes_and_others_have_others),
        cmocka_unit_test(numbers_are_shown_as_people_write_them),
        cmocka_unit_test(numbers_have_the_order_of_what_is_written),
        cmocka_unit_test(a_text_of_csv_equals_that_of_json),
        cmocka_unit_test(whole_numbers_are_known_however_they_are_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
