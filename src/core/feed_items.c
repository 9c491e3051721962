/* SPDX-License-Identifier: Apache-2.0
 *
 * The states of items: fresh ones, owners, answers, commits. feed_window.c stores them.
 */
#include "core/feed_impl.h"

enum {
    RATE_LEAST = 100 /* items that must be tried before a share is judged */
};

bool is_in_window(const struct feed *f, uint64_t item)
{
    return f->config.order ? item < f->window.known
                           : item >= f->window.frontier && item < f->window.next;
}

uint64_t unsettled(const struct feed *f)
{
    return f->window.known - MIN(f->window.known, f->counts.settled);
}

/* Moves `next` over items that earlier sessions settled, as far as the window reaches. */
static void skip_done(struct feed *f)
{
    const struct item_interval *done = f->config.done;
    while (f->window.done_cursor < f->config.n_done &&
           done[f->window.done_cursor].first <= f->window.next) {
        uint64_t end = done[f->window.done_cursor].first + done[f->window.done_cursor].count;
        if (f->window.frontier == f->window.next) {
            frontier_jump(f, MAX(f->window.next, end));
        } else {
            uint64_t reach = MIN(end, window_end(f));
            items_skip(f, f->window.next, reach);
            f->window.next = MAX(f->window.next, reach);
            if (f->window.next < end)
                return;
        }
        f->window.done_cursor++;
    }
}

static struct sent_range ordered_take(struct feed *f)
{
    while (f->window.order_cursor < f->config.n_order) {
        uint64_t item = f->config.order[f->window.order_cursor++];
        if (slot_peek(f, item).state == SLOT_FREE)
            return (struct sent_range){item, 1};
    }
    return (struct sent_range){0, 0};
}

static uint64_t fresh_run(struct feed *f)
{
    skip_done(f);
    uint64_t end = MIN(f->window.known, window_end(f));
    if (f->window.done_cursor < f->config.n_done)
        end = MIN(end, f->config.done[f->window.done_cursor].first);
    return end > f->window.next ? end - f->window.next : 0;
}

bool fresh_is_there(struct feed *f)
{
    if (!f->config.order)
        return fresh_run(f) > 0;
    while (f->window.order_cursor < f->config.n_order &&
           slot_peek(f, f->config.order[f->window.order_cursor]).state != SLOT_FREE)
        f->window.order_cursor++;
    return f->window.order_cursor < f->config.n_order && f->window.input_is_final;
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
    run = MIN(run, batch_left(f, f->window.next));
    struct sent_range range = {f->window.next, (uint32_t)MIN(run, UINT32_MAX)};
    f->window.next += range.count;
    return range;
}

/* ---- who has what ---- */

bool answers_in_order(const struct feed_worker *w)
{
    return w->mode == MODE_FILTER || w->mode == MODE_UNKNOWN;
}

static void item_sent(struct feed *f, uint32_t worker, uint64_t item)
{
    struct slot *slot = slot_of(f, item);
    bool second = slot->state == SLOT_SENT;
    slot->owner[second] = (uint16_t)(worker + 1);
    slot->state = SLOT_SENT;
    if (second) {
        ASSERT(f->workers[worker].items.copy == UINT64_MAX);
        f->workers[worker].items.copy = item;
        return;
    }
    slot->flags &= LASTING;
    slot->copy_failed = 0;
    slot->sent_order = f->window.sent_order;
    owned_link(f, worker, item);
}

/* Adds a range to the fifo; one that continues the last range extends it. */
static void fifo_add(struct feed_worker *w, struct sent_range range)
{
    struct sent_range *last =
        &w->items.fifo[(w->items.fifo_head + w->items.fifo_len + FIFO_CAP - 1) % FIFO_CAP];
    if (w->items.fifo_len > 0 && last->first + last->count == range.first) {
        last->count += range.count;
        return;
    }
    ASSERT(w->items.fifo_len < FIFO_CAP);
    w->items.fifo[(w->items.fifo_head + w->items.fifo_len++) % FIFO_CAP] = range;
}

void items_sent(struct feed *f, uint32_t worker, struct sent_range range)
{
    struct feed_worker *w = &f->workers[worker];
    struct sent_range left = range;
    f->window.sent_order++;
    for (uint32_t step; left.count > 0; left.first += step, left.count -= step) {
        step = block_send(f, worker, left);
        if (step > 0)
            continue;
        item_sent(f, worker, left.first);
        step = 1;
    }
    f->victims.are_old = true;
    w->items.in_flight += range.count;
    f->counts.in_flight += range.count;
    hand_touch(f, w);
    if (answers_in_order(w))
        fifo_add(w, range);
}

int owner_index(const struct slot *slot, uint32_t worker)
{
    if (slot->state != SLOT_SENT)
        return -1;
    if (slot->owner[0] == worker + 1)
        return 0;
    return slot->owner[1] == worker + 1 ? 1 : -1;
}

bool item_is_owned(struct feed *f, uint32_t worker, uint64_t item)
{
    struct slot slot = slot_peek(f, item);
    return is_in_window(f, item) && owner_index(&slot, worker) >= 0;
}

bool item_disown(struct feed *f, uint32_t worker, uint64_t item)
{
    struct slot *slot = slot_of(f, item);
    int mine = owner_index(slot, worker);
    if (mine < 0)
        return false;
    if (mine == 0) {
        owned_unlink(f, worker, item);
        if (slot->owner[1] != 0) { /* only the copy is left */
            f->workers[slot->owner[1] - 1].items.copy = UINT64_MAX;
            owned_link(f, slot->owner[1] - 1u, item);
        }
        slot->owner[0] = slot->owner[1];
        slot->flags = (uint8_t)((slot->flags & ANSWERED_SECOND ? ANSWERED_FIRST : 0) |
                                (slot->flags & LASTING));
    } else {
        f->workers[worker].items.copy = UINT64_MAX;
        slot->flags &= ANSWERED_FIRST | LASTING;
    }
    slot->owner[1] = 0;
    if (slot->owner[0] != 0) {
        f->victims.are_old = true; /* the item may be copied once more */
        return false;
    }
    slot->state = SLOT_WAITING;
    return true;
}

/* The other copy of a committed item is useless from now on. */
static void loser_mark(struct feed *f, const struct slot *slot, int winner)
{
    uint32_t other = slot->owner[!winner];
    if (other == 0)
        return;
    struct feed_worker *w = &f->workers[other - 1];
    bool answered = slot->flags & (winner == 0 ? ANSWERED_SECOND : ANSWERED_FIRST);
    if (answered) {
        w->items.provisional--;
        f->counts.provisional--;
    } else if (!answers_in_order(w)) {
        w->items.losers++;
        w->items.in_flight--;
        f->counts.in_flight--;
        idle_push(f, other - 1); /* it has room, and may send no event any more */
    }
}

/* Removes all owners of the item; a copy that is still computed is useless. */
static void owners_clear(struct feed *f, uint64_t item, int mine)
{
    struct slot *slot = slot_of(f, item);
    loser_mark(f, slot, mine);
    owned_unlink(f, slot->owner[0] - 1u, item);
    if (slot->owner[1] != 0)
        f->workers[slot->owner[1] - 1].items.copy = UINT64_MAX;
    slot->owner[0] = slot->owner[1] = 0;
    slot->flags = 0;
}

bool item_withdraw(struct feed *f, uint32_t worker, uint64_t item)
{
    struct slot slot = slot_peek(f, item);
    int mine = is_in_window(f, item) ? owner_index(&slot, worker) : -1;
    if (mine < 0)
        return false;
    owners_clear(f, item, mine);
    slot_of(f, item)->state = SLOT_WAITING;
    return true;
}

bool item_win(struct feed *f, uint32_t worker, uint64_t item)
{
    if (!item_withdraw(f, worker, item))
        return false;
    slot_of(f, item)->state = SLOT_COMMITTING;
    f->counts.committing++;
    return true;
}

static uint64_t backoff_ms(struct feed *f, uint32_t failures)
{
    uint64_t base = MIN((uint64_t)BACKOFF_MS << MIN(failures - 1, 16u), (uint64_t)BACKOFF_MAX_MS);
    return base * 3 / 4 + rng_below(&f->rng, base / 2 + 1);
}

/*
 * Is the share of failed items too high? Of all items, once their number is known, since the share can only grow; and
 * of the items tried so far, if they are enough to tell a rate.
 */
static bool is_share_exceeded(const struct feed *f)
{
    uint64_t percent = f->config.failures_percent;
    uint64_t here = f->counts.failed_items, all = here + f->config.failed_before;
    uint64_t seen = f->counts.committed + here;
    bool is_of_all = f->window.input_is_final && all * 100 > f->window.known * percent;
    return percent > 0 && (is_of_all || (seen >= RATE_LEAST && here * 100 > seen * percent));
}

void failures_judge(struct feed *f)
{
    uint64_t failed_items = f->counts.failed_items + f->config.failed_before;
    bool is_over = f->config.failures_max > 0 && failed_items >= f->config.failures_max;
    if (is_over || is_share_exceeded(f))
        halt(f, HALT_FAILURES);
}

void item_set_aside(struct feed *f, uint32_t worker, uint64_t item, enum feed_cause cause)
{
    struct slot *slot = slot_of(f, item);
    slot->state = SLOT_ASIDE;
    slot->owner[0] = slot->owner[1] = 0;
    f->counts.failed_items++;
    f->counts.committing++;
    emit(f, ACT_SET_ASIDE, worker, item, slot->failures, cause);
    failures_judge(f);
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
    f->counts.retries++;
    uint64_t at_ms = f->now_ms + backoff_ms(f, slot->failures);
    struct sent_range alone = {item, 1};
    if (cause == CAUSE_CRASH || cause == CAUSE_OOM || cause == CAUSE_TIMEOUT ||
        cause == CAUSE_PROTOCOL)
        suspects_add(f, &alone, 1, device, at_ms);
    else
        pool_add(f, alone, at_ms, device);
}

void item_copy_failed(struct feed *f, uint64_t item, bool retry)
{
    struct slot *slot = slot_of(f, item);
    uint32_t failures = retry ? slot->failures + 1u : f->config.retries;
    slot->failures = (uint8_t)MIN(failures, f->config.retries); /* the other copy decides */
    slot->copy_failed = true;
}

static void item_done(struct feed *f, uint64_t item)
{
    struct slot *slot = slot_of(f, item);
    ASSERT(slot->state == SLOT_COMMITTING || slot->state == SLOT_ASIDE);
    if (slot->state == SLOT_COMMITTING)
        f->counts.committed++;
    slot->state = SLOT_DONE;
}

void items_committed(struct feed *f, uint64_t first, uint64_t count)
{
    for (uint64_t item = first, end = first + count, step; item < end; item += step) {
        ASSERT(is_in_window(f, item));
        step = block_done(f, (struct sent_range){item, (uint32_t)MIN(end - item, UINT32_MAX)});
        f->counts.committed += step;
        if (step > 0)
            continue;
        item_done(f, item);
        step = 1;
    }
    f->counts.settled += count;
    f->counts.committing -= count;
    if (!f->config.order)
        frontier_advance(f);
}

bool is_provisional(struct feed *f, uint32_t worker, uint64_t item)
{
    struct slot slot = slot_peek(f, item);
    int mine = owner_index(&slot, worker);
    return mine >= 0 && slot.flags & (mine == 0 ? ANSWERED_FIRST : ANSWERED_SECOND);
}

/* Collects adjacent items, to commit them by one action; an empty range commits the last ones. */
static void commit_add(struct feed *f, uint32_t worker, struct sent_range *run,
                       struct sent_range more)
{
    if (run->count > 0 && more.count > 0 && run->first + run->count == more.first) {
        run->count += more.count;
        return;
    }
    if (run->count > 0)
        emit(f, ACT_COMMIT, worker, run->first, run->count, 0);
    *run = more;
}

/* Confirms the answer to one item, or to a block. Returns how many items that are. */
static uint32_t provisional_win(struct feed *f, uint32_t worker, struct sent_range items)
{
    uint32_t won = block_win(f, worker, items);
    f->counts.committing += won;
    if (won == 0) {
        ASSERT(is_provisional(f, worker, items.first));
        bool is_won = item_win(f, worker, items.first);
        ASSERT(is_won);
        won = 1;
    }
    f->workers[worker].items.provisional -= won;
    f->counts.provisional -= won;
    return won;
}

void provisional_confirm(struct feed *f, uint32_t worker)
{
    struct feed_worker *w = &f->workers[worker];
    struct owned at = owned_begin(f, worker);
    struct sent_range run = {0, 0}, items;
    while ((items = owned_run(f, worker, &at)).count > 0) {
        for (uint32_t won; items.count > 0; items.first += won, items.count -= won) {
            won = provisional_win(f, worker, items);
            commit_add(f, worker, &run, (struct sent_range){items.first, won});
        }
    }
    commit_add(f, worker, &run, (struct sent_range){0, 0});
    ASSERT(w->items.provisional == 0);
}

void provisional_doubt(struct feed *f, uint32_t worker)
{
    struct feed_worker *w = &f->workers[worker];
    struct owned at = owned_begin(f, worker);
    for (uint64_t item; (item = owned_next(f, worker, &at)) != UINT64_MAX;) {
        struct slot *slot = slot_of(f, item);
        if (is_provisional(f, worker, item))
            slot->flags &=
                (uint8_t) ~(slot->owner[0] == worker + 1 ? ANSWERED_FIRST : ANSWERED_SECOND);
    }
    w->items.in_flight += w->items.provisional;
    f->counts.in_flight += w->items.provisional;
    f->counts.revoked += w->items.provisional;
    f->counts.provisional -= w->items.provisional;
    w->items.provisional = 0;
    emit(f, ACT_REVOKE, worker, 0, 0, 0);
}

/* Suspects stay suspects: mixed with other items, they would make these suspects too. */
static void run_return(struct feed *f, uint32_t worker, struct sent_range run)
{
    if (f->workers[worker].group != NONE)
        suspects_put_back(f, worker, run);
    else
        pool_add(f, run, f->now_ms, NONE);
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
            run_return(f, worker, run);
            run.count = 0;
        }
        if (run.count++ == 0)
            run.first = item;
    }
    if (run.count > 0)
        run_return(f, worker, run);
}

void provisional_revoke(struct feed *f, uint32_t worker)
{
    struct feed_worker *w = &f->workers[worker];
    if (w->items.provisional == 0)
        return;
    owned_return(f, worker, true);
    f->counts.revoked += w->items.provisional;
    f->counts.provisional -= w->items.provisional;
    w->items.provisional = 0;
    emit(f, ACT_REVOKE, worker, 0, 0, 0);
}
