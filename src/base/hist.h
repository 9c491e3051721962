/* SPDX-License-Identifier: Apache-2.0
 *
 * A histogram of times. Buckets are an eighth of an octave wide, so a quantile is within 5 % of the
 * truth from microseconds to days, in a fixed 3 KiB; sum, minimum and maximum are exact. Pure: core
 * may use it.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

enum {
    HIST_BUCKETS = 8 + 8 * 40 /* exact up to 8 us, then up to 2^43 us, 100 days */
};

struct hist {
    uint64_t n, sum_us, min_us, max_us;
    uint64_t counts[HIST_BUCKETS];
};

void hist_add(struct hist *hist, uint64_t each_us, uint64_t count);
void hist_merge(struct hist *into, const struct hist *from);
/* The q-quantile (q in 0..1): the time that this share of all times does not exceed; 0 when
 * empty. */
uint64_t hist_quantile_us(const struct hist *hist, double q);
/* 0 when empty. */
double hist_mean_us(const struct hist *hist);

/* {"n":3,"sum_us":30,"min_us":9,"max_us":11,"counts":[[8,1],[9,2]]}: each pair in counts is a
 * bucket's number and its count. */
void hist_format(const struct hist *hist, struct buf *out);
/* Reads what hist_format() wrote. ERR_DATA for any other text. */
int hist_parse(struct hist *hist, const char *text, struct err *err);
