/* SPDX-License-Identifier: Apache-2.0
 *
 * Second copies: at the end of the data a worker without work takes a copy of the item that would be
 * finished last, and the first answer wins.
 *
 * The workers whose work will last longest are found for all workers at once, and the result is used for a while:
 * thousands of workers may become idle within a second, and an approximate order is enough.
 *
 * A host that hangs, or is slow, holds up what is on it, so a copy should be on another host than the item. Among
 * items that would be finished about as late, a worker takes one of another host. It leaves an item of its own host
 * to a worker of another host that is idle, or will be before this worker would look again.
 */
#include "core/feed_impl.h"

enum {
    VICTIMS_MIN_MS = 10,
    LOOK_AGAIN_MS = 5000,
    ELSEWHERE_TIMES = 2, /* a worker of another host may take this many times as long */
    ALIKE_PERCENT = 80,  /* of the longest time: an item above this is nearly as late */
    ALIKE_LOOKS = 32     /* at the top of the heap */
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

/* What a copy must save: more than it costs. */
static double worth_ms(const struct feed_worker *w)
{
    return MAX(1.5 * w->time.mean_ms, (double)REISSUE_MIN_MS) + (double)w->round_trip_ms;
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

static uint32_t host_of(const struct feed *f, uint32_t worker)
{
    return f->devices[f->workers[worker].device].host;
}

static bool is_sooner(const struct feed *f, struct victim a, struct victim b)
{
    bool a_is_idle = b.worker == NONE || f->workers[a.worker].items.in_flight == 0;
    bool b_is_idle = b.worker != NONE && f->workers[b.worker].items.in_flight == 0;
    return a_is_idle != b_is_idle ? a_is_idle : a.left_ms < b.left_ms;
}

/* How long the worker's own work and a copy will take. */
static double with_copy_ms(const struct feed *f, const struct feed_worker *w, double fallback_ms)
{
    double left = w->items.in_flight > 0 ? left_ms(f, w, fallback_ms) : 0;
    return left + w->time.mean_ms + (double)w->round_trip_ms;
}

/* An idle worker that asks for nothing would not take a copy. */
static bool may_have_copy(const struct feed *f, const struct feed_worker *w)
{
    return w->state == WORKER_LIVE && w->answered_in_life > 0 &&
           (w->items.in_flight > 0 || capacity(f, w) > 0);
}

static void soonest_note(struct feed *f, uint32_t worker, double fallback_ms)
{
    struct victim *soonest = f->victims.soonest;
    struct victim at = {with_copy_ms(f, &f->workers[worker], fallback_ms), worker};
    bool is_elsewhere =
        soonest[0].worker != NONE && host_of(f, worker) != host_of(f, soonest[0].worker);
    if (is_sooner(f, at, soonest[0])) {
        if (is_elsewhere)
            soonest[1] = soonest[0];
        soonest[0] = at;
    } else if (is_elsewhere && is_sooner(f, at, soonest[1])) {
        soonest[1] = at;
    }
}

static void victims_find(struct feed *f, double fallback_ms)
{
    uint64_t item;
    f->victims.len = 0;
    f->victims.oldest_ms = f->now_ms;
    f->victims.soonest[0] = f->victims.soonest[1] = (struct victim){0, NONE};
    for (uint32_t v = 0; v < f->config.n_workers; v++) {
        const struct feed_worker *w = &f->workers[v];
        if (f->seats.have_hosts && may_have_copy(f, w))
            soonest_note(f, v, fallback_ms);
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

/* ---- hosts ---- */

/* The first victim, or one on another host than `worker` that lasts nearly as long; *item is its item. */
static uint32_t victim_choose(const struct feed *f, uint32_t worker, uint64_t *item)
{
    const struct feed_worker *w = &f->workers[worker];
    uint32_t first = f->victims.heap[0].worker;
    if (!f->seats.have_hosts || host_of(f, first) != host_of(f, worker))
        return first;
    double least_ms =
        MAX(left_ms(f, &f->workers[first], w->time.mean_ms) * ALIKE_PERCENT / 100, worth_ms(w));
    for (uint32_t at = 1; at < MIN(f->victims.len, (uint32_t)ALIKE_LOOKS); at++) {
        uint32_t other = f->victims.heap[at].worker;
        uint64_t its_item;
        if (host_of(f, other) == host_of(f, worker) ||
            left_ms(f, &f->workers[other], w->time.mean_ms) < least_ms ||
            !reissue_candidate(f, other, &its_item))
            continue;
        *item = its_item;
        return other;
    }
    return first;
}

static void copy_send(struct feed *f, uint32_t worker, uint32_t victim, uint64_t item)
{
    f->counts.reissued++;
    emit(f, ACT_NOTE, worker, item, victim, NOTE_REISSUED);
    if (f->workers[worker].idle.is_in)
        idle_remove(f, worker);
    send_to(f, worker, (struct sent_range){item, 1});
}

static bool is_waiting(const struct feed *f, uint32_t worker)
{
    const struct feed_worker *w = &f->workers[worker];
    return w->idle.is_in && w->state == WORKER_LIVE && may_reissue(f, w) &&
           f->suspects.quarantine != worker && capacity(f, w) > 0;
}

/*
 * Leaves the victim's item to a worker of another host: one that waits for work gets the copy; one that will be idle
 * soon is waited for, but not for long. False: there is none, or it is far slower.
 */
static bool leave_to_another_host(struct feed *f, uint32_t worker, uint32_t victim, uint64_t item)
{
    const struct feed_worker *w = &f->workers[worker];
    if (!f->seats.have_hosts || host_of(f, victim) != host_of(f, worker))
        return false;
    const struct victim *soonest = f->victims.soonest;
    soonest += soonest->worker != NONE && host_of(f, soonest->worker) == host_of(f, worker);
    if (soonest->worker == NONE)
        return false;
    const struct feed_worker *other = &f->workers[soonest->worker];
    bool is_busy = other->items.in_flight > 0;
    if (is_busy && other->time.last_send_ms >= f->victims.as_of_ms)
        return true; /* that worker was idle: the next look will show others */
    double most_ms = MAX(ELSEWHERE_TIMES * w->time.mean_ms, (double)REISSUE_MIN_MS);
    if (with_copy_ms(f, other, w->time.mean_ms) > most_ms + (double)w->round_trip_ms)
        return false;
    if (is_waiting(f, soonest->worker)) {
        copy_send(f, soonest->worker, victim, item);
        return true;
    }
    uint64_t idle_ms = f->now_ms - MIN(f->now_ms, w->time.last_progress_ms);
    return is_busy && (double)idle_ms < worth_ms(w) / 2;
}

static bool copy_take(struct feed *f, uint32_t worker)
{
    const struct feed_worker *w = &f->workers[worker];
    /* Without an event the idle worker looks again by itself, less often the longer it has waited. */
    look_at(f, worker,
            f->now_ms + MAX((f->now_ms - w->time.last_progress_ms) / 4, (uint64_t)LOOK_AGAIN_MS));
    if (f->pool.delayed_items > 0)
        return false;
    double least_ms = worth_ms(w);
    uint64_t holds_ms = MAX((uint64_t)(least_ms / 8), (uint64_t)VICTIMS_MIN_MS), item;
    bool may_differ = f->victims.len > 0 || f->victims.are_old;
    if (may_differ && f->now_ms >= f->victims.as_of_ms + holds_ms)
        victims_find(f, w->time.mean_ms);
    uint64_t again_ms = f->victims.as_of_ms + holds_ms;
    if (!victim_top(f, &item)) {
        if (f->victims.are_old)
            look_at(f, worker, again_ms);
        return false;
    }
    uint32_t victim = victim_choose(f, worker, &item);
    if (left_ms(f, &f->workers[victim], w->time.mean_ms) < least_ms) {
        look_at(f, worker, MAX(again_ms, f->victims.oldest_ms + (uint64_t)least_ms));
        return false;
    }
    if (leave_to_another_host(f, worker, victim, item)) {
        look_at(f, worker, again_ms);
        return false;
    }
    copy_send(f, worker, victim, item);
    return true;
}

bool reissue(struct feed *f, uint32_t worker)
{
    if (!may_reissue(f, &f->workers[worker]))
        return false;
    bool is_taken = copy_take(f, worker);
    if (!is_taken && f->seats.have_hosts) /* an idle worker of another host may leave it an item */
        soonest_note(f, worker, 0);
    return is_taken;
}
