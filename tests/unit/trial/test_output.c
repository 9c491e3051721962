/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/attr.h"
#include "trial/output.h"

/* What a pattern finds in what is printed, in pieces of n bytes, which come at 1, 2, … us. */
static struct output_match found_in(const char *pattern_text, const char *printed, size_t n)
{
    struct output_pattern pattern;
    struct output output = {0};
    struct output_match match = {.pattern = &pattern};
    struct output_matches matches = {&match, 1};
    struct str rest = str_of(printed);
    uint64_t now_us = 1;
    assert_int_equal(output_pattern_make(&pattern, "--rate-pattern", pattern_text, NULL), 0);
    for (; rest.len > 0; now_us++) {
        size_t len = MIN(n, rest.len);
        output_take(&output, (struct str){rest.at, len}, matches, now_us);
        rest = (struct str){rest.at + len, rest.len - len};
    }
    output_end(&output, matches, now_us);
    output_release(&output);
    output_pattern_release(&pattern);
    return match;
}

static void the_last_line_that_matches_tells_when(void **state)
{
    (void)state;
    const char *printed = "loading\nready 0\nworking\nready 1\nworking\n";
    assert_int_equal(found_in("^ready", printed, 1).at_us, 8 + 8 + 8 + 8);
    assert_int_equal(found_in("^ready", printed, 1000).at_us, 1);
    assert_int_equal(found_in("^done", printed, 1).at_us, 0);
    assert_int_equal(found_in("^wor", "wor", 1).at_us, 4);
}

static void the_last_rate_that_is_printed_counts(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *printed;
        double rate;
    } cases[] = {
        {"([0-9.]+) it/s", "1 it/s\r2.5 it/s\r", 2.5},
        {"([0-9.]+) it/s", "7 it/s\nno more\n", 7},
        {"([0-9.]+) it/s", "unfinished 8 it/s", 8},
        {"rate=[0-9]+", "rate=5\n", 5}, /* the only number in the match */
        {"[0-9.]+ samples", "3.5 samples\n", 3.5},
        {"[0-9.e+]+ samples", "1.5e3 samples\n", 1500},
        {"[0-9,]+ samples", "12,345 samples\n", 0},
        {"step [0-9]+: [0-9.]+ it", "step 7: 15 it\n", 0},
        {"done: .*", "done: all 7\n", 7},
        {"done: .*", "done: all\n", 0},
        {"[0-9]+", "5\n", 5},
        {"r: *([-0-9.e+]+)", "r: 1e3\nr: -4\nr: 0\n", 1000},
        {"r: *(nan|inf)", "r: nan\nr: inf\n", 0},
        {"(a)|(b)", "b\n", 0},
        {"x([0-9]+)?y", "xy\n", 0},
        {"([0-9]+) it", "1 ", 0},
    };
    for (size_t i = 0; i < countof(cases); i++)
        for (size_t n = 1; n < 40; n += 4)
            if (found_in(cases[i].pattern, cases[i].printed, n).number != cases[i].rate)
                fail_msg("%s in %s", cases[i].pattern, cases[i].printed);
}

static void a_pattern_that_is_none_is_refused_with_an_example(void **state)
{
    (void)state;
    struct output_pattern pattern;
    double number = 5;
    struct err err = {0};
    assert_int_equal(output_pattern_make(&pattern, "--rate-pattern", "([0-9]", &err), ERR_USAGE);
    assert_non_null(strstr(err.text, "such as 'rate: ([0-9.]+)'"));
    output_pattern_release(&pattern);
    assert_int_equal(output_pattern_make(&pattern, "--rate-pattern", NULL, NULL), 0);
    assert_false(output_pattern_find(&pattern, "7", &number));
    assert_true(number == 0);
}

static void only_the_end_of_what_is_printed_is_kept(void **state)
{
    (void)state;
    const struct output_matches none = {0};
    struct output output = {0};
    static char large[100000];
    memset(large, 'x', sizeof(large));
    output_take(&output, STR("begin\n"), none, 1);
    for (int i = 0; i < 10; i++) {
        output_take(&output, (struct str){large, sizeof(large)}, none, 1);
        output_take(&output, STR("\nlast words\n \n"), none, 1);
    }
    assert_true(output.tail.len <= 2 * (size_t)OUTPUT_TAIL_BYTES);
    assert_int_equal(output_tail(&output).len, OUTPUT_TAIL_BYTES);
    assert_true(str_equal(output_last_line(&output), STR("last words")));
    output_release(&output);
    assert_int_equal(output_last_line(&output).len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_rate_that_is_printed_counts),
        cmocka_unit_test(the_last_line_that_matches_tells_when),
        cmocka_unit_test(a_pattern_that_is_none_is_refused_with_an_example),
        cmocka_unit_test(only_the_end_of_what_is_printed_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
