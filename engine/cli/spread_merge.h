/* SPDX-License-Identifier: Apache-2.0
 *
 * Merges the answers to all items into the result of each test triple, in the order of the test
 * triples: from the best of each range, or from the file of rows. The results do not depend on
 * which device computed an item, or when.
 */
#pragma once

#include "cli/spread_files.h"

/* The times that the workers reported. */
struct spread_times {
    uint64_t load_ms, work_ms; /* sums over all workers */
    size_t n_workers, n_lives; /* seats, and processes, that answered */
};

struct spread_merge {
    const char *dir;
    const struct spread_plan *plan;
    const struct spread_tests *tests;
    const struct triple *train;
    size_t n_train;
    size_t top_k; /* 0: all */
    enum tracin_order order;
};

/*
 * Calls the sink's `top` for each test, as tracin_run() does. ERR_DATA: answers are missing or
 * damaged.
 */
MUST_CHECK int spread_merge(const struct spread_merge *merge, const struct tracin_sink *sink,
                            struct spread_times *times, struct err *err);
/* Reads the times alone; returns the errors of spread_merge(). */
MUST_CHECK int spread_times_read(const struct spread_merge *merge, struct spread_times *times,
                                 struct err *err);
/* Reads n numbers of the file of rows, from number `first` on. Number 0 is at byte `values_at`. */
MUST_CHECK int spread_values_read(const char *dir, uint64_t values_at, uint64_t first, size_t n,
                                  double *values, struct err *err);
