/* SPDX-License-Identifier: Apache-2.0
 *
 * What one set keeps: sums, variance, percentiles, histograms.
 */
#include "metrics_kit.h"

#include <float.h>
#include <math.h>

#include "base/rng.h"
#include "dist/exact_sum.h"
#include "dist/metrics_set.h"

enum {
    SAMPLES = 2000
};

static struct muster_metric_result result_of_values(const double *values, size_t n)
{
    struct muster_metrics *metrics = one_metric(&everything);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(muster_metrics_put(metrics, 0, values[i], 1), 0);
    struct muster_metric_result result = result_of(metrics, 0);
    muster_metrics_free(metrics);
    return result;
}

static void sums_are_rounded_once(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        double values[6];
        double sum;
    } cases[] = {
        {"nothing", {0}, 0},
        {"a small one between large ones", {1e308, 1, -1e308}, 1},
        {"the least between the largest", {DBL_MAX, 0x1p-1074, -DBL_MAX}, 0x1p-1074},
        {"negative ones", {-DBL_MAX, -0x1p-1074, DBL_MAX}, -0x1p-1074},
        {"subnormal", {0x1p-1074, 0x1p-1074, 0x3p-1074}, 0x5p-1074},
        {"beyond a double, and back", {DBL_MAX, DBL_MAX, DBL_MAX, -DBL_MAX, -DBL_MAX, 2}, DBL_MAX},
        {"beyond a double", {DBL_MAX, DBL_MAX}, INFINITY},
        {"below a double", {-DBL_MAX, -DBL_MAX}, -INFINITY},
        {"a tie, to even", {0x1p53, 1}, 0x1p53},
        {"a tie, to even, upwards", {0x1p53, 3}, 0x1p53 + 4},
        {"above a tie", {0x1p53, 1, 0x1p-1074}, 0x1p53 + 2},
        {"below a tie", {0x1p53, 1, -0x1p-1074}, 0x1p53},
        {"a negative tie", {-0x1p53, -1, -0x1p-100}, -0x1p53 - 2},
        {"a carry through all bits", {0x1.fffffffffffffp52, 0.5}, 0x1p53},
        {"a tenth ten times is more than one", {0.1, 0.1, 0.1, 0.1, 0.1, 0.5}, 1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct muster_metric_result result = result_of_values(cases[i].values, 6);
        assert_same_bits(result.sum, cases[i].sum, cases[i].what);
        assert_same_bits(result.weight, 6, cases[i].what);
    }
}

/* Products and sums of small integers, scaled by powers of two: 128 bits know the answer. */
static void weighted_sums_are_those_of_integers(void **state)
{
    (void)state;
    struct rng rng = {.state = 1};
    for (int trial = 0; trial < 500; trial++) {
        int value_scale = (int)rng_below(&rng, 900) - 450,
            weight_scale = (int)rng_below(&rng, 900) - 450;
        struct muster_metrics *metrics = one_metric(&everything);
        int64_t sum = 0, weight = 0;
        uint64_t n = 1 + rng_below(&rng, 60);
        for (uint64_t i = 0; i < n; i++) {
            int64_t x = (int64_t)rng_below(&rng, 1 << 20) - (1 << 19),
                    w = 1 + (int64_t)rng_below(&rng, 1 << 20);
            sum += w * x;
            weight += w;
            muster_metrics_put(metrics, 0, ldexp((double)x, value_scale),
                               ldexp((double)w, weight_scale));
        }
        struct muster_metric_result result = result_of(metrics, 0);
        assert_same_bits(result.sum, ldexp((double)sum, value_scale + weight_scale), "sum");
        assert_same_bits(result.weight, ldexp((double)weight, weight_scale), "weight");
        double mean = ldexp((double)sum / (double)weight, value_scale);
        assert_true(fabs(result.mean - mean) <= 0x1p-52 * fabs(mean));
        assert_int_equal(result.count, n);
        muster_metrics_free(metrics);
    }
}

static void variance_loses_nothing_where_the_mean_is_large(void **state)
{
    (void)state;
    static const double far[] = {0, 1, 1e9, 1e15, -1e15, 0x1p52};
    for (size_t i = 0; i < sizeof(far) / sizeof(far[0]); i++) {
        double values[9];
        for (size_t k = 0; k < 9; k++)
            values[k] = far[i] + (double)k;
        struct muster_metric_result result = result_of_values(values, 9);
        /* (n^2 - 1) / 12 of n numbers that follow each other */
        assert_same_bits(result.variance, 80.0 / 12, "variance");
        assert_same_bits(result.mean, far[i] + 4, "mean");
    }
    const double same[] = {0.1, 0.1, 0.1};
    assert_same_bits(result_of_values(same, 3).variance, 0, "variance of equal values");
    const double largest[] = {DBL_MAX, DBL_MAX}, least[] = {0x1p-1074, 0x1p-1074};
    assert_same_bits(result_of_values(largest, 2).mean, DBL_MAX, "mean of the largest");
    assert_same_bits(result_of_values(largest, 2).variance, 0, "their variance");
    assert_same_bits(result_of_values(least, 2).mean, 0x1p-1074, "mean of the least");
}

static void products_fill_all_limbs(void **state)
{
    (void)state;
    /* (2^128 - 1) (2^192 - 1) = 2^320 - 2^192 - 2^128 + 1 */
    const uint64_t ones[] = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
    const uint64_t expected[] = {1, 0, UINT64_MAX, UINT64_MAX - 1, UINT64_MAX};
    uint64_t found[5];
    mw_exact_multiply(found, ones, 2, ones, 3);
    assert_memory_equal(found, expected, sizeof(expected));
    mw_exact_multiply(found, ones, 3, ones, 2);
    assert_memory_equal(found, expected, sizeof(expected));
}

static void variance_is_weighted(void **state)
{
    (void)state;
    struct muster_metrics *by_weight = one_metric(&everything), *by_count = one_metric(&everything);
    for (int i = 0; i < 10; i++) {
        muster_metrics_put(by_weight, 0, i * 0.7, i);
        for (int k = 0; k < i; k++)
            muster_metrics_put(by_count, 0, i * 0.7, 1);
    }
    struct muster_metric_result weighted = result_of(by_weight, 0),
                                counted = result_of(by_count, 0);
    assert_same_bits(weighted.variance, counted.variance, "variance");
    assert_same_bits(weighted.mean, counted.mean, "mean");
    assert_int_equal(weighted.count, 10);
    assert_int_equal(counted.count, 45);
    muster_metrics_free(by_weight);
    muster_metrics_free(by_count);
}

static void what_is_not_finite_is_counted_apart(void **state)
{
    (void)state;
    const double values[] = {NAN, 2, INFINITY, -INFINITY, 4, NAN, -NAN};
    struct muster_metric_result result = result_of_values(values, 7);
    assert_int_equal(result.count, 2);
    assert_int_equal(result.n_nan, 3);
    assert_int_equal(result.n_infinite, 2);
    assert_same_bits(result.mean, 3, "mean");
    assert_same_bits(result.weight, 2, "weight");
    assert_same_bits(result.min, 2, "min");
    assert_same_bits(result.max, 4, "max");
    struct muster_metric_result empty = result_of_values(values, 1);
    assert_true(isnan(empty.mean) && isnan(empty.min) && isnan(empty.max) && isnan(empty.variance));
    assert_same_bits(empty.sum, 0, "sum of nothing");
}

static void a_zero_has_no_sign(void **state)
{
    (void)state;
    const double orders[2][2] = {{0.0, -0.0}, {-0.0, 0.0}};
    for (int i = 0; i < 2; i++) {
        struct muster_metric_result result = result_of_values(orders[i], 2);
        assert_same_bits(result.min, 0.0, "min");
        assert_same_bits(result.max, 0.0, "max");
        assert_same_bits(result.sum, 0.0, "sum");
    }
}

static int compare_doubles(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Against the sorted values, over many orders of magnitude and both signs. */
static void percentiles_are_as_near_as_is_promised(void **state)
{
    (void)state;
    static double values[SAMPLES];
    static const struct muster_metric_opts opts = {.has_percentiles = true};
    struct rng rng = {.state = 6};
    struct muster_metrics *metrics = one_metric(&opts);
    for (size_t i = 0; i < SAMPLES; i++) {
        values[i] = ldexp(rng_unit(&rng) + 1, (int)rng_below(&rng, 100) - 60);
        values[i] *= rng_below(&rng, 2) ? 1 : -1;
        muster_metrics_put(metrics, 0, values[i], 1);
    }
    qsort(values, SAMPLES, sizeof(values[0]), compare_doubles);
    assert_same_bits(muster_metrics_percentile(metrics, 0, 0), values[0], "least");
    assert_same_bits(muster_metrics_percentile(metrics, 0, 100), values[SAMPLES - 1], "largest");
    for (int i = 1; i < 2000; i++) {
        double found = muster_metrics_percentile(metrics, 0, i / 20.0);
        double exact = values[(i * (SAMPLES / 20) + 99) / 100 - 1];
        if (fabs(found - exact) > fmax(fabs(exact) / 64, 0x1p-40))
            fail_msg("percentile %g: expected about %g, found %g", i / 20.0, exact, found);
    }
    assert_true(isnan(muster_metrics_percentile(metrics, 0, 101)));
    muster_metrics_free(metrics);
}

static void bins_of_percentiles_are_in_order_and_hold_their_middles(void **state)
{
    (void)state;
    for (size_t bin = 0; bin < MW_PERCENTILE_BINS; bin++) {
        double middle = mw_percentile_middle(bin);
        assert_int_equal(mw_percentile_bin(middle), bin);
        assert_true(bin == 0 || mw_percentile_middle(bin - 1) < middle);
    }
    assert_int_equal(mw_percentile_bin(DBL_MAX), MW_PERCENTILE_BINS - 1);
    assert_int_equal(mw_percentile_bin(-DBL_MAX), 0);
    assert_int_equal(mw_percentile_bin(0x1p-1074), MW_PERCENTILE_SIDE);
    assert_int_equal(mw_percentile_bin(-0x1p-40), MW_PERCENTILE_SIDE - 1);
    assert_int_equal(mw_percentile_bin(0x1p-40), MW_PERCENTILE_SIDE + 1);
}

static void a_histogram_counts_every_value_once(void **state)
{
    (void)state;
    static const struct muster_metric_opts opts = {.n_bins = 4, .low = 0, .high = 2};
    struct muster_metrics *metrics = one_metric(&opts);
    const double values[] = {-1, -0x1p-1074, 0, 0.4999, 0.5, 1.5, 1.9999999, 2, 1e300, NAN};
    for (size_t i = 0; i < 10; i++)
        muster_metrics_put(metrics, 0, values[i], 5);
    size_t n_counts;
    const uint64_t *counts = muster_metrics_histogram(metrics, 0, &n_counts);
    const uint64_t expected[] = {2, 2, 1, 0, 2, 2};
    assert_int_equal(n_counts, 6);
    assert_memory_equal(counts, expected, sizeof(expected));
    /* The fifth of nine is in the bin from 0.5 to 1, the eighth is above them all. */
    assert_same_bits(muster_metrics_percentile(metrics, 0, 50), 0.75, "median");
    assert_same_bits(muster_metrics_percentile(metrics, 0, 85), 2, "the eighth");
    muster_metrics_free(metrics);
    metrics = one_metric(NULL);
    assert_null(muster_metrics_histogram(metrics, 0, &n_counts));
    assert_int_equal(n_counts, 0);
    muster_metrics_put(metrics, 0, 1, 1);
    assert_true(isnan(muster_metrics_percentile(metrics, 0, 50)));
    assert_true(isnan(result_of(metrics, 0).variance));
    muster_metrics_free(metrics);
    metrics = muster_metrics_new();
    assert_int_equal(muster_metrics_define(metrics, NULL, NULL), MUSTER_METRICS_EUSE);
    muster_metrics_free(metrics);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_rounded_once),
        cmocka_unit_test(weighted_sums_are_those_of_integers),
        cmocka_unit_test(variance_loses_nothing_where_the_mean_is_large),
        cmocka_unit_test(products_fill_all_limbs),
        cmocka_unit_test(variance_is_weighted),
        cmocka_unit_test(what_is_not_finite_is_counted_apart),
        cmocka_unit_test(a_zero_has_no_sign),
        cmocka_unit_test(percentiles_are_as_near_as_is_promised),
        cmocka_unit_test(bins_of_percentiles_are_in_order_and_hold_their_middles),
        cmocka_unit_test(a_histogram_counts_every_value_once),
    };
    return cmocka_run_group_tests_name("metrics", tests, NULL, NULL);
}
