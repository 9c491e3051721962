/* SPDX-License-Identifier: Apache-2.0 */
#include "base/rate.h"

#include <string.h>
#include <sys/param.h>

enum {
    SPAN_MS = 5000,    /* older steps are dropped */
    STEPS_MIN = 8,     /* but for so many, unless a pause lies between them */
    GAP_SHARE = 4,     /* what comes within a quarter of the usual gap belongs to the step before */
    STEP_MIN_MS = 500, /* what comes sooner belongs to it in any case */
    STEP_MAX_MS = 2500,   /* what comes later never does */
    STEPS_AFTER_PAUSE = 3 /* so many tell a pause from the usual gap */
};

/* The usual gap: the mean time between two steps. */
static uint64_t gap_ms(const struct rate *rate)
{
    size_t n_gaps = rate->n_steps - 1;
    uint64_t span_ms = rate->steps[n_gaps].last_ms - rate->steps[0].last_ms;
    return n_gaps > 0 ? span_ms / n_gaps : 0;
}

void rate_begin(struct rate *rate, uint64_t count, uint64_t now_ms)
{
    rate->n_steps = 1;
    rate->steps[0] = (struct rate_step){now_ms, now_ms, count};
}

/* The step that follows a pause of more than half of the time of all steps: a compilation with the first item, a worker
 * that was loaded again. 0: there is none, or too little came after it. */
static size_t after_pause(const struct rate *rate)
{
    uint64_t span_ms = rate->steps[rate->n_steps - 1].last_ms - rate->steps[0].last_ms;
    for (size_t i = 1; i + STEPS_AFTER_PAUSE < rate->n_steps; i++)
        if (rate->steps[i].last_ms - rate->steps[i - 1].last_ms > span_ms / 2)
            return i;
    return 0;
}

static void old_drop(struct rate *rate, uint64_t now_ms)
{
    size_t n = rate->n_steps, n_old = after_pause(rate);
    while (n - n_old > STEPS_MIN && now_ms - rate->steps[n_old + 1].last_ms > SPAN_MS)
        n_old++;
    n_old += n_old == 0 && n == RATE_STEPS_MAX;
    memmove(rate->steps, rate->steps + n_old, (n - n_old) * sizeof(rate->steps[0]));
    rate->n_steps = n - n_old;
}

void rate_note(struct rate *rate, uint64_t count, uint64_t now_ms)
{
    struct rate_step *last = &rate->steps[rate->n_steps - (rate->n_steps > 0)];
    if (rate->n_steps == 0 || count < last->count) {
        rate_begin(rate, count, now_ms);
        return;
    }
    if (count == last->count)
        return;
    now_ms = MAX(now_ms, last->last_ms); /* a clock that is looked at once a turn may be behind */
    uint64_t part_ms = MIN(gap_ms(rate) / GAP_SHARE, (uint64_t)STEP_MAX_MS);
    uint64_t apart_ms = MAX((uint64_t)STEP_MIN_MS, part_ms);
    if (rate->n_steps > 1 && now_ms - last->first_ms < apart_ms) {
        last->last_ms = now_ms;
        last->count = count;
        return;
    }
    old_drop(rate, now_ms);
    rate->steps[rate->n_steps++] = (struct rate_step){now_ms, now_ms, count};
}

double rate_per_s(const struct rate *rate, uint64_t now_ms)
{
    if (rate->n_steps < 2)
        return 0;
    const struct rate_step *first = &rate->steps[0], *last = &rate->steps[rate->n_steps - 1];
    uint64_t next_ms = last->last_ms + gap_ms(rate), late_ms = now_ms - MIN(now_ms, next_ms);
    uint64_t span_ms = last->last_ms - first->last_ms + late_ms;
    return (double)(last->count - first->count) * 1000.0 / (double)MAX(span_ms, (uint64_t)1);
}
