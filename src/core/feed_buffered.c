/* SPDX-License-Identifier: Apache-2.0
 *
 * Filters that buffer: they read their input in blocks, or hold answers back until a block of output is full, as awk,
 * sed, jq and most programs do when their output is a pipe. Such a filter gives its last answers only at the end of
 * its input. So each of its processes is kept short: it gets items for a certain time, and then the end of its input;
 * what it has answered by its exit is committed.
 *
 * That time (a life) is long compared with the cost of a start (RESTART_SHARE), so that little speed is lost,
 * and short compared with the work of the seat so far (LOSS_SHARE), so that a crash loses little. The cost of a
 * start is measured in the first life, the time of an item in each.
 */
#include "core/feed_impl.h"

enum {
    LIFE_MIN_MS = 1000,
    LIFE_MAX_MS = 60000, /* even if starts cost almost nothing */
    RESTART_SHARE = 40,  /* a life lasts at least this many times the cost of its start */
    LOSS_SHARE = 20,     /* and about this part of the time since the seat's first start */
    /* a filter that takes longer to start is not restarted only to see what it holds back */
    PROBE_MAX_MS = 1000,
    LOAD_TEST = 8,   /* the second life has this many times the items of the first */
    GROWTH_MAX = 8,  /* of the number of items, from life to life */
    LIMIT_SHARE = 4, /* a life lasts at most this part of the limits on silence and start */
    WORK_MIN_MS = 1  /* the resolution of the clock */
};

/*
 * The cost of a start: the time until the filter begins to read (EV_READS, or its first output if that was not seen),
 * the time for which its seat was empty before, and the time that it takes to end. It is at most the shortest life of
 * a process on the seat.
 */
static double restart_ms(const struct feed *f, const struct feed_worker *w)
{
    uint64_t ready_ms = w->answered_in_life > 0 ? w->time.first_answer_ms : f->now_ms;
    uint64_t load_ms =
        w->buffering.load_ms > 0 ? w->buffering.load_ms : ready_ms - w->time.started_ms;
    uint64_t refill_ms = w->buffering.refill_ms == UINT64_MAX ? 0 : w->buffering.refill_ms;
    return (double)MIN(load_ms + w->buffering.end_ms + refill_ms, w->buffering.shortest_ms);
}

static double limit_lower(double limit_ms, uint64_t config_ms)
{
    return config_ms > 0 ? MIN(limit_ms, (double)config_ms / LIMIT_SHARE) : limit_ms;
}

/* Limits a life: until a worker answers, a busy one cannot be told from one that is stuck or not ready. */
static double life_limited(const struct feed *f, double ms)
{
    return limit_lower(limit_lower(ms, f->config.silence_limit_ms), f->config.start_limit_ms);
}

void buffered_reads(struct feed *f, uint32_t worker)
{
    struct feed_worker *w = &f->workers[worker];
    w->buffering.has_read = true;
    if (w->buffering.load_ms == 0)
        w->buffering.load_ms = MAX(f->now_ms - w->time.started_ms, (uint64_t)1);
}

/* How long a life should last. */
static double life_ms(const struct feed *f, const struct feed_worker *w)
{
    double so_far_ms = (double)(f->now_ms - w->buffering.seat_since_ms);
    double ms = MIN(so_far_ms / LOSS_SHARE, (double)LIFE_MAX_MS);
    ms = MAX(ms, RESTART_SHARE * restart_ms(f, w));
    ms = MAX(ms, (double)LIFE_MIN_MS);
    return life_limited(f, ms);
}

bool buffered_is_due(const struct feed *f, const struct feed_worker *w)
{
    return (double)(f->now_ms - w->time.started_ms) >= life_ms(f, w);
}

uint64_t buffered_window(const struct feed *f, const struct feed_worker *w)
{
    uint64_t ring_share = f->window.spread / (4ull * MAX(f->seats.n_alive, 1u));
    return MIN(w->buffering.quota, MAX(ring_share, (uint64_t)1));
}

uint64_t buffered_left(const struct feed_worker *w)
{
    return w->buffering.quota - MIN(w->buffering.quota, w->buffering.n_sent);
}

static uint64_t whole_batches(const struct feed *f, const struct feed_worker *w, uint64_t items)
{
    uint64_t batch = f->config.batch > 0 ? batch_now(f, w) : 1;
    return MAX((items + batch - 1) / batch, (uint64_t)1) * batch;
}

/*
 * The filter waits for more input with items unanswered, so it buffers. If its start costs little, it is
 * ended at once, and the next life, of one item, measures the time of an item. True: it was ended.
 */
bool buffered_found(struct feed *f, uint32_t worker)
{
    struct feed_worker *w = &f->workers[worker];
    w->buffering.is_on = true;
    if (w->buffering.quota == 0 && restart_ms(f, w) <= PROBE_MAX_MS) {
        w->buffering.quota = whole_batches(f, w, 1);
        w->buffering.is_probe = true;
        feed_worker_end(f, worker);
        return true;
    }
    if (!buffered_is_due(f, w))
        return false;
    feed_worker_end(f, worker);
    return true;
}

void buffered_end_if_full(struct feed *f, uint32_t worker, uint64_t share)
{
    struct feed_worker *w = &f->workers[worker];
    /* Workers that may be loading count as loading until they answer. */
    if (w->buffering.n_sent == 0 || (f->config.loading_max > 0 && w->state != WORKER_LIVE))
        return;
    bool has_all = w->buffering.quota > 0 && buffered_left(w) == 0;
    if (has_all || w->items.in_flight >= share || buffered_is_due(f, w))
        feed_worker_end(f, worker);
}

/*
 * True if a life of many more items took about as long. Then the items do not take the time: the filter reads before
 * it loads, or another of its processes loads.
 */
static bool load_is_hidden(const struct feed_worker *w, uint64_t items, uint64_t ms)
{
    return w->buffering.last_items > 0 && items >= LOAD_TEST * w->buffering.last_items &&
           2 * ms < 3 * w->buffering.last_ms;
}

void buffered_learn(struct feed *f, uint32_t worker)
{
    struct feed_worker *w = &f->workers[worker];
    if (!w->buffering.is_on || w->buffering.is_probe || w->answered_in_life == 0)
        return;
    uint64_t refill_ms = w->buffering.refill_ms == UINT64_MAX ? 0 : w->buffering.refill_ms;
    uint64_t ms = f->now_ms - w->time.started_ms + refill_ms;
    w->buffering.shortest_ms = MIN(w->buffering.shortest_ms, ms);
    w->buffering.end_ms = f->now_ms - w->time.last_progress_ms;
    if (load_is_hidden(w, w->answered_in_life, ms))
        w->buffering.load_ms = ms;
    double items = (double)w->answered_in_life, work_ms = (double)ms - restart_ms(f, w);
    double each_ms = MAX(work_ms, (double)WORK_MIN_MS) / items;
    double quota = MIN(life_ms(f, w) / each_ms, GROWTH_MAX * items);
    bool may_test = w->buffering.last_items == 0 &&
                    life_limited(f, LOAD_TEST * (double)ms) >= LOAD_TEST * (double)ms;
    if (may_test)
        quota = LOAD_TEST * items;
    w->buffering.quota = whole_batches(f, w, (uint64_t)quota);
    w->buffering.last_items = w->answered_in_life;
    w->buffering.last_ms = ms;
}
