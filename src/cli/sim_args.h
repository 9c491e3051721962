/* SPDX-License-Identifier: Apache-2.0
 *
 * The input of `muster sim`: times as users write them, and the measured times of an earlier run.
 */
#pragma once

#include "base/err.h"
#include "base/hist.h"
#include "sim/dist.h"

/*
 * "0.9s" (each the same), "0.5s-2s" (between), "lognormal:0.9s:1" (mean, sigma), "pareto:0.9s:1.5"
 * (mean, exponent), "@FILE" (one time in seconds per line). The caller frees list_ms.
 */
MUST_CHECK int dist_parse(struct str text, struct dist *out, struct err *err);

/* "2%" or "0.02", between 0 and 1. */
MUST_CHECK int share_parse(struct str text, double *out, struct err *err);

/* What a run of `muster map` shows about its items and workers. */
struct learned {
    uint64_t items;
    uint32_t workers;
    double load_ms; /* mean over the workers that loaded their model */
    double crash;   /* share of item runs that killed a worker */
    struct hist times;
};
MUST_CHECK int learned_read(const char *run_dir, struct learned *out, struct err *err);
/* Returns the distribution of these times, without their order. The caller frees its list. */
struct dist learned_times(const struct hist *times);
