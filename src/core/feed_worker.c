/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers: when one is started, what its answers mean, and how it is ended. Deaths are in feed_death.c.
 */
#include "core/feed_impl.h"

enum {
    SETTLE_MIN_MS = 2,
    SETTLE_MAX_MS = 5000,
    SETTLE_ENDING_MS = 20, /* most filters end within this time; a clean end proves more */
    CONFIRM_MIN_MS = 500,
    SETTLE_SHARE = 40 /* the next drain comes after this many times the cost of the last one */
};

bool feed_worker_is_running(const struct feed_worker *w)
{
    return w->state == WORKER_STARTING || w->state == WORKER_LOADING || w->state == WORKER_LIVE ||
           w->state == WORKER_ENDING;
}

void feed_worker_state_set(struct feed *f, struct feed_worker *w, enum worker_state state)
{
    bool was_running = feed_worker_is_running(w);
    f->seats.n_loading -= w->state == WORKER_STARTING || w->state == WORKER_LOADING;
    f->seats.n_absent -= w->state == WORKER_ABSENT;
    w->state = state;
    if (state == WORKER_ABSENT)
        f->seats.absent_from = MIN(f->seats.absent_from, (uint32_t)(w - f->workers));
    f->seats.n_loading += state == WORKER_STARTING || state == WORKER_LOADING;
    f->seats.n_absent += state == WORKER_ABSENT;
    f->seats.n_alive += feed_worker_is_running(w);
    f->seats.n_alive -= was_running;
    hand_touch(f, w);
}

/* Counts workers that have room and will take items soon, for which no further worker need be started. */
void hand_touch(struct feed *f, struct feed_worker *w)
{
    bool is_hand = (w->state == WORKER_STARTING || w->state == WORKER_LOADING) &&
                   w->items.in_flight == 0 && !w->idle.is_in;
    f->seats.n_hands += is_hand;
    f->seats.n_hands -= w->is_hand;
    w->is_hand = is_hand;
}

static void life_reset(struct feed_worker *w)
{
    w->mode = MODE_UNKNOWN;
    w->memory_is_back = w->input_closed = w->drain.is_on = w->drain.last_was_short = false;
    w->has_ended = w->has_shrunk = w->lingers = false;
    w->time.closed_ms = UINT64_MAX;
    w->group = NONE;
    w->ended_for = CAUSE_NONE;
    w->blame = w->items.oldest = UINT64_MAX;
    w->items.in_flight = w->items.losers = w->items.provisional = 0;
    w->credits = w->credits_peak = w->room = 0;
    w->window = 1;
    w->items.head = w->items.tail = NONE;
    w->items.copy = UINT64_MAX;
    w->answered_in_life = 0;
    w->time.burst_ms = 0;
    w->buffering.n_sent = 0;
    w->buffering.is_probe = w->buffering.has_read = false;
    w->items.fifo_head = w->items.fifo_len = 0;
    w->drain.settle_at_ms = w->time.silence_noted_ms = 0;
    w->time.gap_max_ms = 0;
}

/* ---- filling seats ---- */

static uint64_t work_waiting(struct feed *f)
{
    uint64_t busy = f->counts.in_flight + f->counts.provisional + f->counts.committing;
    uint64_t waiting = unsettled(f) - MIN(unsettled(f), busy);
    bool any = work_is_there(f) || f->pool.delayed_items > 0 || f->suspects.waiting > 0;
    return any ? MAX(waiting, (uint64_t)1) : 0;
}

/* Starts workers on seats whose memory is back and whose pause is over. */
static void cooling_look(struct feed *f)
{
    uint32_t kept = 0;
    f->cooling.look_ms = UINT64_MAX;
    for (uint32_t i = 0; i < f->cooling.len; i++) {
        struct feed_worker *w = &f->workers[f->cooling.at[i]];
        if (w->state != WORKER_COOLING)
            continue;
        if (w->memory_is_back && w->time.not_before_ms <= f->now_ms) {
            feed_worker_state_set(f, w, WORKER_ABSENT);
            continue;
        }
        if (w->memory_is_back)
            f->cooling.look_ms = MIN(f->cooling.look_ms, w->time.not_before_ms);
        f->cooling.at[kept++] = f->cooling.at[i];
    }
    f->cooling.len = kept;
}

void cooling_add(struct feed *f, uint32_t worker)
{
    ASSERT(f->cooling.len < f->config.n_workers);
    f->cooling.at[f->cooling.len++] = worker;
}

static void cooling_end(struct feed *f)
{
    if (f->cooling.look_ms <= f->now_ms)
        cooling_look(f);
    if (f->cooling.look_ms != UINT64_MAX)
        wake_at(f, f->cooling.look_ms);
}

/*
 * Notes how long the seat was empty. A seat may stay empty for lack of work, so the shortest time tells what a start
 * has to wait for.
 */
static void seat_time_note(const struct feed *f, struct feed_worker *w)
{
    uint64_t empty_ms = f->now_ms - w->buffering.gone_ms;
    if (w->buffering.seat_since_ms == UINT64_MAX)
        w->buffering.seat_since_ms = f->now_ms;
    else
        w->buffering.refill_ms = MIN(w->buffering.refill_ms, empty_ms);
}

/*
 * The next seat to be filled. Seats of devices where the command has only failed come last: otherwise a few seats
 * would use up all tries of the few items that are left, and it would show late whether the command works anywhere.
 */
static uint32_t absent_first(struct feed *f)
{
    uint32_t first = NONE;
    for (uint32_t i = f->seats.absent_from; i < f->config.n_workers; i++) {
        if (f->workers[i].state != WORKER_ABSENT)
            continue;
        if (first == NONE)
            f->seats.absent_from = first = i;
        if (!f->devices[f->workers[i].device].is_hopeless)
            return i;
    }
    ASSERT(first != NONE);
    return first;
}

void seats_fill(struct feed *f)
{
    if (f->end.is_stopping || f->end.is_complete)
        return;
    returns_check(f);
    cooling_end(f);
    if (f->seats.n_absent == 0)
        return;
    uint64_t waiting = work_waiting(f), free_hands = f->idle.len + f->seats.n_hands;
    while (f->seats.n_absent > 0 && free_hands < waiting) {
        if (f->config.loading_max > 0 && f->seats.n_loading >= f->config.loading_max)
            return;
        if (f->now_ms < f->seats.start_at_ms) {
            wake_at(f, f->seats.start_at_ms);
            return;
        }
        uint32_t i = absent_first(f);
        struct feed_worker *w = &f->workers[i];
        life_reset(w);
        feed_worker_state_set(f, w, WORKER_STARTING);
        seat_time_note(f, w);
        w->time.started_ms = w->time.last_progress_ms = f->now_ms;
        f->seats.start_at_ms = f->now_ms + f->config.stagger_ms;
        free_hands++;
        emit(f, ACT_SPAWN, i, 0, batch_now(f, w), 0);
        if (f->config.start_limit_ms > 0)
            look_at(f, i, f->now_ms + f->config.start_limit_ms);
    }
}

void feed_worker_started(struct feed *f, uint32_t worker)
{
    struct feed_worker *w = &f->workers[worker];
    if (w->state == WORKER_STARTING)
        feed_worker_state_set(f, w, WORKER_LOADING);
}

void feed_worker_is_live(struct feed *f, uint32_t worker)
{
    struct feed_worker *w = &f->workers[worker];
    if (w->state == WORKER_STARTING || w->state == WORKER_LOADING)
        feed_worker_state_set(f, w, WORKER_LIVE);
}

/* ---- what a worker says ---- */

/* Takes back everything that it has in flight. */
static void unanswered_return(struct feed *f, uint32_t worker)
{
    struct feed_worker *w = &f->workers[worker];
    owned_return(f, worker, false);
    f->counts.in_flight -= w->items.in_flight;
    w->items.in_flight = w->items.losers = 0;
    w->items.fifo_len = 0;
    hand_touch(f, w);
}

void feed_worker_becomes_channel(struct feed *f, uint32_t worker)
{
    struct feed_worker *w = &f->workers[worker];
    if (w->mode == MODE_CHANNEL)
        return;
    if (w->items_done > 0 && w->mode == MODE_FILTER && w->answered_in_life > w->items.provisional) {
        feed_worker_out_of_step(
            f, worker); /* answers were committed of a filter that turns out not to be one */
        return;
    }
    /* Its output so far was no answers, and the items in its stdin count as not taken. */
    provisional_revoke(f, worker);
    unanswered_return(f, worker);
    suspects_release(f, worker);
    w->mode = MODE_CHANNEL;
    w->answered_in_life = 0;
    w->drain.is_on = false;
}

static uint64_t settle_ms(const struct feed_worker *w)
{
    double ms = 2 * w->time.gap_max_ms;
    return w->round_trip_ms + (uint64_t)MIN(MAX(ms, (double)SETTLE_MIN_MS), (double)SETTLE_MAX_MS);
}

/*
 * Equal numbers of lines and items prove nothing, while a stray line may be taken for an answer that is still to
 * come. So a filter is drained, and its answers count once it is known to wait for more (EV_RESTS), or has been
 * quiet for twice its longest gap. The first takes a moment, the second the time of two items: how often a
 * filter is drained depends on the cost of the last drain.
 */
void feed_worker_settle(struct feed *f, uint32_t worker)
{
    struct feed_worker *w = &f->workers[worker];
    w->drain.is_on = true;
    if (w->items.in_flight > 0 || w->drain.settle_at_ms > 0)
        return;
    uint64_t least_ms = w->state == WORKER_ENDING ? SETTLE_ENDING_MS : 0;
    w->drain.since_ms = f->now_ms;
    w->drain.settle_at_ms = f->now_ms + MAX(settle_ms(w), least_ms);
    look_at(f, worker, w->drain.settle_at_ms);
}

/* The filter works: looks again later, after pauses that double, since some filters work on without further output. */
void feed_worker_works(struct feed *f, uint32_t worker)
{
    struct feed_worker *w = &f->workers[worker];
    if (w->drain.settle_at_ms == 0 || w->state == WORKER_ENDING)
        return;
    ASSERT(w->items.in_flight == 0); /* no items are sent while it settles */
    uint64_t since_ms = w->drain.since_ms;
    uint64_t patience_ms = MAX((uint64_t)SETTLE_MAX_MS, (uint64_t)(4 * w->time.gap_max_ms));
    uint64_t at_ms = f->now_ms + MAX(settle_ms(w), 2 * (f->now_ms - since_ms) + SETTLE_MIN_MS);
    w->drain.settle_at_ms = MAX(w->drain.settle_at_ms, MIN(at_ms, since_ms + patience_ms));
    look_at(f, worker, w->drain.settle_at_ms);
}

void feed_worker_settled(struct feed *f, uint32_t worker)
{
    struct feed_worker *w = &f->workers[worker];
    /* The cost includes the way of the last answer and that of the next items. */
    w->drain.cost_ms = f->now_ms - w->drain.since_ms + w->round_trip_ms;
    w->drain.settle_at_ms = 0;
    w->drain.is_on = false;
    provisional_confirm(f, worker);
    feed_worker_dispatch(f, worker);
}

static bool drain_is_due(const struct feed *f, const struct feed_worker *w)
{
    uint64_t ring_share = f->window.spread / (4ull * MAX(f->seats.n_alive, 1u));
    /*
     * On another host, the worker idles during the round trip of each drain, and until its answers are known to have
     * ended: there, drains are to cost one part in a hundred.
     */
    uint64_t cost_ms = w->drain.cost_ms + 4 * w->round_trip_ms;
    uint64_t interval_ms = MAX((uint64_t)CONFIRM_MIN_MS, SETTLE_SHARE * cost_ms);
    bool is_time = w->buffering.is_on ? buffered_is_due(f, w)
                                      : f->now_ms - w->time.provisional_since_ms > interval_ms;
    return w->items.provisional > ring_share || is_time;
}

/* Drains a filter, so that its answers can be confirmed. */
static void feed_worker_drain(struct feed *f, uint32_t worker)
{
    if (f->workers[worker].buffering.is_on)
        feed_worker_end(f, worker);
    else
        feed_worker_settle(f, worker);
}

static void device_works(struct feed *f, struct feed_worker *w, uint64_t count)
{
    struct feed_device *device = &f->devices[w->device];
    device->results += count;
    device->start_failures = 0;
    device->is_hopeless = false;
    f->counts.results += count;
    w->deaths_in_row = 0;
    w->time.last_progress_ms = f->now_ms;
    if (w->answered_in_life == 0)
        w->time.first_answer_ms = f->now_ms;
    w->answered_in_life += count;
    w->items_done += count;
}

struct sent_range fifo_take(struct feed_worker *w, uint64_t max)
{
    ASSERT(w->items.fifo_len > 0);
    struct sent_range *head = &w->items.fifo[w->items.fifo_head];
    struct sent_range taken = {head->first, (uint32_t)MIN(max, (uint64_t)head->count)};
    head->first += taken.count;
    head->count -= taken.count;
    if (head->count == 0) {
        w->items.fifo_head = (w->items.fifo_head + 1) % FIFO_CAP;
        w->items.fifo_len--;
    }
    return taken;
}

/* Returns 0 if the item was answered elsewhere meanwhile. */
static uint32_t answer_mark(struct feed *f, uint32_t worker, uint64_t item)
{
    struct slot slot = slot_peek(f, item);
    int mine = is_in_window(f, item) ? owner_index(&slot, worker) : -1;
    if (mine < 0)
        return 0;
    slot_of(f, item)->flags |= mine == 0 ? ANSWERED_FIRST : ANSWERED_SECOND;
    return 1;
}

static void answers_mark(struct feed *f, uint32_t worker, uint64_t count)
{
    struct feed_worker *w = &f->workers[worker];
    while (count > 0) {
        struct sent_range left = fifo_take(w, count);
        count -= left.count;
        for (uint32_t step, marked; left.count > 0; left.first += step, left.count -= step) {
            marked = step = block_answer(f, worker, left);
            if (step == 0) {
                marked = answer_mark(f, worker, left.first);
                step = 1;
            }
            w->items.provisional += marked;
            f->counts.provisional += marked;
        }
    }
}

void feed_worker_answered(struct feed *f, uint32_t worker, uint64_t count)
{
    struct feed_worker *w = &f->workers[worker];
    if (w->mode == MODE_UNKNOWN)
        w->mode = MODE_FILTER;
    if (w->mode != MODE_FILTER || count == 0)
        return;
    if (count > w->items.in_flight) {
        feed_worker_out_of_step(f, worker);
        return;
    }
    if (w->state == WORKER_STARTING || w->state == WORKER_LOADING)
        feed_worker_is_live(f, worker);
    if (count > 1)
        w->time.burst_ms = MAX(w->time.burst_ms, f->now_ms - w->time.last_progress_ms);
    window_learn(f, worker, count);
    if (w->items.provisional == 0)
        w->time.provisional_since_ms = f->now_ms;
    answers_mark(f, worker, count);
    w->items.in_flight -= (uint32_t)count;
    f->counts.in_flight -= count;
    device_works(f, w, count);
    if (w->state == WORKER_ENDING)
        feed_worker_settle(f, worker);
    else if (w->drain.is_on || drain_is_due(f, w))
        feed_worker_drain(f, worker);
    feed_worker_dispatch(f, worker);
}

/*
 * With --fixed-batches, items that were computed together are committed together, or computed together again.
 * The batch is complete when none of its items is in flight.
 */
void batch_settle(struct feed *f, uint32_t worker)
{
    struct feed_worker *w = &f->workers[worker];
    if (f->config.fixed_batches && w->mode == MODE_CHANNEL && w->items.in_flight == 0)
        provisional_confirm(f, worker);
}

/* Takes the result, at once or with the rest of its batch. False if another copy was first. */
static bool result_take(struct feed *f, uint32_t worker, uint64_t item)
{
    struct feed_worker *w = &f->workers[worker];
    if (!f->config.fixed_batches || w->mode != MODE_CHANNEL) {
        if (!item_win(f, worker, item))
            return false;
        emit(f, ACT_COMMIT, worker, item, 1, 0);
        return true;
    }
    if (!item_is_owned(f, worker, item))
        return false;
    struct slot *slot = slot_of(f, item);
    ASSERT(slot->owner[0] == worker + 1); /* it has no second copy */
    if (slot->flags & ANSWERED_FIRST)
        return false;
    slot->flags |= ANSWERED_FIRST;
    w->items.provisional++;
    f->counts.provisional++;
    return true;
}

void feed_worker_result(struct feed *f, uint32_t worker, uint64_t item)
{
    struct feed_worker *w = &f->workers[worker];
    feed_worker_is_live(f, worker);
    if (!result_take(f, worker, item)) {
        bool was_loser = w->items.losers > 0;
        w->items.losers -= was_loser;
        w->time.last_progress_ms = f->now_ms;
        emit(f, ACT_DROP, worker, item, 1, 0);
        if (!was_loser)
            emit(f, ACT_NOTE, worker, item, 0, NOTE_FOREIGN);
    } else {
        window_learn(f, worker, 1);
        w->items.in_flight--;
        f->counts.in_flight--;
        device_works(f, w, 1);
        batch_settle(f, worker);
    }
    feed_worker_dispatch(f, worker);
}

/* A filter's failed item keeps its place in its order until it is passed over (feed_worker_passed). */
void feed_worker_failure(struct feed *f, uint32_t worker, uint64_t item, bool retry)
{
    struct feed_worker *w = &f->workers[worker];
    bool is_named = !answers_in_order(w);
    feed_worker_is_live(f, worker);
    if (w->mode == MODE_UNKNOWN) /* a channel worker would have asked for the item */
        w->mode = MODE_FILTER;
    /* An item with a provisional result cannot fail any more. */
    bool mine = item_is_owned(f, worker, item) && !is_provisional(f, worker, item);
    if (!mine && is_named) {
        bool was_loser = w->items.losers > 0;
        w->items.losers -= was_loser;
        if (!was_loser)
            emit(f, ACT_NOTE, worker, item, 0, NOTE_FOREIGN);
    } else if (mine) {
        w->items.in_flight -= is_named;
        f->counts.in_flight -= is_named;
        w->time.last_progress_ms = f->now_ms;
        w->answered_in_life++;
        w->deaths_in_row = 0;
        if (item_disown(f, worker, item))
            item_charge(f, worker, item, CAUSE_FAILED, retry);
        else
            item_copy_failed(f, item, retry);
        batch_settle(f, worker);
    }
    if (is_named)
        feed_worker_dispatch(f, worker);
}

/* ---- ending ---- */

void feed_worker_end(struct feed *f, uint32_t worker)
{
    struct feed_worker *w = &f->workers[worker];
    if (!feed_worker_is_running(w) || w->state == WORKER_ENDING)
        return;
    w->input_closed = true;
    w->time.ended_ms = f->now_ms;
    feed_worker_state_set(f, w, WORKER_ENDING);
    emit(f, ACT_END, worker, 0, 0, 0);
    if (f->config.end_limit_ms > 0)
        look_at(f, worker, f->now_ms + f->config.end_limit_ms);
    if (w->mode == MODE_FILTER && w->items.provisional > 0) /* the filter's end may take long */
        feed_worker_settle(f, worker);
}

void feed_worker_terminate(struct feed *f, uint32_t worker, enum feed_cause cause)
{
    struct feed_worker *w = &f->workers[worker];
    if (!feed_worker_is_running(w) || w->has_ended || w->ended_for != CAUSE_NONE)
        return;
    w->ended_for = cause;
    w->input_closed = true;
    feed_worker_state_set(f, w, WORKER_ENDING);
    emit(f, ACT_TERMINATE, worker, 0, 0, cause);
}

void feed_worker_out_of_step(struct feed *f, uint32_t worker)
{
    struct feed_worker *w = &f->workers[worker];
    if (w->ended_for != CAUSE_NONE)
        return;
    provisional_revoke(f, worker);
    feed_worker_terminate(f, worker, CAUSE_PROTOCOL);
    /* The answers of a worker that names its items cannot be out of step: its end counts as a crash. */
    if (w->mode != MODE_CHANNEL && ++f->counts.mismatches >= MISMATCHES_MAX)
        halt(f, HALT_MISMATCH);
}

void feed_worker_blame(struct feed *f, uint32_t worker, uint64_t item, enum feed_cause cause)
{
    struct feed_worker *w = &f->workers[worker];
    if (w->ended_for != CAUSE_NONE)
        return;
    w->blame = item_is_owned(f, worker, item) ? item : UINT64_MAX;
    provisional_revoke(f, worker);
    feed_worker_terminate(f, worker, cause);
}

void everybody_end(struct feed *f)
{
    for (uint32_t i = 0; i < f->config.n_workers; i++) {
        struct feed_worker *w = &f->workers[i];
        bool only_losers = f->end.is_complete && (w->items.losers > 0 || w->items.in_flight > 0);
        if (f->end.is_at_once)
            feed_worker_terminate(f, i, CAUSE_STOP);
        else if (only_losers)
            feed_worker_terminate(f, i, CAUSE_LOSER);
        else
            feed_worker_end(f, i);
    }
}
