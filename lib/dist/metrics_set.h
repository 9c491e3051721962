/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of a set of metrics. Each metric has a record of 64-bit words; all records lie in one array, and all
 * zeros means empty. So a set is reset, saved and merged as an array. metrics.c defines, puts and merges;
 * metrics_read.c makes results; metrics_reduce.c does it over ranks.
 */
#pragma once

#include "exact_sum.h"
#include "muster/metrics.h"

enum {
    MW_METRIC_NAME_CAP = 64,
    /* percentiles: 2^5 bins an octave, 2^-40 to 2^40, both signs, and one around 0 */
    MW_PERCENTILE_FINE_BITS = 5,
    MW_PERCENTILE_OCTAVE_FIRST = -40,
    MW_PERCENTILE_OCTAVE_END = 40,
    MW_PERCENTILE_SIDE = (MW_PERCENTILE_OCTAVE_END - MW_PERCENTILE_OCTAVE_FIRST)
                         << MW_PERCENTILE_FINE_BITS,
    MW_PERCENTILE_BINS = 2 * MW_PERCENTILE_SIDE + 1,
    MW_LAYOUT_BYTES = 4096
};

/* The words of a record. Optional parts follow, at the offsets in struct mw_metric. */
enum {
    MW_COUNT,
    MW_N_NAN,
    MW_N_INFINITE,
    MW_MIN, /* a double's bits; of no meaning while MW_COUNT is 0 */
    MW_MAX,
    MW_WEIGHT,
    MW_SUM = MW_WEIGHT + MW_EXACT_LIMBS_1,
    MW_WORDS = MW_SUM + MW_EXACT_LIMBS_2
};

struct mw_metric {
    char name[MW_METRIC_NAME_CAP];
    struct muster_metric_opts opts;
    size_t begin, n_words;                  /* of the record */
    size_t squares, percentiles, histogram; /* from begin; 0: none */
};

struct muster_metrics {
    struct mw_metric *items;
    size_t n_items;
    uint64_t *words;
    size_t n_words;
    bool is_closed; /* no more definitions */
    bool is_agreed; /* all ranks have the same ones */
    bool is_total;  /* the words are those of all ranks: the next put begins anew */
    int code;       /* the sticky error */
    char error[400];
};

__attribute__((format(printf, 3, 4))) int mw_metrics_fail(struct muster_metrics *metrics, int code,
                                                          const char *fmt, ...);
/* The definitions as text, a line each; returns a hash of it. Cut to cap, as by snprintf. */
uint64_t mw_metrics_layout(const struct muster_metrics *metrics, char *text, size_t cap);
/* Reset the set if it has the values of all ranks, and end the definitions. */
void mw_metrics_begin(struct muster_metrics *metrics);

double mw_word_double(uint64_t word);
uint64_t mw_double_word(double value);
/* The number of a value's bin, below MW_PERCENTILE_BINS, in ascending order; and the middle of a bin. */
size_t mw_percentile_bin(double value);
double mw_percentile_middle(size_t bin);
