/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast a count grows of late: over five seconds, or over eight steps where these take longer. What comes
 * together, as the answers of a batch do, is one step. Pure; all times are of one monotonic clock.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
    RATE_STEPS_MAX = 40
};

struct rate_step {
    uint64_t first_ms, last_ms; /* when its first and its last part came */
    uint64_t count;             /* after its last part */
};

/* All zeros: it has not begun. */
struct rate {
    struct rate_step steps[RATE_STEPS_MAX]; /* the oldest first; the rate counts from its end */
    size_t n_steps;
};

void rate_begin(struct rate *rate, uint64_t count, uint64_t now_ms);
/* The count may be noted as often as one likes. A smaller one than before begins anew. */
void rate_note(struct rate *rate, uint64_t count, uint64_t now_ms);
/* 0: it has not grown yet. It falls while the next step is late. */
double rate_per_s(const struct rate *rate, uint64_t now_ms);
