/* SPDX-License-Identifier: Apache-2.0
 *
 * The run's devices while it lasts: samples, those that are lost, and memory that dead workers held.
 */
#include "map/watch.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "map/session.h"
#include "proc/guard.h"

enum {
    SAMPLE_EVERY_MS = 1000
};

void watched_begin(struct session *s)
{
    s->watched = xcalloc(s->allocation.devices.len, sizeof(*s->watched));
    s->memory = memory_new(s->n_seats, (uint32_t)s->allocation.devices.len);
    ASSERT(s->memory);
    for (uint32_t p = 0; p < s->n_seats; p++)
        for (size_t i = 0; i < s->seats[p].seat.n_devices; i++)
            memory_seat_uses(s->memory, p, (uint32_t)s->seats[p].seat.devices[i]);
}

static bool seat_uses(const struct seat *seat, size_t d)
{
    bool uses = false;
    for (size_t i = 0; i < seat->n_devices; i++)
        uses = uses || seat->devices[i] == d;
    return uses;
}

bool seat_has_lost_device(const struct session *s, const struct seat *seat)
{
    bool is_lost = false;
    for (size_t i = 0; i < seat->n_devices; i++)
        is_lost = is_lost || s->watched[seat->devices[i]].is_lost;
    return is_lost;
}

struct seat_memory seat_memory(const struct session *s, const struct seat *seat)
{
    struct seat_memory sum = {0};
    for (size_t i = 0; i < seat->n_devices; i++) {
        const struct device_sample *sample = &s->watched[seat->devices[i]].sample;
        sum.used_bytes += sample->mem_used_bytes;
        sum.total_bytes += sample->mem_total_bytes;
    }
    return sum;
}

/* Those of a set that are lost: " (gpu 4)". */
static void lost_add(const struct session *s, const struct seat *seat, struct buf *out)
{
    const char *before = " (";
    for (size_t i = 0; i < seat->n_devices; i++) {
        char label[24];
        if (!s->watched[seat->devices[i]].is_lost)
            continue;
        device_label(&s->allocation.devices.at[seat->devices[i]], label);
        buf_addf(out, "%s%s", before, label);
        before = ", ";
    }
    buf_add_text(out, before[0] == ',' ? ")" : "");
}

void bench_log(struct session *s, uint32_t first, const char *why)
{
    cleanup_buf struct buf name = BUF_INIT, lost = BUF_INIT;
    char label[24];
    uint32_t p = 0;
    while (s->allocation.device_of[p] != first)
        p++;
    const struct seat *seat = &s->seats[p].seat;
    device_label(&s->allocation.devices.at[seat->devices[0]], label);
    buf_add_text(&name, label);
    for (size_t i = 1; i < seat->n_devices; i++)
        buf_addf(&name, "+%d", s->allocation.devices.at[seat->devices[i]].index);
    if (seat->n_devices > 1)
        lost_add(s, seat, &lost);
    log_add(s->shell.log, LOG_WARN, "device", "%s gets no more work: %s%s", buf_text(&name), why,
            buf_text(&lost));
    session_record(s, "bench", UINT32_MAX, buf_text(&name));
}

/* ---- samples ---- */

static void peaks_note(struct session *s, size_t d)
{
    for (uint32_t p = 0; p < s->n_seats; p++) {
        struct worker *worker = s->seats[p].worker;
        const struct seat *seat = &s->seats[p].seat;
        if (worker && seat_uses(seat, d))
            worker->mem_peak_bytes = MAX(worker->mem_peak_bytes, seat_memory(s, seat).used_bytes);
    }
}

static void sample_take(struct session *s, const struct device_sample *sample)
{
    size_t d = s->allocation.chosen[sample->device];
    struct watched *watched = &s->watched[d];
    watched->sample = *sample;
    memory_sampled(s->memory, (uint32_t)d, sample->mem_used_bytes, sample->mem_total_bytes,
                   shell_now(&s->shell));
    ledger_sample(s->ledger, &(struct sample_row){.wall_ms = clock_wall_ms(),
                                                  .device = (uint32_t)sample->device,
                                                  .mem_used_bytes = sample->mem_used_bytes,
                                                  .busy_percent = sample->busy_percent,
                                                  .temperature_c = sample->temperature_c,
                                                  .power_w = sample->power_w});
    peaks_note(s, d);
    if (sample->is_lost && !watched->is_lost) {
        watched->is_lost = true;
        session_event(
            s, (struct feed_event){.kind = EV_DEVICE_LOST, .worker = (uint32_t)sample->device});
    }
}

/* The monitor starts its helper again when it hangs or dies. */
static void monitor_spare(struct session *s)
{
    if (monitor_pid(s->monitor) > 0)
        reaper_spare(s->shell.reaper, monitor_pid(s->monitor));
}

static void on_monitor(uv_poll_t *poll, int status, int events)
{
    struct session *s = poll->data;
    struct device_sample samples[16];
    size_t n;
    (void)status, (void)events;
    while ((n = monitor_read(s->monitor, samples, countof(samples))) > 0)
        for (size_t i = 0; i < n; i++)
            sample_take(s, &samples[i]);
    monitor_spare(s);
}

/* Samples will come, so memory that is not given back will show. */
static void memory_begin(struct session *s)
{
    for (size_t d = 0; d < s->allocation.devices.len; d++) {
        const struct device *device = &s->allocation.devices.at[d];
        uint64_t total_bytes = device->mem_total_bytes;
        memory_idle(s->memory, (uint32_t)d, total_bytes - MIN(device->mem_free_bytes, total_bytes),
                    total_bytes);
    }
}

void devices_watch(struct session *s)
{
    struct err err = {0};
    struct device_list watched = {xcalloc(s->allocation.n_chosen, sizeof(struct device)),
                                  s->allocation.n_chosen};
    for (size_t i = 0; i < s->allocation.n_chosen; i++)
        watched.at[i] = s->allocation.devices.at[s->allocation.chosen[i]];
    if (monitor_open(&s->monitor, &(struct probe_opts){.self_path = s->shell.self_path}, &watched,
                     SAMPLE_EVERY_MS, &err) != 0)
        log_add(s->shell.log, LOG_WARN, "device", "devices are not watched: %s", err.text);
    free(watched.at);
    if (!s->monitor)
        return;
    monitor_spare(s);
    if (monitor_fd(s->monitor) < 0)
        return;
    int sys = -uv_poll_init(&s->shell.loop, &s->monitor_poll, monitor_fd(s->monitor));
    if (sys) {
        log_add(s->shell.log, LOG_WARN, "device", "devices are not watched: %s", errno_text(sys));
        return;
    }
    s->monitor_poll.data = s;
    s->monitor_polled = true;
    uv_poll_start(&s->monitor_poll, UV_READABLE, on_monitor);
    memory_begin(s);
}

/* ---- memory of the dead ---- */

void memory_check(struct session *s)
{
    uint32_t seat;
    bool is_overdue;
    while (memory_back(s->memory, s->shell.now_ms, &seat, &is_overdue)) {
        if (is_overdue)
            log_add(s->shell.log, LOG_WARN, "device",
                    "%s: the dead worker's device memory was not freed within %d s; starting the "
                    "next worker anyway",
                    s->seats[seat].seat.label, MEMORY_PATIENCE_MS / 1000);
        session_event(s, (struct feed_event){.kind = EV_MEM_BACK, .worker = seat});
    }
}

/* ---- locks ---- */

void locks_check(struct session *s)
{
    cleanup_buf struct buf holder = BUF_INIT;
    char label[24];
    const struct device_lock *lock =
        device_locks_renew(&s->allocation.locks, s->shell.run_id, &holder);
    if (!lock)
        return;
    uint32_t d = allocation_position(&s->allocation, lock->device);
    device_label(&s->allocation.devices.at[lock->device], label);
    log_add(s->shell.log, LOG_ERROR, "device",
            "%s: the lock file was deleted and the device was taken by %s; this run gives the "
            "device up",
            label, buf_text(&holder));
    s->watched[lock->device].is_lost = true;
    session_event(s, (struct feed_event){.kind = EV_DEVICE_LOST, .worker = d});
}

void seats_log(struct session *s)
{
    for (uint32_t p = 0; p < s->n_seats; p++) {
        const struct seat *seat = &s->seats[p].seat;
        for (size_t i = 0; i < seat->n_devices; i++) {
            const struct device *device = &s->allocation.devices.at[seat->devices[i]];
            bool has_memory = device->mem_total_bytes > 0;
            char total[16], available[16];
            size_format(total, device->mem_total_bytes);
            size_format(available, device->mem_free_bytes);
            log_add(s->shell.log, LOG_INFO, "device", "%s: %s, %s%s%s%s%s", seat->label,
                    device->name, device->uuid, has_memory ? ", " : "", has_memory ? available : "",
                    has_memory ? " free of " : "", has_memory ? total : "");
        }
    }
}
