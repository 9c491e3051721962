/* SPDX-License-Identifier: Apache-2.0
 *
 * Items and their slots: fresh ones, owners, commits, and the frontier that moves over what is done.
 */
#include "core/feed_impl.h"

struct slot *slot_of(struct feed *f, uint64_t item)
{
    return &f->slots[item & f->mask];
}

bool is_in_window(const struct feed *f, uint64_t item)
{
    return f->config.order ? item < f->known : item >= f->frontier && item < f->next;
}

uint64_t unsettled(const struct feed *f)
{
    return f->known - MIN(f->known, f->settled);
}

/* Let `next` pass what earlier sessions settled, as far as the window reaches. */
static void skip_done(struct feed *f)
{
    const struct item_interval *done = f->config.done;
    while (f->done_cursor < f->config.n_done && done[f->done_cursor].first <= f->next) {
        uint64_t end = done[f->done_cursor].first + done[f->done_cursor].count;
        if (f->frontier == f->next) {
            f->frontier = f->next = MAX(f->next, end);
        } else {
            uint64_t reach = MIN(end, f->frontier + f->spread);
            for (; f->next < reach; f->next++)
                slot_of(f, f->next)->state = SLOT_DONE;
            if (f->next < end)
                return;
        }
        f->done_cursor++;
    }
}

static struct sent_range ordered_take(struct feed *f)
{
    while (f->order_cursor < f->config.n_order) {
        uint64_t item = f->config.order[f->order_cursor++];
        if (slot_of(f, item)->state == SLOT_FREE)
            return (struct sent_range){item, 1};
    }
    return (struct sent_range){0, 0};
}

static uint64_t fresh_run(struct feed *f)
{
    skip_done(f);
    uint64_t end = MIN(f->known, f->frontier + f->spread);
    if (f->done_cursor < f->config.n_done)
        end = MIN(end, f->config.done[f->done_cursor].first);
    return end > f->next ? end - f->next : 0;
}

bool fresh_is_there(struct feed *f)
{
    if (!f->config.order)
        return fresh_run(f) > 0;
    while (f->order_cursor < f->config.n_order &&
           slot_of(f, f->config.order[f->order_cursor])->state != SLOT_FREE)
        f->order_cursor++;
    return f->order_cursor < f->config.n_order && f->input_is_final;
}

uint64_t batch_left(const struct feed *f, uint64_t item)
{
    return f->config.fixed_batches ? f->config.batch - item % f->config.batch : UINT64_MAX;
}

struct sent_range fresh_take(struct feed *f, uint64_t max)
{
    if (f->config.order)
        return fresh_is_there(f) ? ordered_take(f) : (struct sent_range){0, 0};
    uint64_t run = MIN(fresh_run(f), max);
    run = MIN(run, batch_left(f, f->next));
    struct sent_range range = {f->next, (uint32_t)MIN(run, UINT32_MAX)};
    f->next += range.count;
    return range;
}

uint64_t item_of(const struct feed *f, uint32_t slot)
{
    uint64_t first = f->config.order ? 0 : f->frontier;
    return first + ((slot - first) & f->mask);
}

/* ---- who has what ---- */

static void owned_link(struct feed *f, uint32_t worker, uint64_t item)
{
    struct worker *w = &f->workers[worker];
    uint32_t index = (uint32_t)(item & f->mask);
    struct slot *slot = &f->slots[index];
    slot->next = NONE;
    slot->prev = w->tail;
    if (w->tail == NONE)
        w->head = index;
    else
        f->slots[w->tail].next = index;
    w->tail = index;
}

static void owned_unlink(struct feed *f, struct worker *w, const struct slot *slot)
{
    if (slot->prev == NONE)
        w->head = slot->next;
    else
        f->slots[slot->prev].next = slot->next;
    if (slot->next == NONE)
        w->tail = slot->prev;
    else
        f->slots[slot->next].prev = slot->prev;
}

struct owned owned_begin(const struct feed *f, uint32_t worker)
{
    return (struct owned){.next = f->workers[worker].head, .copy_is_next = true};
}

uint64_t owned_next(const struct feed *f, uint32_t worker, struct owned *at)
{
    if (at->next != NONE) {
        uint64_t item = item_of(f, at->next);
        at->next = f->slots[at->next].next;
        return item;
    }
    bool is_copy = at->copy_is_next;
    at->copy_is_next = false;
    return is_copy ? f->workers[worker].copy : UINT64_MAX;
}

bool answers_in_order(const struct worker *w)
{
    return w->mode == MODE_FILTER || w->mode == MODE_UNKNOWN;
}

void items_sent(struct feed *f, uint32_t worker, struct sent_range range)
{
    struct worker *w = &f->workers[worker];
    f->sent_order++;
    for (uint32_t i = 0; i < range.count; i++) {
        struct slot *slot = slot_of(f, range.first + i);
        bool second = slot->state == SLOT_SENT;
        slot->owner[second] = (uint16_t)(worker + 1);
        slot->state = SLOT_SENT;
        if (second) {
            ASSERT(w->copy == UINT64_MAX);
            w->copy = range.first + i;
            continue;
        }
        slot->flags = 0;
        slot->sent_order = f->sent_order;
        owned_link(f, worker, range.first + i);
    }
    f->victims_are_old = true;
    w->in_flight += range.count;
    f->n_in_flight += range.count;
    hand_touch(f, w);
    if (!answers_in_order(w))
        return;
    struct sent_range *last = &w->fifo[(w->fifo_head + w->fifo_len + FIFO_CAP - 1) % FIFO_CAP];
    if (w->fifo_len > 0 && last->first + last->count == range.first) {
        last->count += range.count;
        return;
    }
    ASSERT(w->fifo_len < FIFO_CAP);
    w->fifo[(w->fifo_head + w->fifo_len++) % FIFO_CAP] = range;
}

static int owner_index(const struct slot *slot, uint32_t worker)
{
    if (slot->state != SLOT_SENT)
        return -1;
    if (slot->owner[0] == worker + 1)
        return 0;
    return slot->owner[1] == worker + 1 ? 1 : -1;
}

bool item_is_owned(struct feed *f, uint32_t worker, uint64_t item)
{
    return is_in_window(f, item) && owner_index(slot_of(f, item), worker) >= 0;
}

bool item_disown(struct feed *f, uint32_t worker, uint64_t item)
{
    struct slot *slot = slot_of(f, item);
    int mine = owner_index(slot, worker);
    if (mine < 0)
        return false;
    if (mine == 0) {
        owned_unlink(f, &f->workers[worker], slot);
        if (slot->owner[1] != 0) { /* the copy is all that is left */
            f->workers[slot->owner[1] - 1].copy = UINT64_MAX;
            owned_link(f, slot->owner[1] - 1u, item);
        }
        slot->owner[0] = slot->owner[1];
        slot->flags = (uint8_t)(slot->flags & ANSWERED_SECOND ? ANSWERED_FIRST : 0);
    } else {
        f->workers[worker].copy = UINT64_MAX;
        slot->flags &= ANSWERED_FIRST;
    }
    slot->owner[1] = 0;
    if (slot->owner[0] != 0) {
        f->victims_are_old = true; /* it may be copied once more */
        return false;
    }
    slot->state = SLOT_WAITING;
    return true;
}

/* The other copy of a committed item is work for nothing from now on. */
static void loser_mark(struct feed *f, const struct slot *slot, int winner)
{
    uint32_t other = slot->owner[!winner];
    if (other == 0)
        return;
    struct worker *w = &f->workers[other - 1];
    bool answered = slot->flags & (winner == 0 ? ANSWERED_SECOND : ANSWERED_FIRST);
    if (answered) {
        w->provisional--;
        f->n_provisional--;
    } else if (!answers_in_order(w)) {
        w->losers++;
        w->in_flight--;
        f->n_in_flight--;
        idle_push(f, other - 1); /* it has room, and may never say anything again */
    }
}

/* Nobody has it any more: for the one that still computes a copy it is work for nothing. */
static void owners_clear(struct feed *f, struct slot *slot, int mine)
{
    loser_mark(f, slot, mine);
    owned_unlink(f, &f->workers[slot->owner[0] - 1], slot);
    if (slot->owner[1] != 0)
        f->workers[slot->owner[1] - 1].copy = UINT64_MAX;
    slot->owner[0] = slot->owner[1] = 0;
    slot->flags = 0;
}

bool item_withdraw(struct feed *f, uint32_t worker, uint64_t item)
{
    struct slot *slot = slot_of(f, item);
    int mine = is_in_window(f, item) ? owner_index(slot, worker) : -1;
    if (mine < 0)
        return false;
    owners_clear(f, slot, mine);
    slot->state = SLOT_WAITING;
    return true;
}

bool item_win(struct feed *f, uint32_t worker, uint64_t item)
{
    if (!item_withdraw(f, worker, item))
        return false;
    slot_of(f, item)->state = SLOT_COMMITTING;
    f->n_committing++;
    return true;
}

static uint64_t backoff_ms(struct feed *f, uint32_t failures)
{
    uint64_t base = MIN((uint64_t)BACKOFF_MS << MIN(failures - 1, 16u), (uint64_t)BACKOFF_MAX_MS);
    return base * 3 / 4 + rng_below(&f->rng, base / 2 + 1);
}

void item_set_aside(struct feed *f, uint32_t worker, uint64_t item, enum feed_cause cause)
{
    struct slot *slot = slot_of(f, item);
    slot->state = SLOT_ASIDE;
    slot->owner[0] = slot->owner[1] = 0;
    f->asides++;
    f->n_committing++;
    emit(f, ACT_SET_ASIDE, worker, item, slot->failures, cause);
    uint64_t seen = f->committed + f->asides;
    uint64_t asides = f->asides + f->config.asides_before;
    if (f->config.failures_max > 0 && asides >= f->config.failures_max)
        halt(f, HALT_FAILURES);
    if (f->config.failures_percent > 0 && seen >= 100 &&
        f->asides * 100 > seen * f->config.failures_percent)
        halt(f, HALT_FAILURES);
}

/* Precondition: the slot is WAITING. */
void item_charge(struct feed *f, uint32_t worker, uint64_t item, enum feed_cause cause, bool retry)
{
    struct slot *slot = slot_of(f, item);
    uint32_t device = f->workers[worker].device;
    ASSERT(slot->state == SLOT_WAITING);
    slot->failures = (uint8_t)MIN(slot->failures + 1, UINT8_MAX);
    if (!retry || slot->failures > f->config.retries) {
        item_set_aside(f, worker, item, cause);
        return;
    }
    f->n_retries++;
    uint64_t at_ms = f->now_ms + backoff_ms(f, slot->failures);
    struct sent_range alone = {item, 1};
    if (cause == CAUSE_CRASH || cause == CAUSE_OOM || cause == CAUSE_TIMEOUT)
        suspects_add(f, &alone, 1, device, at_ms);
    else
        pool_add(f, alone, at_ms, device);
}

static void frontier_advance(struct feed *f)
{
    while (f->frontier < f->next) {
        struct slot *slot = slot_of(f, f->frontier);
        if (slot->state != SLOT_DONE)
            return;
        *slot = (struct slot){0};
        f->frontier++;
    }
}

void items_committed(struct feed *f, uint64_t first, uint64_t count)
{
    for (uint64_t item = first; item < first + count; item++) {
        struct slot *slot = slot_of(f, item);
        ASSERT(is_in_window(f, item));
        ASSERT(slot->state == SLOT_COMMITTING || slot->state == SLOT_ASIDE);
        if (slot->state == SLOT_COMMITTING)
            f->committed++;
        slot->state = SLOT_DONE;
    }
    f->settled += count;
    f->n_committing -= count;
    if (!f->config.order)
        frontier_advance(f);
}

bool is_provisional(struct feed *f, uint32_t worker, uint64_t item)
{
    const struct slot *slot = slot_of(f, item);
    int mine = owner_index(slot, worker);
    return mine >= 0 && slot->flags & (mine == 0 ? ANSWERED_FIRST : ANSWERED_SECOND);
}

static void commit_emit(struct feed *f, uint32_t worker, struct sent_range run)
{
    if (run.count > 0)
        emit(f, ACT_COMMIT, worker, run.first, run.count, 0);
}

void provisional_confirm(struct feed *f, uint32_t worker)
{
    struct worker *w = &f->workers[worker];
    struct owned at = owned_begin(f, worker);
    struct sent_range run = {0, 0};
    uint64_t item;
    while (w->provisional > 0 && (item = owned_next(f, worker, &at)) != UINT64_MAX) {
        if (!is_provisional(f, worker, item))
            continue;
        item_win(f, worker, item);
        w->provisional--;
        f->n_provisional--;
        if (run.count == 0 || run.first + run.count != item) {
            commit_emit(f, worker, run);
            run = (struct sent_range){item, 0};
        }
        run.count++;
    }
    commit_emit(f, worker, run);
    ASSERT(w->provisional == 0);
}

void provisional_doubt(struct feed *f, uint32_t worker)
{
    struct worker *w = &f->workers[worker];
    struct owned at = owned_begin(f, worker);
    for (uint64_t item; (item = owned_next(f, worker, &at)) != UINT64_MAX;) {
        struct slot *slot = slot_of(f, item);
        if (is_provisional(f, worker, item))
            slot->flags &= slot->owner[0] == worker + 1 ? ANSWERED_SECOND : ANSWERED_FIRST;
    }
    w->in_flight += w->provisional;
    f->n_in_flight += w->provisional;
    f->n_revoked += w->provisional;
    f->n_provisional -= w->provisional;
    w->provisional = 0;
    emit(f, ACT_REVOKE, worker, 0, 0, 0);
}

void owned_return(struct feed *f, uint32_t worker, bool provisional_only)
{
    struct owned at = owned_begin(f, worker);
    struct sent_range run = {0, 0};
    for (uint64_t item; (item = owned_next(f, worker, &at)) != UINT64_MAX;) {
        if (provisional_only && !is_provisional(f, worker, item))
            continue;
        if (!item_disown(f, worker, item))
            continue;
        if (run.count > 0 && run.first + run.count != item) {
            pool_add(f, run, f->now_ms, NONE);
            run.count = 0;
        }
        if (run.count++ == 0)
            run.first = item;
    }
    if (run.count > 0)
        pool_add(f, run, f->now_ms, NONE);
}

void provisional_revoke(struct feed *f, uint32_t worker)
{
    struct worker *w = &f->workers[worker];
    if (w->provisional == 0)
        return;
    owned_return(f, worker, true);
    f->n_revoked += w->provisional;
    f->n_provisional -= w->provisional;
    w->provisional = 0;
    emit(f, ACT_REVOKE, worker, 0, 0, 0);
}
