/* SPDX-License-Identifier: Apache-2.0
 *
 * Filters that buffer: they read their input in blocks, or hold answers back until a block of output is
 * full, as awk, sed, jq and most programs do when their output is a pipe. Such a filter is never drained
 * while its input is open; only the end of its input makes it give the last answers. So its lives are
 * kept short: each gets as many items as take a certain time, then the end of its input, and what it
 * answered until it is gone is committed.
 *
 * That time is long against what a start costs (RESTART_SHARE), so that little speed is lost, and short
 * against what the seat has done so far (LOSS_SHARE), so that a crash costs little of it. What a start
 * and an item cost is learned from lives of different lengths, and is known of the seat from then on.
 */
#include "core/feed_impl.h"

enum {
    LIFE_MIN_MS = 1000,
    LIFE_MAX_MS = 60000, /* where starts cost next to nothing */
    RESTART_SHARE = 40,  /* a life lasts at least so many times as long as what its start costs */
    LOSS_SHARE = 20,     /* and about this part of the time since the seat's first start */
    PROBE_MAX_MS = 1000, /* to start again at once just to learn about it must not cost more */
    GROWTH_MAX = 8,      /* from life to life, in items */
    LIMIT_SHARE = 4      /* of the limits on silence and on starting */
};

/* What a start may cost: known, or less than what went by until its first sign. */
static double restart_ms(const struct feed *f, const struct worker *w)
{
    if (w->restart_is_known)
        return w->restart_ms;
    uint64_t ready_ms = w->answered_in_life > 0 ? w->first_answer_ms : f->now_ms;
    return (double)(ready_ms - w->started_ms);
}

static double limit_lower(double limit_ms, uint64_t config_ms)
{
    return config_ms > 0 ? MIN(limit_ms, (double)config_ms / LIMIT_SHARE) : limit_ms;
}

/* How long a life should last. */
static double life_ms(const struct feed *f, const struct worker *w)
{
    double so_far_ms = (double)(f->now_ms - w->seat_since_ms);
    double ms = MIN(so_far_ms / LOSS_SHARE, (double)LIFE_MAX_MS);
    ms = MAX(ms, RESTART_SHARE * restart_ms(f, w));
    ms = MAX(ms, (double)LIFE_MIN_MS);
    /* Until it answers, a worker at work looks like one that is stuck, or that does not get ready. */
    ms = limit_lower(ms, f->config.silence_limit_ms);
    return limit_lower(ms, f->config.start_limit_ms);
}

bool buffered_is_due(const struct feed *f, const struct worker *w)
{
    return (double)(f->now_ms - w->started_ms) >= life_ms(f, w);
}

uint64_t buffered_window(const struct feed *f, const struct worker *w)
{
    uint64_t ring_share = f->spread / (4ull * MAX(f->n_alive, 1u));
    return MIN(w->quota, MAX(ring_share, (uint64_t)1));
}

uint64_t buffered_left(const struct worker *w)
{
    return w->quota - MIN(w->quota, w->sent_in_life);
}

static uint64_t whole_batches(const struct feed *f, const struct worker *w, uint64_t items)
{
    uint64_t batch = f->config.batch > 0 ? batch_now(f, w) : 1;
    return MAX((items + batch - 1) / batch, (uint64_t)1) * batch;
}

/*
 * It waits for more input with items unanswered, so it buffers. Where its start costs little, it is
 * ended at once: the next life, of one item, tells what a start costs. True: it was ended.
 */
bool buffered_found(struct feed *f, uint32_t worker)
{
    struct worker *w = &f->workers[worker];
    w->is_buffering = true;
    if (w->quota == 0 && restart_ms(f, w) <= PROBE_MAX_MS) {
        w->quota = whole_batches(f, w, 1);
        w->is_probe = true;
        worker_end(f, worker);
        return true;
    }
    if (w->quota == 0 && w->life_items == 0) {
        w->life_items = w->in_flight;
        w->life_ms = restart_ms(f, w);
    }
    if (!buffered_is_due(f, w))
        return false;
    worker_end(f, worker);
    return true;
}

void buffered_end_if_full(struct feed *f, uint32_t worker, uint64_t share)
{
    struct worker *w = &f->workers[worker];
    /* Those that may load are counted until they answer. */
    if (w->sent_in_life == 0 || (f->config.loading_max > 0 && w->state != WORKER_LIVE))
        return;
    bool has_all = w->quota > 0 && buffered_left(w) == 0;
    if (has_all || w->in_flight >= share || buffered_is_due(f, w))
        worker_end(f, worker);
}

/* From two lives of different lengths: what an item costs, and what is left is the start. */
static void restart_learn(struct worker *w, double items, double ms)
{
    double before = (double)w->life_items, ratio = items / before;
    if (ratio < 1.5 && ratio > 1 / 1.5) {
        w->restart_ms *= 0.9; /* shorter and shorter lives, until they can be told apart again */
        return;
    }
    double each_ms = MAX((ms - w->life_ms) / (items - before), 0.0);
    double shorter = MIN(items, before), shorter_ms = MIN(ms, w->life_ms);
    w->restart_ms = MAX(shorter_ms - each_ms * shorter, 0.0);
    w->restart_is_known = true;
    w->life_items = (uint64_t)items;
    w->life_ms = ms;
}

void buffered_learn(struct feed *f, uint32_t worker)
{
    struct worker *w = &f->workers[worker];
    if (!w->is_buffering || w->is_probe || w->answered_in_life == 0)
        return;
    double items = (double)w->answered_in_life;
    uint64_t refill_ms = w->refill_ms == UINT64_MAX ? 0 : w->refill_ms;
    double ms = (double)(f->now_ms - w->started_ms + refill_ms);
    if (w->life_items > 0) {
        restart_learn(w, items, ms);
    } else {
        w->life_items = w->answered_in_life;
        w->life_ms = ms;
    }
    double each_ms = MAX(ms - (w->restart_is_known ? w->restart_ms : 0), 0.001 * items) / items;
    double quota = MIN(life_ms(f, w) / each_ms, GROWTH_MAX * items);
    w->quota = whole_batches(f, w, (uint64_t)quota);
}
