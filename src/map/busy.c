/* SPDX-License-Identifier: Apache-2.0 */
#include "map/busy.h"

enum {
    TOGETHER_US = 20
};

static void burst_end(struct busy *busy)
{
    if (busy->burst.count > 0)
        hist_add(&busy->item_times, busy->burst.span_us / busy->burst.count, busy->burst.count);
    busy->burst.first_us = busy->burst.span_us = busy->burst.count = 0;
}

/* Busy time counts from the first sign that the worker is ready: items that were sent earlier waited for the model. */
static void begin(struct busy *busy, uint64_t now_us)
{
    if (busy->live_us == 0 || busy->since_us > 0 || !busy_is(busy))
        return;
    busy->since_us = busy->item_since_us = now_us;
    burst_end(busy);
}

static void rest(struct busy *busy, uint64_t now_us)
{
    if (busy->since_us > 0)
        busy->total_us += now_us - busy->since_us;
    busy->since_us = 0;
}

/*
 * The time an item takes is seen in the spacing of the answers. The answers of a batch come at one
 * moment: an answer that follows within a fiftieth of the wait for the first is of the same burst.
 */
static void item_times_note(struct busy *busy, uint64_t count, uint64_t now_us)
{
    uint64_t gap_us = now_us - busy->item_since_us;
    if (busy->item_since_us == 0)
        return; /* its first answer: the time before was spent loading */
    if (gap_us > busy->burst.first_us / 50 + TOGETHER_US)
        burst_end(busy);
    if (busy->burst.count == 0)
        busy->burst.first_us = gap_us;
    busy->burst.span_us += gap_us;
    busy->burst.count += count;
    busy->item_since_us = now_us;
}

void busy_sent(struct busy *busy, uint64_t count, uint64_t now_us)
{
    busy->n_sent += count;
    begin(busy, now_us);
}

void busy_answered(struct busy *busy, uint64_t count, uint64_t now_us)
{
    item_times_note(busy, count, now_us);
    busy->n_answered = MIN(busy->n_answered + count, busy->n_sent);
    if (busy_is(busy))
        begin(busy, now_us);
    else
        rest(busy, now_us);
}

void busy_is_live(struct busy *busy, uint64_t live_us, uint64_t now_us)
{
    busy->live_us = live_us;
    if (live_us < now_us && busy_is(busy))
        busy->since_us = busy->item_since_us = live_us;
}

void busy_end(struct busy *busy, uint64_t now_us)
{
    rest(busy, now_us);
    burst_end(busy);
}
