/* SPDX-License-Identifier: Apache-2.0
 *
 * Unfit items: their records are malformed, or lack a field that they must have. No worker gets them, none is to
 * blame, and a retry would end the same way.
 */
#include "core/feed_impl.h"

enum {
    UNFIT_MAX = 1000
};

/* True if many records are unfit and there is no result: probably this is the wrong input. */
static bool nothing_fits(const struct feed *f)
{
    uint64_t seen = f->counts.settled - f->counts.done_before + f->counts.committing +
                    f->counts.in_flight + f->counts.provisional;
    return f->counts.unfit >= UNFIT_MAX && f->counts.unfit * 10 >= seen * 9 &&
           f->counts.results == 0 && f->counts.done_before == f->config.failed_before;
}

/*
 * A filter's answers are matched by their order, so an unfit item keeps its place in the filter's fifo until
 * everything before it is answered (feed_worker_passed). A worker that names its items simply has one item less.
 * If there are two copies, both are settled by the first: the other may not have been written yet, and an idle
 * worker would take a copy of it again and again.
 */
void feed_worker_unfit(struct feed *f, uint32_t worker, uint64_t item)
{
    struct feed_worker *w = &f->workers[worker];
    bool mine = item_withdraw(f, worker, item); /* false: its other copy was found unfit first */
    bool was_loser = !mine && w->items.losers > 0;
    if (!mine && !was_loser)
        return; /* the item was taken back meanwhile, and will be found unfit again */
    if (!answers_in_order(w)) {
        w->items.in_flight -= mine;
        f->counts.in_flight -= mine;
        w->items.losers -= was_loser;
        w->credits++;
        w->room++;
        hand_touch(f, w);
    }
    if (mine) {
        f->counts.unfit++;
        item_set_aside(f, worker, item, CAUSE_UNFIT);
    }
    if (nothing_fits(f))
        halt(f, HALT_UNFIT);
    batch_settle(f, worker);
    feed_worker_dispatch(f, worker);
}

void feed_worker_passed(struct feed *f, uint32_t worker, uint64_t count)
{
    struct feed_worker *w = &f->workers[worker];
    if (!answers_in_order(w) || count > w->items.in_flight)
        return;
    w->items.in_flight -= (uint32_t)count;
    f->counts.in_flight -= count;
    w->room += count;
    hand_touch(f, w);
    while (count > 0) {
        struct sent_range passed = fifo_take(w, count);
        /* If an item that the worker still has were passed over, no worker would do it, and the run would not end. */
        for (uint32_t i = 0; i < passed.count; i++)
            ASSERT(!item_is_owned(f, worker, passed.first + i));
        count -= passed.count;
    }
    if (w->drain.is_on)
        feed_worker_settle(f, worker);
    feed_worker_dispatch(f, worker);
}
