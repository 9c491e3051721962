/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers of all items become the result of each test triple, in their order: the best of the best of the ranges, or
 * what stands in the file of rows. Which device computed what, and when, does not enter.
 */
#pragma once

#include "cli/spread_files.h"

/* What the workers said of their time. */
struct spread_times {
    uint64_t load_ms, work_ms; /* all together */
    size_t n_workers, n_lives; /* seats that answered, and processes that did */
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

/* Calls the sink's top for each test, as tracin_run does. ERR_DATA where answers are missing or damaged. */
MUST_CHECK int spread_merge(const struct spread_merge *merge, const struct tracin_sink *sink,
                            struct spread_times *times, struct err *err);
/* The times alone. The same errors. */
MUST_CHECK int spread_times_read(const struct spread_merge *merge, struct spread_times *times,
                                 struct err *err);
/* n numbers of the file of rows, from number `first` on; they begin at byte `values_at`. */
MUST_CHECK int spread_values_read(const char *dir, uint64_t values_at, uint64_t first, size_t n,
                                  double *values, struct err *err);
