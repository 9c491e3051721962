/* SPDX-License-Identifier: Apache-2.0
 *
 * Time limits: an item over its limit, a worker that is silent or never ready, and a filter whose answers are
 * confirmed because it was quiet for long enough.
 */
#include "core/feed_impl.h"

enum {
    SILENCE_MIN_MS = 60000,
    CLOSED_GRACE_MS = 2000 /* a dying worker closes its input a little before its exit is seen */
};

/* ---- whom to look at ---- */

static void look_place(struct feed *f, uint32_t index, uint32_t worker)
{
    f->looks.heap[index] = worker;
    f->workers[worker].look.index = index;
}

static bool look_before(const struct feed *f, uint32_t a, uint32_t b)
{
    uint64_t a_ms = f->workers[a].look.at_ms, b_ms = f->workers[b].look.at_ms;
    return a_ms != b_ms ? a_ms < b_ms : a < b;
}

static void look_rise(struct feed *f, uint32_t index, uint32_t worker)
{
    for (; index > 0 && look_before(f, worker, f->looks.heap[(index - 1) / 2]);
         index = (index - 1) / 2)
        look_place(f, index, f->looks.heap[(index - 1) / 2]);
    look_place(f, index, worker);
}

void look_at(struct feed *f, uint32_t worker, uint64_t at_ms)
{
    struct feed_worker *w = &f->workers[worker];
    at_ms = MAX(at_ms, f->now_ms + 1);
    if (at_ms >= w->look.at_ms)
        return;
    bool is_new = w->look.at_ms == UINT64_MAX;
    w->look.at_ms = at_ms;
    look_rise(f, is_new ? f->looks.len++ : w->look.index, worker);
}

uint64_t looks_next_ms(const struct feed *f)
{
    return f->looks.len > 0 ? f->workers[f->looks.heap[0]].look.at_ms : UINT64_MAX;
}

static uint32_t look_pop(struct feed *f)
{
    uint32_t top = f->looks.heap[0], last = f->looks.heap[--f->looks.len], at = 0;
    f->workers[top].look.at_ms = UINT64_MAX;
    if (f->looks.len == 0)
        return top;
    for (uint32_t child = 1; child < f->looks.len; child = 2 * at + 1) {
        if (child + 1 < f->looks.len &&
            look_before(f, f->looks.heap[child + 1], f->looks.heap[child]))
            child++;
        if (!look_before(f, f->looks.heap[child], last))
            break;
        look_place(f, at, f->looks.heap[child]);
        at = child;
    }
    look_place(f, at, last);
    return top;
}

/* ---- what to look for ---- */

/* The first unanswered item that this worker was sent; UINT64_MAX: none. */
static uint64_t oldest_item(struct feed *f, uint32_t worker)
{
    const struct feed_worker *w = &f->workers[worker];
    if (answers_in_order(w)) {
        ASSERT(w->items.fifo_len > 0); /* the worker owes an answer */
        return w->items.fifo[w->items.fifo_head].first;
    }
    struct owned at = owned_begin(f, worker);
    uint64_t item = owned_next(f, worker, &at);
    while (item != UINT64_MAX && is_provisional(f, worker, item))
        item = owned_next(f, worker, &at);
    return item;
}

/*
 * Since when the worker has worked on its oldest item. Items wait in the worker for their turn, so the time
 * since they were sent says nothing. A filter begins with the next line when it has answered one. Of other
 * workers, only the last answer before the item became the oldest is known.
 */
static uint64_t oldest_since_ms(struct feed *f, struct feed_worker *w, uint64_t item)
{
    if (answers_in_order(w))
        return MAX(w->time.last_progress_ms, w->items.in_flight == 1 ? w->time.last_send_ms : 0);
    uint32_t order = slot_peek(f, item).sent_order;
    if (item != w->items.oldest || order != w->items.oldest_order)
        w->items.oldest_since_ms = w->time.last_progress_ms;
    w->items.oldest = item;
    w->items.oldest_order = order;
    return w->items.oldest_since_ms;
}

static void item_limit_check(struct feed *f, uint32_t worker)
{
    struct feed_worker *w = &f->workers[worker];
    uint64_t limit_ms = f->config.item_limit_ms, item = oldest_item(f, worker);
    /* A copy that lost may hang as well, and keep the worker from other items. */
    uint64_t since_ms = item == UINT64_MAX ? w->time.last_progress_ms : oldest_since_ms(f, w, item);
    /* Answers that come many at once were held back while the worker computed. */
    if (answers_in_order(w))
        limit_ms += 2 * w->time.burst_ms;
    /* It may give all its answers at its end, so only the time of all of them is limited. */
    if (w->state == WORKER_ENDING && answers_in_order(w))
        limit_ms *= w->items.in_flight;
    if (f->now_ms < since_ms + limit_ms) {
        look_at(f, worker, MIN(since_ms + limit_ms, f->now_ms + f->config.item_limit_ms / 8 + 1));
        return;
    }
    w->blame = item;
    feed_worker_terminate(f, worker, CAUSE_TIMEOUT);
}

/* The usual time of an item or a burst; a longer silence is logged. */
static uint64_t usual_ms(const struct feed_worker *w)
{
    return (uint64_t)MAX(10 * w->time.gap_max_ms, (double)SILENCE_MIN_MS);
}

static uint64_t silence_look_ms(const struct feed *f, const struct feed_worker *w)
{
    uint64_t limit_ms = f->config.silence_limit_ms, look_ms = usual_ms(w) / 4;
    return limit_ms > 0 ? MIN(limit_ms / 4 + 1, look_ms) : look_ms;
}

static bool owes_answer(const struct feed_worker *w)
{
    return w->items.in_flight + w->items.losers > 0;
}

/* True for a worker that has answered everything and asks for no more: it may be stuck between two items. */
static bool owes_request(const struct feed_worker *w)
{
    return w->mode == MODE_CHANNEL && w->state == WORKER_LIVE && w->credits == 0;
}

static void silence_check(struct feed *f, uint32_t worker)
{
    struct feed_worker *w = &f->workers[worker];
    uint64_t silent_ms = f->now_ms - w->time.last_progress_ms,
             limit_ms = f->config.silence_limit_ms;
    bool may_end = limit_ms > 0 && w->state != WORKER_LOADING;
    bool is_awaited = owes_answer(w) || work_is_there(f);
    if (may_end && is_awaited && silent_ms >= limit_ms) {
        w->blame = oldest_item(f, worker);
        feed_worker_terminate(f, worker, CAUSE_TIMEOUT);
        return;
    }
    uint64_t word_ms = MAX(usual_ms(w), 2 * w->time.silence_noted_ms);
    if (owes_answer(w) && silent_ms >= word_ms) {
        w->time.silence_noted_ms = silent_ms;
        emit(f, ACT_NOTE, worker, w->items.in_flight + w->items.losers, silent_ms, NOTE_SILENT);
    }
    if (may_end && silent_ms < limit_ms)
        look_at(f, worker, w->time.last_progress_ms + limit_ms);
    look_at(f, worker, f->now_ms + silence_look_ms(f, w));
}

void limits_arm(struct feed *f, uint32_t worker)
{
    look_at(f, worker, f->now_ms + silence_look_ms(f, &f->workers[worker]));
    if (f->config.item_limit_ms > 0)
        look_at(f, worker, f->now_ms + f->config.item_limit_ms);
}

static void settle_check(struct feed *f, uint32_t worker)
{
    struct feed_worker *w = &f->workers[worker];
    if (w->drain.settle_at_ms > f->now_ms || w->items.in_flight > 0) {
        look_at(f, worker, w->drain.settle_at_ms);
        return;
    }
    feed_worker_settled(f, worker);
}

static void start_check(struct feed *f, uint32_t worker)
{
    struct feed_worker *w = &f->workers[worker];
    uint64_t limit_at_ms = w->time.started_ms + f->config.start_limit_ms;
    if (f->now_ms >= limit_at_ms)
        feed_worker_terminate(f, worker, CAUSE_START);
    else
        look_at(f, worker, limit_at_ms);
}

void feed_worker_closed(struct feed *f, uint32_t worker)
{
    struct feed_worker *w = &f->workers[worker];
    w->time.closed_ms = MIN(w->time.closed_ms, f->now_ms);
    look_at(f, worker, f->now_ms + CLOSED_GRACE_MS);
}

static void closed_check(struct feed *f, uint32_t worker)
{
    uint64_t limit_at_ms = f->workers[worker].time.closed_ms + CLOSED_GRACE_MS;
    if (f->now_ms >= limit_at_ms)
        feed_worker_out_of_step(f, worker);
    else
        look_at(f, worker, limit_at_ms);
}

/* Ends a worker that does not end by itself. Its answers count, however it ends. */
static void linger_check(struct feed *f, uint32_t worker)
{
    struct feed_worker *w = &f->workers[worker];
    uint64_t since_ms = MAX(w->time.ended_ms, w->time.last_progress_ms);
    uint64_t limit_at_ms = since_ms + f->config.end_limit_ms;
    if (w->items.in_flight > 0) {
        look_at(f, worker, f->now_ms + f->config.end_limit_ms / 8 + 1);
    } else if (f->now_ms < limit_at_ms) {
        look_at(f, worker, limit_at_ms);
    } else {
        w->lingers = true;
        emit(f, ACT_TERMINATE, worker, 0, 0, CAUSE_LINGERS);
    }
}

static void feed_worker_look(struct feed *f, uint32_t worker)
{
    struct feed_worker *w = &f->workers[worker];
    if (w->idle.is_in)
        idle_look(f, worker);
    if (w->drain.settle_at_ms > 0)
        settle_check(f, worker);
    bool is_ending = w->state == WORKER_ENDING && w->ended_for == CAUSE_NONE;
    bool is_loading = w->state == WORKER_STARTING || w->state == WORKER_LOADING ||
                      (is_ending && w->mode == MODE_UNKNOWN);
    if (is_loading && f->config.start_limit_ms > 0)
        start_check(f, worker);
    if (!(w->state == WORKER_LIVE || w->state == WORKER_LOADING || is_ending))
        return;
    if (is_ending && f->config.end_limit_ms > 0 && !w->has_ended && !w->lingers)
        linger_check(f, worker);
    if (w->time.closed_ms != UINT64_MAX && (!is_ending || owes_answer(w)))
        closed_check(f, worker);
    if (owes_answer(w) && f->config.item_limit_ms > 0 && !is_loading)
        item_limit_check(f, worker);
    if (owes_answer(w) || (owes_request(w) && f->config.silence_limit_ms > 0))
        silence_check(f, worker);
}

void limits_check(struct feed *f)
{
    while (looks_next_ms(f) <= f->now_ms)
        feed_worker_look(f, look_pop(f));
}
