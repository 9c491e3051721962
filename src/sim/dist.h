/* SPDX-License-Identifier: Apache-2.0
 *
 * How long things take. The time of an item depends only on the seed and the item, not on the
 * worker, the moment, or earlier draws. So schedules of the same items can be compared.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum dist_kind {
    DIST_CONSTANT,
    DIST_UNIFORM,    /* between mean * (1 - spread) and mean * (1 + spread), spread <= 1 */
    DIST_LOG_NORMAL, /* spread: sigma of the logarithm; 1 fits the answers of language models */
    DIST_PARETO,     /* spread: the tail's exponent, > 1; 1.5 is heavy: the mean needs many items */
    DIST_LIST,       /* item i takes list_ms[i % n_list], times mean_ms if that is not 0 */
};

enum {
    DIST_MAX_S = 30 * 86400 /* no time is longer, however heavy the tail */
};

struct dist {
    enum dist_kind kind;
    double mean_ms, spread;
    double max_ms;         /* no time is longer; 0 = DIST_MAX_S */
    const double *list_ms; /* borrowed */
    size_t n_list;
};

uint64_t dist_us(const struct dist *dist, uint64_t seed, uint64_t item);
