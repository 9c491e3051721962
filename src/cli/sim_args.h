/* SPDX-License-Identifier: Apache-2.0
 *
 * What `muster sim` is told about a run: times as people write them, and what an earlier run shows.
 */
#pragma once

#include "base/err.h"
#include "base/hist.h"
#include "sim/dist.h"

/*
 * "0.9s" (each the same), "0.5s-2s" (between), "lognormal:0.9s:1" (mean, sigma), "pareto:0.9s:1.5" (mean,
 * exponent), "@FILE" (a time in seconds a line). A list belongs to the caller: free list_ms.
 */
MUST_CHECK int dist_parse(struct str text, struct dist *out, struct err *err);

/* "2%" or "0.02", between 0 and 1. */
MUST_CHECK int share_parse(struct str text, double *out, struct err *err);

/* What a run of `muster map` shows about its work. */
struct learned {
    uint64_t items;
    uint32_t workers;
    double load_ms; /* mean over the lives that got so far */
    double crash;   /* share of item runs that killed a worker */
    struct hist times;
};
MUST_CHECK int learned_read(const char *run_dir, struct learned *out, struct err *err);
/* The same times in no order. The list belongs to the caller. */
struct dist learned_times(const struct hist *times);
