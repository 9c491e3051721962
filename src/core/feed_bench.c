/* SPDX-License-Identifier: Apache-2.0
 *
 * Sets of devices that get no more workers (benched), and lost sets that are used again.
 *
 * A lost device may come back: a node was restarted, a driver answers again, or a worker's last output blamed a
 * device that was never lost. A set that is well again is used after a pause, which doubles with each return, and at
 * most RETURNS_MAX times, because each loss costs the workers their items. A set that was lost with its host is used
 * as soon as the host is back: the shell makes pauses between its tries to reach the host.
 */
#include "core/feed_impl.h"

enum {
    RETURN_AFTER_MS = 10000, /* before the first return */
    RETURNS_MAX = 3
};

static bool any_is_awaited(const struct feed *f)
{
    bool any = false;
    for (uint32_t d = 0; d < f->config.n_devices; d++)
        any = any || f->devices[d].is_awaited;
    return any;
}

void no_devices_check(struct feed *f)
{
    bool any_is_left = f->seats.n_sets_alive > 0 || f->seats.n_draining > 0;
    bool may_come = f->seats.are_awaited || any_is_awaited(f);
    if (!any_is_left && !may_come && !f->end.is_complete)
        halt(f, f->seats.n_sets > 0 ? HALT_NO_DEVICES : HALT_DRAINED);
}

void device_bench(struct feed *f, uint32_t device, enum feed_cause cause)
{
    struct feed_device *d = &f->devices[device];
    if (d->is_benched)
        return;
    d->is_benched = true;
    f->seats.n_sets_alive--;
    emit(f, ACT_BENCH, device, 0, 0, cause);
    for (uint32_t i = d->first_worker; i != NONE; i = f->workers[i].next_on_device) {
        struct feed_worker *w = &f->workers[i];
        if (feed_worker_is_running(w)) {
            feed_worker_terminate(f, i, CAUSE_LOST);
        } else {
            w->memory_is_back |= w->state == WORKER_ABSENT;
            feed_worker_state_set(f, w, WORKER_BENCHED);
        }
    }
    f->cooling.look_ms = f->now_ms; /* take the set's workers out of the cooling list */
    no_devices_check(f);
}

/* The death of a worker of a set that is already benched tells nothing new. */
void device_lost(struct feed *f, uint32_t device, uint64_t seen_since_ms)
{
    struct feed_device *d = &f->devices[device];
    if (d->is_benched || d->is_drained || seen_since_ms < d->returned_ms)
        return;
    d->is_lost = true;
    device_bench(f, device, CAUSE_LOST);
}

void device_back(struct feed *f, uint32_t device)
{
    struct feed_device *d = &f->devices[device];
    bool has_returned_often = d->n_returns >= RETURNS_MAX && !d->is_awaited;
    if (!d->is_lost || has_returned_often || d->return_at_ms != UINT64_MAX)
        return;
    uint64_t pause_ms = d->is_awaited ? 0 : (uint64_t)RETURN_AFTER_MS << d->n_returns;
    d->return_at_ms = f->now_ms + pause_ms;
    f->seats.return_ms = MIN(f->seats.return_ms, d->return_at_ms);
}

static void set_return(struct feed *f, uint32_t device)
{
    struct feed_device *d = &f->devices[device];
    d->n_returns += !d->is_awaited;
    d->is_benched = d->is_lost = d->is_hopeless = d->is_awaited = false;
    d->start_failures = 0;
    d->returned_ms = f->now_ms;
    d->return_at_ms = UINT64_MAX;
    f->seats.n_sets_alive++;
    emit(f, ACT_RETURN, device, 0, 0, 0);
    for (uint32_t i = d->first_worker; i != NONE; i = f->workers[i].next_on_device) {
        struct feed_worker *w = &f->workers[i];
        if (w->state != WORKER_BENCHED) /* its process is still ending */
            continue;
        feed_worker_state_set(f, w, WORKER_COOLING);
        cooling_add(f, i);
    }
    f->cooling.look_ms = f->now_ms;
}

void returns_check(struct feed *f)
{
    if (f->seats.return_ms <= f->now_ms) {
        f->seats.return_ms = UINT64_MAX;
        for (uint32_t d = 0; d < f->config.n_devices; d++)
            if (f->devices[d].return_at_ms <= f->now_ms)
                set_return(f, d);
            else
                f->seats.return_ms = MIN(f->seats.return_ms, f->devices[d].return_at_ms);
    }
    if (f->seats.return_ms != UINT64_MAX)
        wake_at(f, f->seats.return_ms);
}
