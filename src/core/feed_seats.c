/* SPDX-License-Identifier: Apache-2.0
 *
 * Seats and sets of devices that come and go while the run lasts.
 *
 * A set that is given back is neither benched nor lost: nothing was wrong with it. Its workers get the end of their
 * input, as at the end of the data, so nothing of theirs is lost and nothing is charged.
 */
#include "core/feed_impl.h"

/* ---- coming ---- */

static void device_init(struct feed *f, uint32_t device, uint32_t first, uint32_t host)
{
    ASSERT(first < f->config.n_devices_max);
    f->devices[device] = (struct feed_device){
        .first = first, .host = host, .first_worker = NONE, .return_at_ms = UINT64_MAX};
    f->seats.have_hosts |= host != f->devices[0].host;
    f->seats.n_sets += first == device;
    f->seats.n_sets_alive += first == device;
}

/* Links the seat behind the other seats of its set, so that they are visited in the order of their numbers. */
static void seat_link(struct feed *f, uint32_t worker)
{
    uint32_t *at = &f->devices[f->workers[worker].device].first_worker;
    while (*at != NONE)
        at = &f->workers[*at].next_on_device;
    *at = worker;
    f->workers[worker].next_on_device = NONE;
}

static void seat_init(struct feed *f, uint32_t worker, uint32_t device, uint64_t round_trip_ms)
{
    struct feed_worker *w = &f->workers[worker];
    ASSERT(f->devices[device].first == device && !f->devices[device].is_drained);
    w->device = device;
    w->items.fifo = f->fifos + (size_t)worker * FIFO_CAP;
    w->group = w->items.head = w->items.tail = NONE;
    w->blame = w->items.copy = w->look.at_ms = UINT64_MAX;
    w->buffering.seat_since_ms = w->buffering.refill_ms = w->buffering.shortest_ms = UINT64_MAX;
    w->window = 1;
    w->round_trip_ms = round_trip_ms;
    seat_link(f, worker);
    f->seats.n_absent++;
}

void seats_init(struct feed *f)
{
    const struct feed_config *config = &f->config;
    for (uint32_t d = 0; d < config->n_devices; d++)
        device_init(f, d, config->first_of ? config->first_of[d] : d,
                    config->host_of ? config->host_of[d] : 0);
    for (uint32_t i = 0; i < config->n_workers; i++)
        seat_init(f, i, config->device_of ? config->device_of[i] : i,
                  config->round_trip_ms ? config->round_trip_ms[i] : 0);
}

void device_up(struct feed *f, uint32_t first, uint32_t host)
{
    ASSERT(f->config.n_devices < f->config.n_devices_max);
    device_init(f, f->config.n_devices++, first, host);
}

void seat_up(struct feed *f, uint32_t device, uint64_t round_trip_ms)
{
    ASSERT(f->config.n_workers < f->config.n_workers_max);
    uint32_t worker = f->config.n_workers++;
    seat_init(f, worker, device, round_trip_ms);
    if (f->devices[device].is_benched) /* lost before its seats were known */
        feed_worker_state_set(f, &f->workers[worker], WORKER_BENCHED);
}

/* ---- going ---- */

static bool set_has_workers(const struct feed *f, const struct feed_device *d)
{
    bool has = false;
    for (uint32_t i = d->first_worker; i != NONE; i = f->workers[i].next_on_device)
        has = has || feed_worker_is_running(&f->workers[i]);
    return has;
}

static void seat_drain(struct feed *f, uint32_t worker, bool now)
{
    struct feed_worker *w = &f->workers[worker];
    if (!feed_worker_is_running(w))
        feed_worker_state_set(f, w, WORKER_GONE);
    else if (now)
        feed_worker_terminate(f, worker, CAUSE_STOP);
    else
        feed_worker_end(f, worker);
}

void set_drain(struct feed *f, uint32_t device, bool now)
{
    struct feed_device *d = &f->devices[device];
    bool is_news = !d->is_drained;
    if (is_news) {
        d->is_drained = true;
        f->seats.n_sets--;
        f->seats.n_sets_alive -= !d->is_benched;
        f->seats.n_draining++;
        d->is_benched = d->is_lost = d->is_awaited = false;
        d->return_at_ms = UINT64_MAX;
    }
    for (uint32_t i = d->first_worker; i != NONE; i = f->workers[i].next_on_device)
        seat_drain(f, i, now);
    f->cooling.look_ms = f->now_ms; /* take the set's seats out of the cooling list */
    if (is_news)
        set_vacate(f, device);
}

void set_vacate(struct feed *f, uint32_t device)
{
    struct feed_device *d = &f->devices[device];
    if (set_has_workers(f, d))
        return;
    f->seats.n_draining--;
    emit(f, ACT_VACATED, device, 0, 0, 0);
    no_devices_check(f);
}
