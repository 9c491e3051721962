/* SPDX-License-Identifier: Apache-2.0
 *
 * Dispatch: which worker gets which items, and how many. A filter has a window of items in flight, by time or of
 * whole batches; a channel worker has credits. Near the end no worker gets more than its share of the rest, and a
 * worker without items may take a second copy of another's item (feed_reissue.c).
 */
#include "core/feed_impl.h"

enum {
    WINDOW_MAX = 1 << 18,
    CREDITS_WAIT_MS = 100
};

uint32_t batch_now(const struct feed *f, const struct feed_worker *w)
{
    uint32_t limit = f->config.fixed_batches ? 0 : f->devices[w->device].batch;
    if (f->config.batch == 0 || limit == 0)
        return MAX(f->config.batch, limit);
    return MIN(f->config.batch, limit);
}

/* The most that a worker may take: an even share of the rest, so that the tail is spread over all workers. */
static uint64_t fair_share(const struct feed *f)
{
    if (!f->window.input_is_final)
        return UINT64_MAX;
    uint32_t alive = MAX(f->seats.n_alive, 1u);
    return (unsettled(f) + alive - 1) / alive;
}

/* Rounds down to whole blocks, which stay folded if sent in one piece. A worker that has enough can wait. */
static uint64_t whole_blocks(const struct feed *f, const struct feed_worker *w, uint64_t count)
{
    uint64_t over = (f->window.next + count) & (f->window.block_size - 1);
    if (f->config.order || over == 0)
        return count;
    if (count > over)
        return count - over;
    return w->items.in_flight >= 4 * f->window.block_size ? 0 : count;
}

static uint64_t filter_capacity(const struct feed *f, const struct feed_worker *w)
{
    if (w->drain.is_on || w->room == 0 || w->items.fifo_len == FIFO_CAP)
        return 0;
    uint64_t window = w->buffering.quota > 0 ? buffered_window(f, w) : w->window;
    uint64_t left = w->buffering.quota > 0 ? buffered_left(w) : UINT64_MAX;
    uint32_t batch = f->config.batch > 0 ? batch_now(f, w) : 0;
    if (batch > 0)
        return left > 0 && w->items.in_flight + batch <= MAX(window, (uint64_t)batch) ? batch : 0;
    uint64_t limit = MIN(window, MAX(fair_share(f), (uint64_t)1));
    if (f->devices[w->device].batch > 0)
        limit = MIN(limit, (uint64_t)f->devices[w->device].batch);
    if (w->items.in_flight >= limit)
        return 0;
    uint64_t count = MIN(MIN(limit - w->items.in_flight, w->room), left);
    return count == left ? count : whole_blocks(f, w, count);
}

static uint64_t channel_capacity(const struct feed *f, const struct feed_worker *w)
{
    uint64_t limit = MAX(fair_share(f), (uint64_t)1);
    uint32_t batch = batch_now(f, w);
    if (f->devices[w->device].batch > 0 && batch > 0)
        limit = MIN(limit, (uint64_t)batch);
    if (f->config.fixed_batches)
        return w->items.in_flight == 0 ? MIN(w->credits, (uint64_t)f->config.batch)
                                       : 0; /* one batch at a time */
    return w->items.in_flight < limit ? MIN(limit - w->items.in_flight, w->credits) : 0;
}

uint64_t capacity(const struct feed *f, const struct feed_worker *w)
{
    return w->mode == MODE_CHANNEL ? channel_capacity(f, w) : filter_capacity(f, w);
}

/*
 * Measures the time of an item by the spacing of the worker's answers, and sets its window: enough items in
 * flight to stay busy for WINDOW_TARGET_MS, and while an answer and the next items are on their way. The window at most doubles, so that one fast answer does not take a
 * thousand items from the other workers.
 */
void window_learn(struct feed *f, uint32_t worker, uint64_t count)
{
    struct feed_worker *w = &f->workers[worker];
    uint64_t since_ms =
        MAX(w->time.last_progress_ms, w->items.in_flight == count ? w->time.last_send_ms : 0);
    uint64_t took_ms = f->now_ms - MIN(f->now_ms, since_ms);
    double each_ms = (double)(took_ms - MIN(took_ms, w->time.way_ms)) / (double)count;
    w->time.way_ms = 0;
    if (w->answered_in_life > 0 || w->mode == MODE_CHANNEL) {
        double weight = MIN(0.2 * (double)count, 0.8);
        w->time.mean_ms =
            w->time.mean_ms > 0 ? w->time.mean_ms + weight * (each_ms - w->time.mean_ms) : each_ms;
        w->time.gap_max_ms = MAX(w->time.gap_max_ms * 0.98, each_ms);
    }
    uint32_t batch = f->config.batch > 0 ? batch_now(f, w) : 0;
    if (batch > 0) {
        w->window = MAX(w->window, 2ull * batch);
        return;
    }
    uint64_t target = WINDOW_MAX;
    double busy_ms = (double)(WINDOW_TARGET_MS + 2 * w->round_trip_ms);
    if (w->time.mean_ms > busy_ms / WINDOW_MAX)
        target = (uint64_t)(busy_ms / w->time.mean_ms);
    w->window = MAX(MIN(MIN(target, w->window * 2), (uint64_t)WINDOW_MAX), (uint64_t)2);
}

void idle_push(struct feed *f, uint32_t worker)
{
    struct feed_worker *w = &f->workers[worker];
    if (w->idle.is_in)
        return;
    w->idle.is_in = true;
    w->idle.next = NONE;
    w->idle.prev = f->idle.tail;
    if (f->idle.tail == NONE)
        f->idle.head = worker;
    else
        f->workers[f->idle.tail].idle.next = worker;
    f->idle.tail = worker;
    f->idle.len++;
    hand_touch(f, w);
}

void idle_remove(struct feed *f, uint32_t worker)
{
    struct feed_worker *w = &f->workers[worker];
    if (w->idle.prev == NONE)
        f->idle.head = w->idle.next;
    else
        f->workers[w->idle.prev].idle.next = w->idle.next;
    if (w->idle.next == NONE)
        f->idle.tail = w->idle.prev;
    else
        f->workers[w->idle.next].idle.prev = w->idle.prev;
    w->idle.is_in = false;
    f->idle.len--;
    hand_touch(f, w);
}

bool work_is_there(struct feed *f)
{
    return f->pool.ready_items > 0 || f->suspects.ripe > 0 || fresh_is_there(f);
}

static struct sent_range next_work(struct feed *f, const struct feed_worker *w, uint64_t max)
{
    struct sent_range range = {0, 0};
    /* A device without any result is not tried with the item on which its last worker died. */
    if (f->devices[w->device].results == 0)
        range = fresh_take(f, max);
    if (range.count == 0)
        range = pool_take(f, max, w->device);
    if (range.count == 0)
        range = fresh_take(f, max);
    return range;
}

void send_to(struct feed *f, uint32_t worker, struct sent_range range)
{
    struct feed_worker *w = &f->workers[worker];
    if (w->items.in_flight == 0) {
        w->time.last_progress_ms = MAX(w->time.last_progress_ms, f->now_ms);
        w->time.way_ms = w->round_trip_ms;
    }
    items_sent(f, worker, range);
    limits_arm(f, worker);
    w->time.last_send_ms = f->now_ms;
    w->buffering.n_sent += range.count;
    w->room -= MIN(w->room, (uint64_t)range.count);
    w->credits -= MIN(w->credits, (uint64_t)range.count);
    emit(f, ACT_SEND, worker, range.first, range.count, slot_peek(f, range.first).failures + 1u);
}

/* Items beyond the window are left too; the window moves on when answers are confirmed. */
static bool all_is_dealt(const struct feed *f)
{
    return f->window.input_is_final && (f->config.order || f->window.next >= f->window.known);
}

static bool nothing_comes(struct feed *f)
{
    return all_is_dealt(f) && !work_is_there(f) && f->pool.delayed_items == 0 &&
           f->suspects.waiting == 0;
}

/* There is nothing to send: decides whether a filter is drained, ended, or waits. */
static void starved(struct feed *f, uint32_t worker)
{
    struct feed_worker *w = &f->workers[worker];
    if (w->group !=
        NONE) { /* all its suspects are sent: it gets no other item before they are settled */
        if (w->mode == MODE_FILTER && w->items.in_flight == 0)
            feed_worker_settle(f, worker);
        return;
    }
    if (nothing_comes(f) && w->mode == MODE_FILTER) {
        bool all_answered = f->counts.in_flight == 0;
        if (w->drain.last_was_short || (w->items.in_flight == 0 && all_answered)) {
            feed_worker_end(f, worker);
            return;
        }
    }
    if (w->mode == MODE_FILTER && w->items.in_flight == 0 && w->items.provisional > 0) {
        feed_worker_settle(f, worker); /* this dispatches again when it is done */
        return;
    }
    if (reissue(f, worker))
        return;
    idle_push(f, worker);
}

/* Suspects run alone. False: this worker gets no other items now. */
static bool suspects_allow(struct feed *f, uint32_t worker)
{
    struct feed_worker *w = &f->workers[worker];
    bool is_empty = w->items.in_flight == 0 && w->items.provisional == 0;
    if (w->group != NONE && f->suspects.groups[w->group].head == NONE && is_empty)
        suspects_release(f, worker);
    if (w->group != NONE)
        return true;
    if (!suspects_are_waiting(f, worker) || (is_empty && capacity(f, w) == 0))
        return true;
    if (is_empty) {
        if (f->suspects.quarantine == worker)
            f->suspects.quarantine = NONE;
        suspects_assign(f, worker);
        return true;
    }
    if (f->suspects.quarantine == NONE)
        f->suspects.quarantine = worker;
    if (f->suspects.quarantine == worker && w->mode == MODE_FILTER && w->items.in_flight == 0)
        feed_worker_settle(f, worker);
    return f->suspects.quarantine != worker;
}

static bool batch_must_wait(struct feed *f, const struct feed_worker *w, uint64_t want)
{
    if (f->config.batch == 0 || w->group != NONE || f->window.input_is_final ||
        w->mode == MODE_CHANNEL)
        return false;
    return f->pool.ready_items + (f->window.known - MIN(f->window.known, f->window.next)) < want;
}

/*
 * With --fixed-batches a batch is sent in one piece, but credits may come one by one. So a worker that has asked
 * for a whole batch before, or for a part of one, gets time to ask for as much again.
 */
static bool credits_must_wait(struct feed *f, const struct feed_worker *w)
{
    uint64_t until_ms = MAX(w->time.last_progress_ms, w->time.last_send_ms) + CREDITS_WAIT_MS;
    if (!f->config.fixed_batches || w->mode != MODE_CHANNEL ||
        w->credits >= MIN(w->credits_peak, f->config.batch) || f->now_ms >= until_ms)
        return false;
    wake_at(f, until_ms);
    return true;
}

/* Sends one range of items to the worker. Returns how many; 0: there are none. */
static uint32_t send_one(struct feed *f, uint32_t worker, uint64_t max)
{
    struct feed_worker *w = &f->workers[worker];
    struct sent_range range =
        w->group != NONE ? suspects_take(f, worker, max) : next_work(f, w, max);
    if (range.count > 0)
        send_to(f, worker, range);
    return range.count;
}

static void work_send(struct feed *f, uint32_t worker)
{
    struct feed_worker *w = &f->workers[worker];
    while (!f->end.is_stopping && suspects_allow(f, worker)) {
        uint64_t want = capacity(f, w), left = want;
        if (want == 0)
            return;
        if (batch_must_wait(f, w, want) || credits_must_wait(f, w)) {
            idle_push(f, worker);
            return;
        }
        while (left > 0 && w->items.fifo_len < FIFO_CAP) {
            uint32_t sent = send_one(f, worker, left);
            if (sent == 0)
                break;
            left -= sent;
            if (f->config.fixed_batches && w->mode == MODE_CHANNEL)
                return; /* a batch is not extended */
        }
        w->drain.last_was_short = f->config.batch > 0 && left > 0 && w->items.in_flight > 0;
        if (left == want || w->drain.last_was_short) {
            starved(f, worker);
            return;
        }
    }
}

void feed_worker_dispatch(struct feed *f, uint32_t worker)
{
    const struct feed_worker *w = &f->workers[worker];
    if (w->state != WORKER_LOADING && w->state != WORKER_LIVE)
        return;
    work_send(f, worker);
    if (w->buffering.is_on)
        buffered_end_if_full(f, worker, nothing_comes(f) ? 1 : MAX(fair_share(f), (uint64_t)1));
}

void idle_feed(struct feed *f)
{
    for (uint32_t tries = f->idle.len; tries > 0 && work_is_there(f); tries--)
        idle_look(f, f->idle.head);
}

void idle_look(struct feed *f, uint32_t worker)
{
    idle_remove(f, worker);
    feed_worker_dispatch(f, worker);
}
