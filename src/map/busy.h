/* SPDX-License-Identifier: Apache-2.0
 *
 * How busy a worker is: how many items it has in hand, how long it had any, and how long an item takes, computed from
 * the times at which items are sent and answered. Pure; all times are of one monotonic clock.
 */
#pragma once

#include "base/hist.h"

struct busy {
    uint64_t n_sent, n_answered; /* items */
    uint64_t n_failed;           /* of those that were answered, with a failure */
    uint64_t started_us;
    uint64_t live_us;       /* when it was first seen to be ready; 0: not yet */
    uint64_t since_us;      /* since when it has items in hand; 0: it has none, or is not ready */
    uint64_t total_us;      /* busy time before since_us */
    uint64_t item_since_us; /* when the last answer came, or the first item after a pause */
    struct {
        uint64_t first_us, span_us, count;
    } burst;                /* answers that came together, which share the time */
    struct hist item_times; /* between answers, while it had items in hand */
};

static inline bool busy_is(const struct busy *busy)
{
    return busy->n_sent > busy->n_answered;
}

void busy_sent(struct busy *busy, uint64_t count, uint64_t now_us);
void busy_answered(struct busy *busy, uint64_t count, uint64_t now_us);
/* The worker was ready at live_us, which is not before its start. */
void busy_is_live(struct busy *busy, uint64_t live_us, uint64_t now_us);
void busy_end(struct busy *busy, uint64_t now_us);
