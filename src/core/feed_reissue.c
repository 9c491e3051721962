/* SPDX-License-Identifier: Apache-2.0
 *
 * Second copies: at the end of the data a worker without work takes a copy of the item that would be
 * finished last, and the first answer wins.
 *
 * The workers whose work will last longest are found for all workers at once, and the result is used for a while:
 * thousands of workers may become idle within a second, and an approximate order is enough.
 */
#include "core/feed_impl.h"

enum {
    VICTIMS_MIN_MS = 10,
    LOOK_AGAIN_MS = 5000
};

/* The time that a victim's work will still take, in ms, at its present speed. */
static double left_ms(const struct feed *f, const struct feed_worker *v, double fallback_ms)
{
    double mean_ms = v->time.mean_ms > 0 ? v->time.mean_ms : fallback_ms;
    double age_ms = (double)(f->now_ms - MIN(f->now_ms, v->time.last_progress_ms));
    double expected = mean_ms * v->items.in_flight - age_ms;
    return expected > 0 ? expected : age_ms; /* overdue: expected to take as long again */
}

/* The last item of `victim` that no other worker has; the victim will do it last. */
static bool reissue_candidate(const struct feed *f, uint32_t victim, uint64_t *out)
{
    const struct feed_worker *v = &f->workers[victim];
    if (v->items.in_flight == 0 || v->group != NONE)
        return false;
    *out = owned_last_alone(f, victim);
    return *out != UINT64_MAX;
}

static bool may_reissue(const struct feed *f, const struct feed_worker *w)
{
    return f->window.input_is_final && !f->config.no_reissue && w->items.in_flight == 0 &&
           w->answered_in_life > 0;
}

/* ---- the heap of victims, the longest at its top ---- */

static bool lasts_longer(const struct victim *a, const struct victim *b)
{
    return a->left_ms > b->left_ms || !(a->left_ms < b->left_ms || a->worker > b->worker);
}

static void victim_sink(struct feed *f, uint32_t at)
{
    struct victim moved = f->victims.heap[at];
    for (uint32_t child = 2 * at + 1; child < f->victims.len; child = 2 * at + 1) {
        if (child + 1 < f->victims.len &&
            lasts_longer(&f->victims.heap[child + 1], &f->victims.heap[child]))
            child++;
        if (!lasts_longer(&f->victims.heap[child], &moved))
            break;
        f->victims.heap[at] = f->victims.heap[child];
        at = child;
    }
    f->victims.heap[at] = moved;
}

static void victims_find(struct feed *f, double fallback_ms)
{
    uint64_t item;
    f->victims.len = 0;
    f->victims.oldest_ms = f->now_ms;
    for (uint32_t v = 0; v < f->config.n_workers; v++) {
        const struct feed_worker *w = &f->workers[v];
        if (!reissue_candidate(f, v, &item))
            continue;
        f->victims.heap[f->victims.len++] = (struct victim){left_ms(f, w, fallback_ms), v};
        f->victims.oldest_ms = MIN(f->victims.oldest_ms, w->time.last_progress_ms);
    }
    for (uint32_t at = f->victims.len / 2; at-- > 0;)
        victim_sink(f, at);
    f->victims.as_of_ms = f->now_ms;
    f->victims.are_old = false;
}

/* Finds the first victim of the heap that is still one, and its item. False: there is none. */
static bool victim_top(struct feed *f, uint64_t *item)
{
    while (f->victims.len > 0) {
        if (reissue_candidate(f, f->victims.heap[0].worker, item))
            return true;
        f->victims.heap[0] = f->victims.heap[--f->victims.len];
        if (f->victims.len > 0)
            victim_sink(f, 0);
    }
    return false;
}

bool reissue(struct feed *f, uint32_t worker)
{
    struct feed_worker *w = &f->workers[worker];
    if (!may_reissue(f, w))
        return false;
    /* Without an event the idle worker looks again by itself, less often the longer it has waited. */
    look_at(f, worker,
            f->now_ms + MAX((f->now_ms - w->time.last_progress_ms) / 4, (uint64_t)LOOK_AGAIN_MS));
    if (f->pool.delayed_items > 0)
        return false;
    double worth_ms = MAX(1.5 * w->time.mean_ms, (double)REISSUE_MIN_MS) + (double)w->round_trip_ms;
    uint64_t holds_ms = MAX((uint64_t)(worth_ms / 8), (uint64_t)VICTIMS_MIN_MS), item;
    bool may_differ = f->victims.len > 0 || f->victims.are_old;
    if (may_differ && f->now_ms >= f->victims.as_of_ms + holds_ms)
        victims_find(f, w->time.mean_ms);
    uint64_t again_ms = f->victims.as_of_ms + holds_ms;
    if (!victim_top(f, &item)) {
        if (f->victims.are_old)
            look_at(f, worker, again_ms);
        return false;
    }
    uint32_t victim = f->victims.heap[0].worker;
    if (left_ms(f, &f->workers[victim], w->time.mean_ms) < worth_ms) {
        look_at(f, worker, MAX(again_ms, f->victims.oldest_ms + (uint64_t)worth_ms));
        return false;
    }
    f->counts.reissued++;
    emit(f, ACT_NOTE, worker, item, victim, NOTE_REISSUED);
    send_to(f, worker, (struct sent_range){item, 1});
    return true;
}
