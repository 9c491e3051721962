/* SPDX-License-Identifier: Apache-2.0
 *
 * Hands samples, losses and returns of the run's devices (shell/device_watch.h) to the ledger and the feeder.
 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/xalloc.h"
#include "map/session_impl.h"
#include "shell/hosts.h"

/* Items that are slower than this quantile may be cut short when their host's time ends. */
static const double SLOW_QUANTILE = 0.95;

static bool seat_uses(const struct seat *seat, size_t device)
{
    bool uses = false;
    for (size_t i = 0; i < seat->n_devices; i++)
        uses = uses || seat->devices[i] == device;
    return uses;
}

static void peaks_note(struct session *s, size_t device)
{
    for (uint32_t p = 0; p < s->n_seats; p++) {
        struct worker *worker = s->seats[p].worker;
        if (!worker || !seat_uses(&s->seats[p].seat, device))
            continue;
        uint64_t used_bytes = device_watch_memory(s->devices, p).used_bytes;
        worker->mem_peak_bytes = MAX(worker->mem_peak_bytes, used_bytes);
    }
}

static void on_sampled(void *context, const struct device_sample *sample)
{
    struct session *s = context;
    if (device_watch_row_is_due(s->devices, sample->device))
        ledger_sample(s->ledger, &(struct sample_row){.wall_ms = clock_wall_ms(),
                                                      .device = (uint32_t)sample->device,
                                                      .mem_used_bytes = sample->mem_used_bytes,
                                                      .busy_percent = sample->busy_percent,
                                                      .temperature_c = sample->temperature_c,
                                                      .power_w = sample->power_w});
    peaks_note(s, s->allocation.chosen[sample->device]);
}

static void on_lost(void *context, uint32_t chosen, bool is_awaited)
{
    session_event(
        context, (struct feed_event){.kind = EV_DEVICE_LOST, .worker = chosen, .flag = is_awaited});
}

static void on_back(void *context, uint32_t first)
{
    session_event(context, (struct feed_event){.kind = EV_DEVICE_BACK, .worker = first});
}

static void on_memory_back(void *context, uint32_t seat)
{
    session_event(context, (struct feed_event){.kind = EV_MEM_BACK, .worker = seat});
}

void session_seats_make(struct session *s)
{
    uint32_t n_seats = s->allocation.n_seats;
    s->seats = xrealloc(s->seats, (n_seats + 1) * sizeof(*s->seats));
    for (uint32_t p = s->n_seats; p < n_seats; p++)
        s->seats[p] = (struct seat_state){.seat = s->allocation.seats[p],
                                          .since_ms = shell_last_now(s->shell)};
    s->n_seats = n_seats;
    shell_files_allow(s->shell, n_seats);
}

static void on_came(void *context, uint32_t host)
{
    struct session *s = context;
    const struct allocation *a = &s->allocation;
    const struct allocation_host *of = &a->hosts[host];
    session_seats_make(s);
    for (uint32_t i = of->first_chosen; i < of->first_chosen + of->n_chosen; i++)
        session_event(s, (struct feed_event){
                             .kind = EV_DEVICE_UP, .worker = a->first_of[i], .count = of->node});
    for (uint32_t p = of->first_seat; p < of->first_seat + of->n_seats; p++)
        session_event(s, (struct feed_event){.kind = EV_SEAT_UP,
                                             .worker = a->device_of[p],
                                             .count = of->round_trip_ms});
    session_record(s, "join", UINT32_MAX, of->name);
}

static void on_given_back(void *context, uint32_t first, bool now)
{
    session_event(context, (struct feed_event){.kind = EV_SET_DRAIN, .worker = first, .flag = now});
}

static void on_awaited(void *context, bool are_awaited)
{
    session_event(context, (struct feed_event){.kind = EV_AWAIT, .flag = are_awaited});
}

uint64_t devices_finish_ms(void *context, uint32_t host)
{
    struct session *s = context;
    const struct allocation_host *of = &s->allocation.hosts[host];
    struct hist item_times = {0};
    double longest_ms = 0;
    for (uint32_t p = of->first_seat; p < of->first_seat + of->n_seats; p++) {
        const struct seat_state *seat = &s->seats[p];
        struct feed_worker_view view;
        feed_worker(s->feed, p, &view);
        longest_ms = MAX(longest_ms, view.mean_ms * view.in_flight);
        hist_merge(&item_times, &seat->item_times);
        if (seat->worker)
            hist_merge(&item_times, &seat->worker->busy.item_times);
    }
    uint64_t slow_us = hist_quantile_us(&item_times, SLOW_QUANTILE);
    return MAX((uint64_t)longest_ms, slow_us / 1000);
}

void devices_watch(struct session *s)
{
    static const struct device_handlers handlers = {.sampled = on_sampled,
                                                    .lost = on_lost,
                                                    .back = on_back,
                                                    .memory_back = on_memory_back,
                                                    .came = on_came,
                                                    .given_back = on_given_back,
                                                    .awaited = on_awaited};
    s->devices = device_watch_new(s->shell, &s->allocation, &handlers, s);
}

void device_set_benched(struct session *s, uint32_t first, const char *why)
{
    cleanup_buf struct buf name = BUF_INIT, lost = BUF_INIT;
    device_watch_name_set(s->devices, first, &name, &lost);
    bool is_away = device_watch_seat_is_away(s->devices, allocation_seat_of(&s->allocation, first));
    log_add(shell_log(s->shell), is_away ? LOG_INFO : LOG_WARN, "device",
            "%s gets no more work: %s%s", buf_text(&name), is_away ? "its host is gone" : why,
            is_away ? "" : buf_text(&lost));
    session_record(s, "bench", UINT32_MAX, buf_text(&name));
}

void device_set_returned(struct session *s, uint32_t first)
{
    cleanup_buf struct buf name = BUF_INIT, lost = BUF_INIT;
    device_watch_name_set(s->devices, first, &name, &lost);
    log_add(shell_log(s->shell), LOG_WARN, "device", "%s answers again and gets work again",
            buf_text(&name));
    session_record(s, "return", UINT32_MAX, buf_text(&name));
}

void device_set_vacated(struct session *s, uint32_t first)
{
    cleanup_buf struct buf name = BUF_INIT, lost = BUF_INIT;
    device_watch_name_set(s->devices, first, &name, &lost);
    log_add(shell_log(s->shell), LOG_INFO, "device", "%s was given back", buf_text(&name));
    session_record(s, "give-back", UINT32_MAX, buf_text(&name));
    if (shell_hosts(s->shell))
        hosts_vacated(shell_hosts(s->shell), first);
}
