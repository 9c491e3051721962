/* SPDX-License-Identifier: Apache-2.0
 *
 * Items whose records are none: malformed ones, or such as lack what must be in them. Nobody is to
 * blame, no worker gets to see them, and no other try would end otherwise.
 */
#include "core/feed_impl.h"

enum {
    UNFIT_MAX = 1000
};

/* So many of what was looked at, and not one result: this is not the data that was meant. */
static bool nothing_fits(const struct feed *f)
{
    uint64_t seen = f->counts.settled - f->counts.done_before + f->counts.committing +
                    f->counts.in_flight + f->counts.provisional;
    return f->counts.unfit >= UNFIT_MAX && f->counts.unfit * 10 >= seen * 9 &&
           f->counts.results == 0 && f->counts.done_before == f->config.failed_before;
}

/*
 * A filter's answers are matched by their order, so an unfit item keeps its place among what it was
 * sent until all before it is answered (feed_worker_passed). A worker that names its items just has one
 * less. Where there are two copies, both are settled by the first: the other may not have been written
 * yet, and an idle worker would take a copy of it again and again.
 */
void feed_worker_unfit(struct feed *f, uint32_t worker, uint64_t item)
{
    struct feed_worker *w = &f->workers[worker];
    bool mine = item_withdraw(f, worker, item); /* else its other copy was found unfit first */
    bool was_loser = !mine && w->items.losers > 0;
    if (!mine && !was_loser)
        return; /* taken back in the meantime: it will be found unfit again */
    if (!answers_in_order(w)) {
        w->items.in_flight -= mine;
        f->counts.in_flight -= mine;
        w->items.losers -= was_loser;
        w->credits++;
        w->room++;
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
    while (count > 0) {
        struct sent_range passed = fifo_take(w, count);
        /* Passing over an item that it still has would leave that to nobody, and the run without an end. */
        for (uint32_t i = 0; i < passed.count; i++)
            ASSERT(!item_is_owned(f, worker, passed.first + i));
        count -= passed.count;
    }
    if (w->drain.is_on)
        feed_worker_settle(f, worker);
    feed_worker_dispatch(f, worker);
}
