/* SPDX-License-Identifier: Apache-2.0
 *
 * Metrics over all ranks, as if one rank had seen all samples:
 *
 *     struct muster_metrics *metrics = muster_metrics_new();
 *     int loss = muster_metrics_define(metrics, "loss", NULL);
 *     for each batch
 *         muster_metrics_put(metrics, loss, mean_loss, n_tokens);
 *     if (muster_metrics_reduce(metrics, world, all_gather, context) != 0)
 *         fputs(muster_metrics_error(metrics), stderr);
 *     struct muster_metric_result result;
 *     muster_metrics_get(metrics, loss, &result);
 *
 * Each metric keeps the weighted sum with its weights, the least, the largest and the number of
 * values, and on request variance, percentiles and a histogram. All of them go through one
 * collective call. Sums are exact: no bit is rounded off before a result is read. So results have
 * the same bits on any number of ranks, however the samples were dealt out and in whatever order
 * they came.
 *
 * Only finite values count. NaN and infinities are counted apart (n_nan, n_infinite), and do not
 * spoil the rest.
 *
 * Errors are sticky: the first one is kept with its message, and every later call that can fail
 * returns it. One thread uses a set at a time; threads can have sets of their own, to be put
 * together by save and merge.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* The same words as in the library's other headers, so that any of them may come first. */
#define MUSTER_API __attribute__((visibility("default")))

enum muster_metrics_code {
    MUSTER_METRICS_EUSE = -1, /* wrong use: no such metric, a weight below 0, a name twice */
    MUSTER_METRICS_ENOMEM = -2,
    MUSTER_METRICS_ELAYOUT = -3, /* ranks, or what was saved, have other metrics */
    MUSTER_METRICS_EGATHER = -4, /* all_gather failed */
};

/* What a metric keeps beside sums, least and largest. Zero: nothing else. */
struct muster_metric_opts {
    bool has_variance; /* 800 bytes more */
    /*
     * Percentiles of values whose range is not known: 32 bins for each power of two from 2^-40 to
     * 2^40, and as many below 0; 40 KiB. Off by at most 1/64 of the value, or by 2^-40; beyond
     * 2^40 all values are in one bin.
     */
    bool has_percentiles;
    /* A histogram: n_bins of equal width from low to high; 0: none. At most 2^20. */
    uint32_t n_bins;
    double low, high;
};

/* mean, variance, min and max of an empty metric are NaN. */
struct muster_metric_result {
    uint64_t count;             /* finite values, whatever their weights */
    uint64_t n_nan, n_infinite; /* values that are in nothing else here */
    double weight;              /* the sum of the weights */
    double sum;                 /* of weight * value; infinite if it is beyond a double */
    double mean;                /* sum / weight, off by at most 2 units in the last place */
    double min, max;            /* 0 for a zero of either sign */
    /*
     * Of the population: sum of weight * (value - mean)^2 / sum of weights. From exact sums, so it
     * loses nothing where the mean is large. Times count / (count - 1) it is that of a sample, if
     * all weights are 1. NaN without has_variance.
     */
    double variance;
};

struct muster_metrics;

/* NULL only for lack of memory; the other calls accept NULL. */
MUSTER_API struct muster_metrics *muster_metrics_new(void);
MUSTER_API void muster_metrics_free(struct muster_metrics *metrics);

/* The message of the sticky error, "" while there is none. Borrowed from the set. */
MUSTER_API const char *muster_metrics_error(const struct muster_metrics *metrics);

/*
 * Add a metric. All ranks define the same ones in the same order, before the first put, save, merge
 * or reduce. name: 1 to 63 printable characters, copied. opts may be NULL. Returns the number for
 * the other calls, from 0; negative on error.
 */
MUSTER_API int muster_metrics_define(struct muster_metrics *metrics, const char *name,
                                     const struct muster_metric_opts *opts);

/* Count a value. weight: finite, not negative; the number of samples, where value is their mean. */
MUSTER_API int muster_metrics_put(struct muster_metrics *metrics, int metric, double value,
                                  double weight);

/*
 * Gathers `mine`, the same number of bytes of each rank, into `all`, in the order of ranks. Returns 0, or another
 * value for failure.
 */
typedef int muster_all_gather(void *context, const void *mine, size_t bytes, void *all);

/*
 * From what each rank has put, make what all have put, on all of them. Every rank calls it. The
 * next put, merge or reduce begins anew. One all_gather, and at the first reduce one of 4 KiB
 * before it, which compares what the ranks have defined: ELAYOUT names the first metric that
 * differs, on all ranks alike. all_gather is not called, and may be NULL, if n_ranks is 1.
 */
MUSTER_API int muster_metrics_reduce(struct muster_metrics *metrics, uint32_t n_ranks,
                                     muster_all_gather *all_gather, void *context);

/* Forget all values, not the metrics. */
MUSTER_API void muster_metrics_reset(struct muster_metrics *metrics);

/* Read a metric: that of this rank, or, after reduce and until the next put, that of all ranks. */
MUSTER_API int muster_metrics_get(struct muster_metrics *metrics, int metric,
                                  struct muster_metric_result *result);

/*
 * The value that `percent` (0 to 100) of the count are not above: the middle of its bin, or min or
 * max where these are nearer. Weights do not matter. Without has_percentiles it is taken from the
 * histogram, and off by at most half a bin, or anywhere between its end and min or max. NaN without
 * either, or without values.
 */
MUSTER_API double muster_metrics_percentile(struct muster_metrics *metrics, int metric,
                                            double percent);

/*
 * The counts of a histogram: *n_counts is n_bins + 2, the first is of the values below low, the
 * last of those at high or above. Borrowed until the next call; NULL if there is none.
 */
MUSTER_API const uint64_t *muster_metrics_histogram(struct muster_metrics *metrics, int metric,
                                                    size_t *n_counts);

/*
 * The set as bytes, for checkpoints, threads and collectives of other kinds: the same bytes for the
 * same values, on machines of any byte order. save writes muster_metrics_bytes; merge adds what was
 * saved from a set with the same metrics, else ELAYOUT, with the set unchanged.
 */
MUSTER_API size_t muster_metrics_bytes(const struct muster_metrics *metrics);
MUSTER_API int muster_metrics_save(struct muster_metrics *metrics, void *bytes);
MUSTER_API int muster_metrics_merge(struct muster_metrics *metrics, const void *bytes, size_t n);

#if defined(__cplusplus)
}
#endif
