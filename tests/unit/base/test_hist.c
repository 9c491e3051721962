/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include <math.h>

#include "base/hist.h"
#include "base/rng.h"

static void small_times_are_exact(void **state)
{
    (void)state;
    struct hist hist = {0};
    for (uint64_t us = 1; us <= 7; us++)
        hist_add(&hist, us, 1);
    assert_int_equal(hist.n, 7);
    assert_int_equal(hist.min_us, 1);
    assert_int_equal(hist.max_us, 7);
    assert_true(hist_mean_us(&hist) == 4.0);
    assert_int_equal(hist_quantile_us(&hist, 0), 1);
    assert_int_equal(hist_quantile_us(&hist, 1), 7);
}

static void an_empty_histogram_says_zero(void **state)
{
    (void)state;
    struct hist hist = {0};
    assert_int_equal(hist_quantile_us(&hist, 0.5), 0);
    assert_true(hist_mean_us(&hist) == 0);
}

/* Uniform on [0, top): every quantile is known. */
static void quantiles_are_within_five_percent_from_microseconds_to_days(void **state)
{
    (void)state;
    static const double tops_us[] = {200, 2e4, 3e6, 5e9, 2e11, 5e12};
    struct rng rng = {7};
    for (size_t t = 0; t < countof(tops_us); t++) {
        struct hist hist = {0};
        for (int i = 0; i < 100000; i++)
            hist_add(&hist, (uint64_t)(rng_unit(&rng) * tops_us[t]), 1);
        for (double q = 0.1; q < 1; q += 0.1) {
            double found = (double)hist_quantile_us(&hist, q), truth = q * tops_us[t];
            if (fabs(found - truth) > 0.05 * truth + 1)
                fail_msg("top %g, q %.1f: found %g, truth %g", tops_us[t], q, found, truth);
        }
    }
}

static void two_merged_are_as_one(void **state)
{
    (void)state;
    struct hist one = {0}, two = {0}, all = {0};
    hist_add(&one, 5000, 3);
    hist_add(&two, 70, 2);
    hist_add(&all, 5000, 3);
    hist_add(&all, 70, 2);
    hist_merge(&one, &two);
    assert_memory_equal(&one, &all, sizeof(all));
    hist_merge(&two, &(struct hist){0});
    assert_int_equal(two.min_us, 70);
}

static void what_was_written_can_be_read(void **state)
{
    (void)state;
    struct hist hist = {0}, back;
    struct err err = {0};
    struct buf text = BUF_INIT;
    hist_add(&hist, 9, 1);
    hist_add(&hist, 123456, 40);
    hist_add(&hist, UINT64_MAX / 64, 1);
    hist_format(&hist, &text);
    assert_int_equal(hist_parse(&back, buf_text(&text), &err), 0);
    assert_memory_equal(&back, &hist, sizeof(hist));
    free(text.at);
}

static void what_is_no_histogram_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "{}",
        "{\"n\":1,\"sum_us\":1,\"min_us\":1,\"max_us\":1,\"counts\":[",
        "{\"n\":1,\"sum_us\":1,\"min_us\":1,\"max_us\":1,\"counts\":[]}",
        "{\"n\":1,\"sum_us\":1,\"min_us\":1,\"max_us\":1,\"counts\":[[1,1]",
        "{\"n\":1,\"sum_us\":1,\"min_us\":1,\"max_us\":1,\"counts\":[[99999,1]]}",
        "{\"n\":1,\"sum_us\":1,\"min_us\":1,\"max_us\":1,\"counts\":[[1,1]]} ",
    };
    for (size_t i = 0; i < countof(bad); i++) {
        struct hist hist;
        struct err err = {0};
        if (hist_parse(&hist, bad[i], &err) != ERR_DATA || hist.n != 0)
            fail_msg("taken: %s", bad[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_times_are_exact),
        cmocka_unit_test(an_empty_histogram_says_zero),
        cmocka_unit_test(quantiles_are_within_five_percent_from_microseconds_to_days),
        cmocka_unit_test(two_merged_are_as_one),
        cmocka_unit_test(what_was_written_can_be_read),
        cmocka_unit_test(what_is_no_histogram_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
