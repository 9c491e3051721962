/* SPDX-License-Identifier: Apache-2.0
 *
 * The lives of workers: when a seat is filled, what its death means for its items and its device,
 * limits, and the end.
 */
#include "core/feed_impl.h"

enum {
    SETTLE_MIN_MS = 2,
    SETTLE_MAX_MS = 5000,
    CONFIRM_MIN_MS = 500,
    SILENCE_MIN_MS = 60000,
    SILENCE_LOOK_MS = 5000
};

static bool is_running(const struct worker *w)
{
    return w->state == WORKER_STARTING || w->state == WORKER_LOADING || w->state == WORKER_LIVE ||
           w->state == WORKER_ENDING;
}

static void state_set(struct feed *f, struct worker *w, enum worker_state state)
{
    bool was_running = is_running(w);
    f->n_loading -= w->state == WORKER_STARTING || w->state == WORKER_LOADING;
    f->n_absent -= w->state == WORKER_ABSENT;
    w->state = state;
    f->n_loading += state == WORKER_STARTING || state == WORKER_LOADING;
    f->n_absent += state == WORKER_ABSENT;
    f->n_alive += is_running(w);
    f->n_alive -= was_running;
}

static void life_reset(struct worker *w)
{
    w->mode = MODE_UNKNOWN;
    w->memory_is_back = w->input_closed = w->is_draining = w->last_was_short = false;
    w->group = NONE;
    w->ended_for = CAUSE_NONE;
    w->blame = w->oldest = UINT64_MAX;
    w->in_flight = w->losers = w->provisional = 0;
    w->credits = w->credits_peak = w->room = 0;
    w->window = 1;
    w->low = w->high = 0;
    w->answered_in_life = 0;
    w->fifo_head = w->fifo_len = 0;
    w->settle_at_ms = w->silence_noted_ms = 0;
    w->gap_max_ms = 0;
}

/* ---- filling seats ---- */

static uint64_t work_waiting(struct feed *f)
{
    uint64_t busy = f->n_in_flight + f->n_provisional + f->n_committing;
    uint64_t waiting = unsettled(f) - MIN(unsettled(f), busy);
    bool any = work_is_there(f) || f->delayed_items > 0;
    return any ? MAX(waiting, (uint64_t)1) : 0;
}

/* Workers that have room and will take items soon; there is no need to start one more for those. */
static uint32_t hands_free(const struct feed *f)
{
    uint32_t count = f->idle_len;
    for (uint32_t w = 0; w < f->config.n_workers; w++) {
        const struct worker *worker = &f->workers[w];
        count += (worker->state == WORKER_STARTING || worker->state == WORKER_LOADING) &&
                 worker->in_flight == 0 && !worker->is_idle;
    }
    return count;
}

static void cooling_end(struct feed *f)
{
    for (uint32_t i = 0; i < f->config.n_workers; i++) {
        struct worker *w = &f->workers[i];
        if (w->state != WORKER_COOLING || !w->memory_is_back)
            continue;
        if (w->not_before_ms <= f->now_ms)
            state_set(f, w, WORKER_ABSENT);
        else
            wake_at(f, w->not_before_ms);
    }
}

void seats_fill(struct feed *f)
{
    if (f->is_stopping || f->is_complete)
        return;
    cooling_end(f);
    if (f->n_absent == 0)
        return;
    uint64_t waiting = work_waiting(f), free_hands = waiting > 0 ? hands_free(f) : 0;
    for (uint32_t i = 0; i < f->config.n_workers && free_hands < waiting; i++) {
        struct worker *w = &f->workers[i];
        if (w->state != WORKER_ABSENT)
            continue;
        if (f->config.loading_max > 0 && f->n_loading >= f->config.loading_max)
            return;
        life_reset(w);
        state_set(f, w, WORKER_STARTING);
        w->started_ms = w->last_progress_ms = f->now_ms;
        free_hands++;
        emit(f, ACT_SPAWN, i, 0, batch_now(f, w), 0);
        if (f->config.start_limit_ms > 0)
            wake_at(f, f->now_ms + f->config.start_limit_ms);
    }
}

void worker_started(struct feed *f, uint32_t worker)
{
    struct worker *w = &f->workers[worker];
    if (w->state == WORKER_STARTING)
        state_set(f, w, WORKER_LOADING);
}

void worker_is_live(struct feed *f, uint32_t worker)
{
    struct worker *w = &f->workers[worker];
    if (w->state == WORKER_STARTING || w->state == WORKER_LOADING)
        state_set(f, w, WORKER_LIVE);
}

/* ---- what a worker says ---- */

/* Hand back everything it has in flight; true for those that nobody else has. */
static void unanswered_return(struct feed *f, uint32_t worker)
{
    struct worker *w = &f->workers[worker];
    uint64_t low = MAX(w->low, f->config.order ? 0 : f->frontier);
    struct sent_range run = {low, 0};
    for (uint64_t item = low; item <= w->high; item++) {
        if (item < w->high && item_disown(f, worker, item)) {
            run.count++;
            continue;
        }
        if (run.count > 0)
            pool_add(f, run, f->now_ms, NONE);
        run = (struct sent_range){item + 1, 0};
    }
    f->n_in_flight -= w->in_flight;
    w->in_flight = w->losers = 0;
    w->low = w->high = 0;
    w->fifo_len = 0;
}

void worker_becomes_channel(struct feed *f, uint32_t worker)
{
    struct worker *w = &f->workers[worker];
    if (w->mode == MODE_CHANNEL)
        return;
    if (w->items_done > 0 && w->mode == MODE_FILTER && w->answered_in_life > w->provisional) {
        worker_out_of_step(f, worker); /* committed answers of a filter that was none */
        return;
    }
    /* What it printed so far was talk, and the item in its stdin is not considered taken. */
    provisional_revoke(f, worker);
    unanswered_return(f, worker);
    suspects_release(f, worker);
    w->mode = MODE_CHANNEL;
    w->answered_in_life = 0;
    w->is_draining = false;
}

static uint64_t settle_ms(const struct worker *w)
{
    double ms = 2 * w->gap_max_ms;
    return (uint64_t)MIN(MAX(ms, (double)SETTLE_MIN_MS), (double)SETTLE_MAX_MS);
}

/*
 * Equal counts prove nothing while a stray line may stand for an answer that is still to come. So a
 * filter is let run dry, and its answers count once it has been quiet for twice its longest gap.
 * Draining costs at most a hundredth of the time: it comes once in a hundred settling times.
 */
void worker_settle(struct feed *f, uint32_t worker)
{
    struct worker *w = &f->workers[worker];
    w->is_draining = true;
    if (w->in_flight > 0 || w->settle_at_ms > 0)
        return;
    w->settle_at_ms = f->now_ms + settle_ms(w);
    wake_at(f, w->settle_at_ms);
}

static bool drain_is_due(const struct feed *f, const struct worker *w)
{
    uint64_t ring_share = f->spread / (4ull * MAX(f->n_alive, 1u));
    uint64_t interval_ms = MAX((uint64_t)CONFIRM_MIN_MS, 100 * settle_ms(w));
    return w->provisional > ring_share || f->now_ms - w->provisional_since_ms > interval_ms;
}

static void device_works(struct feed *f, struct worker *w, uint64_t count)
{
    struct feed_device *device = &f->devices[w->device];
    device->results += count;
    device->start_failures = 0;
    device->is_hopeless = false;
    f->results += count;
    w->deaths_in_row = 0;
    w->last_progress_ms = f->now_ms;
    w->answered_in_life += count;
    w->items_done += count;
}

static void answers_mark(struct feed *f, uint32_t worker, uint64_t count)
{
    struct worker *w = &f->workers[worker];
    while (count > 0) {
        struct sent_range *range = &w->fifo[w->fifo_head];
        uint32_t part = (uint32_t)MIN(count, (uint64_t)range->count);
        for (uint32_t i = 0; i < part; i++) {
            uint64_t item = range->first + i;
            struct slot *slot = slot_of(f, item);
            bool live = is_in_window(f, item) && slot->state == SLOT_SENT;
            int mine = !live                          ? -1
                       : slot->owner[0] == worker + 1 ? 0
                       : slot->owner[1] == worker + 1 ? 1
                                                      : -1;
            if (mine < 0)
                continue; /* answered elsewhere in the meantime */
            slot->flags |= mine == 0 ? ANSWERED_FIRST : ANSWERED_SECOND;
            w->provisional++;
            f->n_provisional++;
        }
        range->first += part;
        range->count -= part;
        count -= part;
        if (range->count == 0) {
            w->fifo_head = (w->fifo_head + 1) % FIFO_CAP;
            w->fifo_len--;
        }
    }
}

void worker_answered(struct feed *f, uint32_t worker, uint64_t count)
{
    struct worker *w = &f->workers[worker];
    if (w->mode == MODE_UNKNOWN)
        w->mode = MODE_FILTER;
    if (w->mode != MODE_FILTER || count == 0)
        return;
    if (count > w->in_flight) {
        worker_out_of_step(f, worker);
        return;
    }
    if (w->state == WORKER_STARTING || w->state == WORKER_LOADING)
        worker_is_live(f, worker);
    window_learn(f, worker, count);
    if (w->provisional == 0)
        w->provisional_since_ms = f->now_ms;
    answers_mark(f, worker, count);
    w->in_flight -= (uint32_t)count;
    f->n_in_flight -= count;
    device_works(f, w, count);
    if (w->is_draining || (w->state == WORKER_LIVE && drain_is_due(f, w)))
        worker_settle(f, worker);
    worker_feed(f, worker);
}

/*
 * --fixed-batches: what was computed together is committed together, or computed together again. The
 * batch is over when nothing of it is in flight.
 */
static void batch_settle(struct feed *f, uint32_t worker)
{
    struct worker *w = &f->workers[worker];
    if (f->config.fixed_batches && w->mode == MODE_CHANNEL && w->in_flight == 0)
        provisional_confirm(f, worker);
}

/* The result counts: at once, or with the rest of its batch. False if another copy was first. */
static bool result_take(struct feed *f, uint32_t worker, uint64_t item)
{
    struct worker *w = &f->workers[worker];
    if (!f->config.fixed_batches || w->mode != MODE_CHANNEL) {
        if (!item_win(f, worker, item))
            return false;
        emit(f, ACT_COMMIT, worker, item, 1, 0);
        return true;
    }
    struct slot *slot = slot_of(f, item);
    if (!is_in_window(f, item) || slot->state != SLOT_SENT || slot->owner[0] != worker + 1 ||
        slot->flags & ANSWERED_FIRST)
        return false;
    slot->flags |= ANSWERED_FIRST;
    w->provisional++;
    f->n_provisional++;
    return true;
}

void worker_result(struct feed *f, uint32_t worker, uint64_t item)
{
    struct worker *w = &f->workers[worker];
    worker_is_live(f, worker);
    if (!result_take(f, worker, item)) {
        bool was_loser = w->losers > 0;
        w->losers -= was_loser;
        w->last_progress_ms = f->now_ms;
        emit(f, ACT_DROP, worker, item, 1, 0);
        if (!was_loser)
            emit(f, ACT_NOTE, worker, item, 0, NOTE_FOREIGN);
    } else {
        window_learn(f, worker, 1);
        w->in_flight--;
        f->n_in_flight--;
        device_works(f, w, 1);
        batch_settle(f, worker);
    }
    worker_feed(f, worker);
}

void worker_failure(struct feed *f, uint32_t worker, uint64_t item, bool retry)
{
    struct worker *w = &f->workers[worker];
    worker_is_live(f, worker);
    struct slot *slot = slot_of(f, item);
    bool mine = is_in_window(f, item) && slot->state == SLOT_SENT &&
                (slot->owner[0] == worker + 1 || slot->owner[1] == worker + 1);
    if (!mine) {
        bool was_loser = w->losers > 0;
        w->losers -= was_loser;
        if (!was_loser)
            emit(f, ACT_NOTE, worker, item, 0, NOTE_FOREIGN);
    } else {
        w->in_flight--;
        f->n_in_flight--;
        w->last_progress_ms = f->now_ms;
        w->answered_in_life++;
        w->deaths_in_row = 0;
        if (item_disown(f, worker, item))
            item_charge(f, worker, item, CAUSE_FAILED, retry);
        batch_settle(f, worker);
    }
    worker_feed(f, worker);
}

/* ---- ending ---- */

void worker_end(struct feed *f, uint32_t worker)
{
    struct worker *w = &f->workers[worker];
    if (!is_running(w) || w->state == WORKER_ENDING)
        return;
    w->input_closed = true;
    state_set(f, w, WORKER_ENDING);
    emit(f, ACT_END, worker, 0, 0, 0);
}

void worker_terminate(struct feed *f, uint32_t worker, enum feed_cause cause)
{
    struct worker *w = &f->workers[worker];
    if (!is_running(w) || w->ended_for != CAUSE_NONE)
        return;
    w->ended_for = cause;
    w->input_closed = true;
    state_set(f, w, WORKER_ENDING);
    emit(f, ACT_TERMINATE, worker, 0, 0, cause);
}

void worker_out_of_step(struct feed *f, uint32_t worker)
{
    struct worker *w = &f->workers[worker];
    if (w->ended_for != CAUSE_NONE)
        return;
    provisional_revoke(f, worker);
    worker_terminate(f, worker, CAUSE_PROTOCOL);
    if (++f->mismatches >= MISMATCHES_MAX)
        halt(f, HALT_MISMATCH);
}

void everybody_end(struct feed *f)
{
    for (uint32_t i = 0; i < f->config.n_workers; i++) {
        struct worker *w = &f->workers[i];
        bool only_losers = f->is_complete && (w->losers > 0 || w->in_flight > 0);
        if (f->is_stopping_now)
            worker_terminate(f, i, CAUSE_STOP);
        else if (only_losers)
            worker_terminate(f, i, CAUSE_LOSER);
        else
            worker_end(f, i);
    }
}

/* ---- death ---- */

/* What it had unanswered and nobody else has, taken off it, as runs. */
static uint64_t unanswered_collect(struct feed *f, uint32_t worker, struct sent_range *runs,
                                   size_t cap, size_t *n_runs)
{
    struct worker *w = &f->workers[worker];
    uint64_t total = 0, low = MAX(w->low, f->config.order ? 0 : f->frontier);
    *n_runs = 0;
    for (uint64_t item = low; item < w->high; item++) {
        if (!item_disown(f, worker, item))
            continue;
        struct sent_range *last = *n_runs > 0 ? &runs[*n_runs - 1] : NULL;
        total++;
        if (last && last->first + last->count == item)
            last->count++;
        else if (*n_runs < cap)
            runs[(*n_runs)++] = (struct sent_range){item, 1};
        else
            pool_add(f, (struct sent_range){item, 1}, f->now_ms, NONE);
    }
    f->n_in_flight -= w->in_flight;
    w->in_flight = w->losers = 0;
    w->fifo_len = 0;
    return total;
}

static void runs_to_pool(struct feed *f, const struct sent_range *runs, size_t n_runs)
{
    for (size_t i = 0; i < n_runs; i++)
        pool_add(f, runs[i], f->now_ms, NONE);
}

void device_shrink(struct feed *f, uint32_t device, uint64_t batch_failed)
{
    struct feed_device *d = &f->devices[device];
    uint32_t limit = (uint32_t)MAX(batch_failed / 2, (uint64_t)1);
    d->batch = d->batch == 0 ? limit : MIN(d->batch, limit);
    for (uint32_t i = 0; i < f->config.n_workers; i++) {
        struct worker *w = &f->workers[i];
        if (w->device != device || !is_running(w))
            continue;
        w->window = MIN(w->window, 2ull * d->batch);
        if (w->mode == MODE_CHANNEL)
            emit(f, ACT_BATCH, i, 0, d->batch, 0);
    }
}

/* Who is to blame for what it had in hand? */
static void unanswered_judge(struct feed *f, uint32_t worker, enum feed_death death,
                             bool start_failure)
{
    struct worker *w = &f->workers[worker];
    struct sent_range runs[1024];
    size_t n_runs;
    uint64_t in_hand = w->in_flight;
    uint32_t limit = batch_now(f, w);
    uint64_t total = unanswered_collect(f, worker, runs, countof(runs), &n_runs);
    if (total == 0)
        return;
    bool blamed = death == GONE_CRASH || death == GONE_CLEAN ||
                  (death == GONE_OOM && in_hand <= 1) ||
                  (death == GONE_OOM && f->config.fixed_batches);
    enum feed_cause cause = death == GONE_OOM ? CAUSE_OOM : CAUSE_CRASH;
    if (death == GONE_OOM && !f->config.fixed_batches && in_hand > 1)
        device_shrink(f, w->device, limit > 0 ? MIN((uint64_t)limit, in_hand) : in_hand);
    if (start_failure || !blamed)
        runs_to_pool(f, runs, n_runs);
    else if (total == 1)
        item_charge(f, worker, runs[0].first, cause, true);
    else
        suspects_add(f, runs, n_runs, NONE, f->now_ms);
}

/* The item over its time limit is charged; its neighbours are not. */
static void blamed_charge(struct feed *f, uint32_t worker)
{
    struct worker *w = &f->workers[worker];
    if (w->blame == UINT64_MAX || !item_disown(f, worker, w->blame))
        return;
    item_charge(f, worker, w->blame, CAUSE_TIMEOUT, true);
}

void device_bench(struct feed *f, uint32_t device, enum feed_cause cause)
{
    struct feed_device *d = &f->devices[device];
    if (d->is_benched)
        return;
    d->is_benched = true;
    emit(f, ACT_BENCH, device, 0, 0, cause);
    bool any_left = false;
    for (uint32_t i = 0; i < f->config.n_workers; i++) {
        struct worker *w = &f->workers[i];
        if (w->device == device && is_running(w))
            worker_terminate(f, i, CAUSE_LOST);
        else if (w->device == device)
            state_set(f, w, WORKER_BENCHED);
        any_left = any_left || !f->devices[w->device].is_benched;
    }
    if (!any_left && !f->is_complete)
        halt(f, HALT_NO_DEVICES);
}

static void start_failed(struct feed *f, struct worker *w, enum feed_death death)
{
    struct feed_device *device = &f->devices[w->device];
    uint32_t tries = f->config.n_devices > 1 || death == GONE_NOT_STARTED ? 1 : 2;
    device->start_failures++;
    device->is_hopeless = device->start_failures >= tries;
    bool hope = f->results > 0;
    for (uint32_t d = 0; d < f->config.n_devices; d++)
        hope = hope || !(f->devices[d].is_hopeless || f->devices[d].is_benched);
    if (!hope)
        halt(f, HALT_NO_RESULT);
}

static void seat_cool(struct feed *f, uint32_t worker, bool was_suspect_work)
{
    struct worker *w = &f->workers[worker];
    uint32_t deaths = w->deaths_in_row;
    state_set(f, w, f->devices[w->device].is_benched ? WORKER_BENCHED : WORKER_COOLING);
    w->memory_is_back = false; /* a neighbour's, perhaps; its own is awaited from now on */
    w->not_before_ms = f->now_ms;
    if (deaths > 1 && !was_suspect_work)
        w->not_before_ms += MIN(1000ull << MIN(deaths - 2, 5u), (uint64_t)BACKOFF_MAX_MS);
    if (deaths > RESTARTS_MAX && !was_suspect_work)
        device_bench(f, w->device, CAUSE_RESTARTS);
}

/* Filters: is what was answered in step with what was sent? */
static void filter_judge(struct feed *f, uint32_t worker, enum feed_death death)
{
    struct worker *w = &f->workers[worker];
    if (w->mode != MODE_FILTER) {
        provisional_revoke(f, worker); /* a fixed batch that was not finished */
        return;
    }
    bool all_answered = w->in_flight == 0 && w->provisional > 0;
    /* One that lingers at its end is ended by the shell; that takes nothing from its answers. */
    bool lingered = death == GONE_ENDED && w->ended_for == CAUSE_NONE;
    bool ended_well = death == GONE_CLEAN || (w->input_closed && (death == GONE_CRASH || lingered));
    if (all_answered && ended_well)
        provisional_confirm(f, worker);
    else if (all_answered && (death == GONE_CRASH || death == GONE_OOM))
        provisional_doubt(f, worker); /* else it could do so again and again */
    else
        provisional_revoke(f, worker);
    if (death == GONE_CLEAN && w->in_flight > 0 && ++f->mismatches >= MISMATCHES_MAX)
        halt(f, HALT_MISMATCH);
}

void worker_exited(struct feed *f, uint32_t worker, enum feed_death death)
{
    struct worker *w = &f->workers[worker];
    if (!is_running(w))
        return;
    if (w->ended_for != CAUSE_NONE && death != GONE_DEVICE_LOST)
        death = GONE_ENDED;
    bool was_suspect_work = w->group != NONE;
    bool gave_nothing = w->answered_in_life == 0;
    bool is_normal = w->input_closed && w->ended_for == CAUSE_NONE && w->in_flight == 0;
    bool fewer_may_help = death == GONE_OOM && w->in_flight > 1;
    bool start_failure = gave_nothing && f->devices[w->device].results == 0 && !fewer_may_help &&
                         (death != GONE_ENDED || w->ended_for == CAUSE_START);
    f->n_crashes += death == GONE_CRASH;
    f->n_ooms += death == GONE_OOM;
    filter_judge(f, worker, death);
    blamed_charge(f, worker);
    unanswered_judge(f, worker, death, start_failure);
    suspects_release(f, worker);
    if (f->quarantine == worker)
        f->quarantine = NONE;
    if (death == GONE_DEVICE_LOST)
        device_bench(f, w->device, CAUSE_LOST);
    w->deaths_in_row += gave_nothing && !is_normal && !was_suspect_work;
    if (start_failure && !f->is_complete && !f->is_stopping)
        start_failed(f, w, death);
    seat_cool(f, worker, was_suspect_work);
}

/* ---- limits ---- */

/* The item that this worker was sent first and has not answered, UINT64_MAX if there is none. */
static uint64_t oldest_item(struct feed *f, uint32_t worker)
{
    const struct worker *w = &f->workers[worker];
    uint64_t found = UINT64_MAX;
    uint32_t order = 0;
    if (answers_in_order(w) && w->fifo_len > 0)
        return w->fifo[w->fifo_head].first;
    for (uint64_t item = MAX(w->low, f->config.order ? 0 : f->frontier); item < w->high; item++) {
        const struct slot *slot = slot_of(f, item);
        bool first = slot->owner[0] == worker + 1;
        bool mine = slot->state == SLOT_SENT && (first || slot->owner[1] == worker + 1);
        if (!mine || slot->flags & (first ? ANSWERED_FIRST : ANSWERED_SECOND))
            continue;
        if (found == UINT64_MAX || (int32_t)(slot->sent_order - order) < 0) {
            found = item;
            order = slot->sent_order;
        }
    }
    return found;
}

/*
 * Since when has it been at work on its oldest item? Those behind it may well wait for their turn, so
 * time in hand proves nothing. A filter begins with the next line when it has answered one; of
 * another worker it is known no better than by the last answer before the item was seen to be the
 * oldest.
 */
static uint64_t oldest_since_ms(struct feed *f, struct worker *w, uint64_t item)
{
    if (answers_in_order(w))
        return MAX(w->last_progress_ms, w->in_flight == 1 ? w->last_send_ms : 0);
    uint32_t order = slot_of(f, item)->sent_order;
    if (item != w->oldest || order != w->oldest_order)
        w->oldest_since_ms = w->last_progress_ms;
    w->oldest = item;
    w->oldest_order = order;
    return w->oldest_since_ms;
}

static void item_limit_check(struct feed *f, uint32_t worker)
{
    struct worker *w = &f->workers[worker];
    uint64_t limit_ms = f->config.item_limit_ms, item = oldest_item(f, worker);
    /* A copy that came too late may hang as well, and takes the worker from the work. */
    uint64_t since_ms = item == UINT64_MAX ? w->last_progress_ms : oldest_since_ms(f, w, item);
    /* It may give all its answers at its end: then only their sum is known. */
    if (w->state == WORKER_ENDING && answers_in_order(w))
        limit_ms *= w->in_flight;
    if (f->now_ms < since_ms + limit_ms) {
        wake_at(f, MIN(since_ms + limit_ms, f->now_ms + f->config.item_limit_ms / 8 + 1));
        return;
    }
    w->blame = item;
    worker_terminate(f, worker, CAUSE_TIMEOUT);
}

/* How often to look for workers that have fallen silent. */
static uint64_t silence_look_ms(const struct feed *f)
{
    uint64_t limit_ms = f->config.silence_limit_ms;
    return MIN(limit_ms > 0 ? limit_ms / 4 + 1 : (uint64_t)SILENCE_LOOK_MS,
               (uint64_t)SILENCE_LOOK_MS);
}

static void silence_check(struct feed *f, uint32_t worker)
{
    struct worker *w = &f->workers[worker];
    uint64_t silent_ms = f->now_ms - w->last_progress_ms;
    uint64_t usual_ms = (uint64_t)MAX(10 * w->gap_max_ms, (double)SILENCE_MIN_MS);
    bool may_end = f->config.silence_limit_ms > 0 && w->state != WORKER_LOADING;
    if (may_end && silent_ms >= f->config.silence_limit_ms) {
        w->blame = oldest_item(f, worker);
        worker_terminate(f, worker, CAUSE_TIMEOUT);
    } else if (silent_ms >= usual_ms && silent_ms >= 2 * w->silence_noted_ms) {
        w->silence_noted_ms = silent_ms;
        emit(f, ACT_NOTE, worker, w->in_flight + w->losers, silent_ms, NOTE_SILENT);
    }
    wake_at(f, f->now_ms + silence_look_ms(f));
}

void limits_arm(struct feed *f)
{
    wake_at(f, f->now_ms + silence_look_ms(f));
    if (f->config.item_limit_ms > 0)
        wake_at(f, f->now_ms + f->config.item_limit_ms);
}

void limits_check(struct feed *f)
{
    for (uint32_t i = 0; i < f->config.n_workers; i++) {
        struct worker *w = &f->workers[i];
        bool is_ending = w->state == WORKER_ENDING && w->ended_for == CAUSE_NONE;
        bool is_loading = w->state == WORKER_STARTING || w->state == WORKER_LOADING ||
                          (is_ending && w->mode == MODE_UNKNOWN);
        if (w->settle_at_ms > 0 && w->settle_at_ms <= f->now_ms && w->in_flight == 0) {
            w->settle_at_ms = 0;
            w->is_draining = false;
            provisional_confirm(f, i);
            worker_feed(f, i);
        } else if (w->settle_at_ms > 0) {
            wake_at(f, w->settle_at_ms);
        }
        if (is_loading && f->config.start_limit_ms > 0) {
            if (f->now_ms >= w->started_ms + f->config.start_limit_ms)
                worker_terminate(f, i, CAUSE_START);
            else
                wake_at(f, w->started_ms + f->config.start_limit_ms);
        }
        if (w->in_flight + w->losers == 0 ||
            !(w->state == WORKER_LIVE || w->state == WORKER_LOADING || is_ending))
            continue;
        if (f->config.item_limit_ms > 0 && !is_loading)
            item_limit_check(f, i);
        silence_check(f, i);
    }
}
