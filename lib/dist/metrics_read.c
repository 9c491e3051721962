/* SPDX-License-Identifier: Apache-2.0
 *
 * From exact sums and counts to results, which do not depend on the order of the values.
 */
#include "metrics_set.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static double as_double(struct mw_exact_value value)
{
    return ldexp(value.fraction, value.exponent);
}

/* Divides the fractions, so that nothing in between is too large or too small for a double. */
static double quotient(struct mw_exact_value left, struct mw_exact_value right)
{
    return ldexp(left.fraction / right.fraction, left.exponent - right.exponent);
}

/*
 * (weight * squares - sum^2) / weight^2. The difference is an exact integer, never negative by the
 * inequality of Cauchy and Schwarz, and is rounded once, so nothing is lost by cancellation.
 */
static double variance_of(const struct mw_metric *metric, const uint64_t *record,
                          struct mw_exact_value weight)
{
    enum {
        LIMBS = MW_EXACT_LIMBS_1 + MW_EXACT_LIMBS_3
    };
    static_assert(2 * MW_EXACT_LIMBS_2 == LIMBS, "both products have one width, and one unit");
    uint64_t product[LIMBS], square[LIMBS], sum[MW_EXACT_LIMBS_2];
    memcpy(sum, record + MW_SUM, sizeof(sum));
    mw_exact_make_positive(sum, MW_EXACT_LIMBS_2);
    mw_exact_multiply(square, sum, MW_EXACT_LIMBS_2, sum, MW_EXACT_LIMBS_2);
    mw_exact_multiply(product, record + MW_WEIGHT, MW_EXACT_LIMBS_1, record + metric->squares,
                      MW_EXACT_LIMBS_3);
    mw_exact_subtract(product, square, LIMBS);
    struct mw_exact_value value = mw_exact_round(product, LIMBS, 4 * MW_EXACT_UNIT);
    value.fraction /= weight.fraction;
    value.exponent -= weight.exponent;
    return quotient(value, weight);
}

/* Returns the metric, or NULL with the sticky error. */
static const struct mw_metric *look_up(struct muster_metrics *metrics, int metric)
{
    if (!metrics || metrics->code != 0)
        return NULL;
    if (metric >= 0 && (size_t)metric < metrics->n_items)
        return &metrics->items[metric];
    mw_metrics_fail(metrics, MUSTER_METRICS_EUSE, "there is no metric %d", metric);
    return NULL;
}

int muster_metrics_get(struct muster_metrics *metrics, int metric,
                       struct muster_metric_result *result)
{
    const struct mw_metric *item = look_up(metrics, metric);
    *result = (struct muster_metric_result){.mean = NAN, .min = NAN, .max = NAN, .variance = NAN};
    if (!item)
        return metrics ? metrics->code : MUSTER_METRICS_ENOMEM;
    const uint64_t *record = metrics->words + item->begin;
    struct mw_exact_value weight =
        mw_exact_round(record + MW_WEIGHT, MW_EXACT_LIMBS_1, MW_EXACT_UNIT);
    struct mw_exact_value sum =
        mw_exact_round(record + MW_SUM, MW_EXACT_LIMBS_2, 2 * MW_EXACT_UNIT);
    result->count = record[MW_COUNT];
    result->n_nan = record[MW_N_NAN];
    result->n_infinite = record[MW_N_INFINITE];
    result->weight = as_double(weight);
    result->sum = as_double(sum);
    if (record[MW_COUNT] > 0) {
        result->min = mw_word_double(record[MW_MIN]);
        result->max = mw_word_double(record[MW_MAX]);
    }
    if (weight.fraction > 0) {
        result->mean = quotient(sum, weight);
        if (item->squares)
            result->variance = variance_of(item, record, weight);
    }
    return 0;
}

const uint64_t *muster_metrics_histogram(struct muster_metrics *metrics, int metric,
                                         size_t *n_counts)
{
    const struct mw_metric *item = look_up(metrics, metric);
    *n_counts = item && item->histogram ? item->opts.n_bins + 2 : 0;
    return *n_counts > 0 ? metrics->words + item->begin + item->histogram : NULL;
}

/*
 * The upper bits of a positive double (exponent and first bits of the mantissa) are its place on a
 * scale of octaves, each cut into equal bins, as in HdrHistogram. No logarithm is used, since its
 * last bit differs between libraries.
 */
size_t mw_percentile_bin(double value)
{
    int64_t upper = (int64_t)(mw_double_word(fabs(value)) >> (52 - MW_PERCENTILE_FINE_BITS));
    int64_t side =
        upper - ((int64_t)(1023 + MW_PERCENTILE_OCTAVE_FIRST) << MW_PERCENTILE_FINE_BITS);
    if (side < 0)
        return MW_PERCENTILE_SIDE;
    side = side < MW_PERCENTILE_SIDE ? side : MW_PERCENTILE_SIDE - 1;
    return (size_t)(value < 0 ? MW_PERCENTILE_SIDE - 1 - side : MW_PERCENTILE_SIDE + 1 + side);
}

double mw_percentile_middle(size_t bin)
{
    int64_t side = (int64_t)bin - MW_PERCENTILE_SIDE;
    if (side == 0)
        return 0;
    uint64_t place = (uint64_t)(side < 0 ? -side - 1 : side - 1);
    uint64_t upper =
        place + ((uint64_t)(1023 + MW_PERCENTILE_OCTAVE_FIRST) << MW_PERCENTILE_FINE_BITS);
    /* The bit below the bin's own is its middle. */
    uint64_t word = (2 * upper + 1) << (51 - MW_PERCENTILE_FINE_BITS);
    return side < 0 ? -mw_word_double(word) : mw_word_double(word);
}

/* Returns the bin that has the value of this rank, which counts from 1. */
static size_t bin_of_rank(const uint64_t *counts, size_t n_counts, uint64_t rank)
{
    size_t bin = 0;
    for (uint64_t before = 0; bin + 1 < n_counts; bin++) {
        before += counts[bin];
        if (before >= rank)
            break;
    }
    return bin;
}

static double histogram_middle(const struct muster_metric_opts *opts, size_t bin)
{
    if (bin == 0)
        return opts->low;
    if (bin > opts->n_bins)
        return opts->high;
    return opts->low + ((double)bin - 0.5) / opts->n_bins * (opts->high - opts->low);
}

double muster_metrics_percentile(struct muster_metrics *metrics, int metric, double percent)
{
    const struct mw_metric *item = look_up(metrics, metric);
    if (!item || (!item->percentiles && !item->histogram) || !(percent >= 0 && percent <= 100))
        return NAN;
    const uint64_t *record = metrics->words + item->begin;
    double count = (double)record[MW_COUNT], min = mw_word_double(record[MW_MIN]);
    double max = mw_word_double(record[MW_MAX]), middle;
    /* 8.05 % of 2000 are 161, though 8.05 as a double is a little more. */
    uint64_t rank = (uint64_t)ceil(percent * count / 100 * (1 - 0x1p-50));
    if (record[MW_COUNT] == 0)
        return NAN;
    if (rank <= 1)
        return min;
    if (rank >= record[MW_COUNT])
        return max;
    if (item->percentiles)
        middle =
            mw_percentile_middle(bin_of_rank(record + item->percentiles, MW_PERCENTILE_BINS, rank));
    else
        middle = histogram_middle(
            &item->opts, bin_of_rank(record + item->histogram, item->opts.n_bins + 2, rank));
    return middle < min ? min : middle > max ? max : middle;
}
