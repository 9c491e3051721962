/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics_set.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BINS_MAX = 1 << 20,
    LINE_CAP = MW_METRIC_NAME_CAP + 128
};

double mw_word_double(uint64_t word)
{
    double value;
    memcpy(&value, &word, sizeof(value));
    return value;
}

uint64_t mw_double_word(double value)
{
    uint64_t word;
    memcpy(&word, &value, sizeof(word));
    return word;
}

int mw_metrics_fail(struct muster_metrics *metrics, int code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(metrics->error, sizeof(metrics->error), fmt, args);
    va_end(args);
    metrics->code = code;
    return code;
}

struct muster_metrics *muster_metrics_new(void)
{
    return calloc(1, sizeof(struct muster_metrics));
}

void muster_metrics_free(struct muster_metrics *metrics)
{
    if (metrics) {
        free(metrics->items);
        free(metrics->words);
    }
    free(metrics);
}

const char *muster_metrics_error(const struct muster_metrics *metrics)
{
    return metrics ? metrics->error : "no memory for metrics";
}

/*
 * Describes one metric in a line: its name, and its options in digits from which the same bits can
 * be read.
 */
static int describe(const struct mw_metric *metric, char *line, size_t cap)
{
    const struct muster_metric_opts *opts = &metric->opts;
    int n = snprintf(line, cap, "'%s'%s%s", metric->name, opts->has_variance ? " variance" : "",
                     opts->has_percentiles ? " percentiles" : "");
    if (opts->n_bins > 0)
        n += snprintf(line + n, cap - n, " histogram(%u bins, %.17g to %.17g)", opts->n_bins,
                      opts->low, opts->high);
    return n + snprintf(line + n, cap - n, "\n");
}

/* The hash is FNV-1a over the whole text, which begins with the version of the records. */
uint64_t mw_metrics_layout(const struct muster_metrics *metrics, char *text, size_t cap)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325) + 1;
    size_t len = 0;
    for (size_t i = 0; i < metrics->n_items; i++) {
        char line[LINE_CAP];
        int n = describe(&metrics->items[i], line, sizeof(line));
        for (int k = 0; k < n; k++) {
            hash = (hash ^ (unsigned char)line[k]) * UINT64_C(0x100000001b3);
            if (text && len + 1 < cap)
                text[len++] = line[k];
        }
    }
    if (text && cap > 0)
        text[len] = '\0';
    return hash;
}

static const char *why_not(const struct muster_metrics *metrics, const char *name,
                           const struct muster_metric_opts *opts)
{
    size_t len = name ? strlen(name) : 0;
    if (metrics->is_closed)
        return "is defined after the first value";
    if (len == 0 || len >= MW_METRIC_NAME_CAP)
        return "has a name that is not of 1 to 63 characters";
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)name[i] < ' ' || name[i] == 0x7f)
            return "has a name with a control character";
    for (size_t i = 0; i < metrics->n_items; i++)
        if (strcmp(metrics->items[i].name, name) == 0)
            return "is defined twice";
    if (opts->n_bins > BINS_MAX)
        return "has a histogram of more than 2^20 bins";
    if (opts->n_bins > 0 && !(opts->low < opts->high && isfinite(opts->high - opts->low)))
        return "has a histogram whose low is not below its high";
    return NULL;
}

/* Decides where the parts of a record lie. */
static void lay_out(struct mw_metric *metric)
{
    metric->n_words = MW_WORDS;
    if (metric->opts.has_variance) {
        metric->squares = metric->n_words;
        metric->n_words += MW_EXACT_LIMBS_3;
    }
    if (metric->opts.has_percentiles) {
        metric->percentiles = metric->n_words;
        metric->n_words += MW_PERCENTILE_BINS;
    }
    if (metric->opts.n_bins > 0) {
        metric->histogram = metric->n_words;
        metric->n_words += metric->opts.n_bins + 2;
    }
}

int muster_metrics_define(struct muster_metrics *metrics, const char *name,
                          const struct muster_metric_opts *opts)
{
    if (!metrics || metrics->code != 0)
        return metrics ? metrics->code : MUSTER_METRICS_ENOMEM;
    struct mw_metric metric = {.begin = metrics->n_words};
    if (opts)
        metric.opts = *opts;
    const char *why = why_not(metrics, name, &metric.opts);
    if (why)
        return mw_metrics_fail(metrics, MUSTER_METRICS_EUSE, "metric '%.63s' %s", name ? name : "",
                               why);
    memcpy(metric.name, name, strlen(name) + 1);
    lay_out(&metric);
    size_t n_words = metrics->n_words + metric.n_words;
    struct mw_metric *items =
        realloc(metrics->items, (metrics->n_items + 1) * sizeof(*metrics->items));
    metrics->items = items ? items : metrics->items;
    uint64_t *words = items ? realloc(metrics->words, n_words * sizeof(*words)) : NULL;
    if (!words)
        return mw_metrics_fail(metrics, MUSTER_METRICS_ENOMEM, "no memory for metric '%s'", name);
    memset(words + metrics->n_words, 0, metric.n_words * sizeof(*words));
    items[metrics->n_items] = metric;
    metrics->words = words;
    metrics->n_words = n_words;
    return (int)metrics->n_items++;
}

void muster_metrics_reset(struct muster_metrics *metrics)
{
    if (metrics && metrics->n_words > 0)
        memset(metrics->words, 0, metrics->n_words * sizeof(*metrics->words));
    if (metrics)
        metrics->is_total = false;
}

void mw_metrics_begin(struct muster_metrics *metrics)
{
    metrics->is_closed = true;
    if (metrics->is_total)
        muster_metrics_reset(metrics);
}

static size_t histogram_bin(const struct muster_metric_opts *opts, double value)
{
    if (value < opts->low)
        return 0;
    if (value >= opts->high)
        return opts->n_bins + 1;
    double part = (value - opts->low) / (opts->high - opts->low);
    size_t bin = (size_t)(part * opts->n_bins);
    return 1 + (bin < opts->n_bins ? bin : opts->n_bins - 1);
}

/* -0 becomes 0, so that the order of the two does not matter. */
static void put_extremes(uint64_t *record, double min, double max)
{
    bool is_first = record[MW_COUNT] == 0;
    if (is_first || min < mw_word_double(record[MW_MIN]))
        record[MW_MIN] = mw_double_word(min + 0.0);
    if (is_first || max > mw_word_double(record[MW_MAX]))
        record[MW_MAX] = mw_double_word(max + 0.0);
}

static void put_finite(const struct mw_metric *metric, uint64_t *record, double value,
                       double weight)
{
    struct mw_exact_product product = mw_exact_one();
    mw_exact_times(&product, weight);
    mw_exact_add(record + MW_WEIGHT, MW_EXACT_LIMBS_1, &product);
    mw_exact_times(&product, value);
    mw_exact_add(record + MW_SUM, MW_EXACT_LIMBS_2, &product);
    if (metric->squares) {
        mw_exact_times(&product, value);
        mw_exact_add(record + metric->squares, MW_EXACT_LIMBS_3, &product);
    }
    if (metric->percentiles)
        record[metric->percentiles + mw_percentile_bin(value)]++;
    if (metric->histogram)
        record[metric->histogram + histogram_bin(&metric->opts, value)]++;
    put_extremes(record, value, value);
    record[MW_COUNT]++;
}

int muster_metrics_put(struct muster_metrics *metrics, int metric, double value, double weight)
{
    if (!metrics || metrics->code != 0)
        return metrics ? metrics->code : MUSTER_METRICS_ENOMEM;
    if (metric < 0 || (size_t)metric >= metrics->n_items)
        return mw_metrics_fail(metrics, MUSTER_METRICS_EUSE, "there is no metric %d", metric);
    const struct mw_metric *item = &metrics->items[metric];
    if (!(weight >= 0 && weight <= DBL_MAX))
        return mw_metrics_fail(metrics, MUSTER_METRICS_EUSE,
                               "metric '%s': a weight of %g: expected a finite one, >= 0",
                               item->name, weight);
    mw_metrics_begin(metrics);
    uint64_t *record = metrics->words + item->begin;
    if (isnan(value))
        record[MW_N_NAN]++;
    else if (isinf(value))
        record[MW_N_INFINITE]++;
    else
        put_finite(item, record, value, weight);
    return 0;
}

static void merge_record(const struct mw_metric *metric, uint64_t *record, const uint64_t *other)
{
    if (other[MW_COUNT] > 0)
        put_extremes(record, mw_word_double(other[MW_MIN]), mw_word_double(other[MW_MAX]));
    for (size_t i = MW_COUNT; i <= MW_N_INFINITE; i++)
        record[i] += other[i];
    mw_exact_merge(record + MW_WEIGHT, other + MW_WEIGHT, MW_EXACT_LIMBS_1);
    mw_exact_merge(record + MW_SUM, other + MW_SUM, MW_EXACT_LIMBS_2);
    size_t at = MW_WORDS;
    if (metric->squares) {
        mw_exact_merge(record + at, other + at, MW_EXACT_LIMBS_3);
        at += MW_EXACT_LIMBS_3;
    }
    for (; at < metric->n_words; at++)
        record[at] += other[at];
}

static void store_word(unsigned char *at, uint64_t word)
{
    for (int i = 0; i < 8; i++)
        at[i] = (unsigned char)(word >> 8 * i);
}

static uint64_t load_word(const unsigned char *at)
{
    uint64_t word = 0;
    for (int i = 0; i < 8; i++)
        word |= (uint64_t)at[i] << 8 * i;
    return word;
}

size_t muster_metrics_bytes(const struct muster_metrics *metrics)
{
    return metrics ? (metrics->n_words + 1) * 8 : 0;
}

int muster_metrics_save(struct muster_metrics *metrics, void *bytes)
{
    if (!metrics || metrics->code != 0)
        return metrics ? metrics->code : MUSTER_METRICS_ENOMEM;
    metrics->is_closed = true;
    unsigned char *at = bytes;
    store_word(at, mw_metrics_layout(metrics, NULL, 0));
    for (size_t i = 0; i < metrics->n_words; i++)
        store_word(at + 8 * (i + 1), metrics->words[i]);
    return 0;
}

int muster_metrics_merge(struct muster_metrics *metrics, const void *bytes, size_t n)
{
    if (!metrics || metrics->code != 0)
        return metrics ? metrics->code : MUSTER_METRICS_ENOMEM;
    const unsigned char *at = bytes;
    if (n != muster_metrics_bytes(metrics) || load_word(at) != mw_metrics_layout(metrics, NULL, 0))
        return mw_metrics_fail(metrics, MUSTER_METRICS_ELAYOUT,
                               "what is to be merged was saved from other metrics than these %zu",
                               metrics->n_items);
    uint64_t *other = malloc(n);
    if (!other)
        return mw_metrics_fail(metrics, MUSTER_METRICS_ENOMEM, "no memory to merge metrics");
    mw_metrics_begin(metrics);
    for (size_t i = 0; i < metrics->n_words; i++)
        other[i] = load_word(at + 8 * (i + 1));
    for (size_t i = 0; i < metrics->n_items; i++) {
        const struct mw_metric *metric = &metrics->items[i];
        merge_record(metric, metrics->words + metric->begin, other + metric->begin);
    }
    free(other);
    return 0;
}
