/* SPDX-License-Identifier: Apache-2.0
 *
 * The run's devices while it lasts: samples, those that are lost, and memory that dead workers held.
 */
#include "run/watch.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "run/session.h"

enum {
    SAMPLE_EVERY_MS = 1000,
    MEMORY_WAIT_MS = 60000
};

void watched_begin(struct session *s)
{
    s->watched = xcalloc(s->devices.len, sizeof(*s->watched));
    for (size_t d = 0; d < s->devices.len; d++) {
        const struct device *device = &s->devices.at[d];
        s->watched[d].mem_idle_bytes =
            device->mem_total_bytes - MIN(device->mem_free_bytes, device->mem_total_bytes);
    }
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
        device_label(&s->devices.at[seat->devices[i]], label);
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
    while (s->device_of[p] != first)
        p++;
    const struct seat *seat = &s->places[p].seat;
    device_label(&s->devices.at[seat->devices[0]], label);
    buf_add_text(&name, label);
    for (size_t i = 1; i < seat->n_devices; i++)
        buf_addf(&name, "+%d", s->devices.at[seat->devices[i]].index);
    if (seat->n_devices > 1)
        lost_add(s, seat, &lost);
    log_add(s->log, LOG_WARN, "device", "%s gets no more work: %s%s", buf_text(&name), why,
            buf_text(&lost));
    session_record(s, "bench", UINT32_MAX, buf_text(&name));
}

/* ---- samples ---- */

/* Does a process of ours run there, or what one held is awaited? */
static bool is_ours(const struct session *s, size_t d, bool only_living)
{
    for (uint32_t p = 0; p < s->n_places; p++) {
        const struct place *place = &s->places[p];
        if (seat_uses(&place->seat, d) &&
            (place->life || (place->waits_for_memory && !only_living)))
            return true;
    }
    return false;
}

static void peaks_note(struct session *s, size_t d)
{
    for (uint32_t p = 0; p < s->n_places; p++) {
        struct life *life = s->places[p].life;
        const struct seat *seat = &s->places[p].seat;
        if (life && seat_uses(seat, d))
            life->mem_peak_bytes = MAX(life->mem_peak_bytes, seat_memory(s, seat).used_bytes);
    }
}

static void sample_take(struct session *s, const struct device_sample *sample)
{
    size_t d = s->chosen[sample->device];
    struct watched *watched = &s->watched[d];
    watched->sample = *sample;
    watched->sampled_ms = session_now(s);
    ledger_sample(s->ledger, &(struct sample_row){.wall_ms = clock_wall_ms(),
                                                  .device = (uint32_t)sample->device,
                                                  .mem_used_bytes = sample->mem_used_bytes,
                                                  .busy_percent = sample->busy_percent,
                                                  .temperature_c = sample->temperature_c,
                                                  .power_w = sample->power_w});
    peaks_note(s, d);
    if (!is_ours(s, d, false))
        watched->mem_idle_bytes = sample->mem_used_bytes;
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
        reaper_spare(s->reaper, monitor_pid(s->monitor));
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

void devices_watch(struct session *s)
{
    struct err err = {0};
    struct device_list watched = {xcalloc(s->n_chosen, sizeof(struct device)), s->n_chosen};
    for (size_t i = 0; i < s->n_chosen; i++)
        watched.at[i] = s->devices.at[s->chosen[i]];
    if (monitor_open(&s->monitor, &(struct probe_opts){.self_path = s->self_path}, &watched,
                     SAMPLE_EVERY_MS, &err) != 0)
        log_add(s->log, LOG_WARN, "device", "devices are not watched: %s", err.text);
    free(watched.at);
    if (!s->monitor)
        return;
    monitor_spare(s);
    if (monitor_fd(s->monitor) < 0)
        return;
    int sys = -uv_poll_init(&s->loop, &s->monitor_poll, monitor_fd(s->monitor));
    if (sys) {
        log_add(s->log, LOG_WARN, "device", "devices are not watched: %s", errno_text(sys));
        return;
    }
    s->monitor_poll.data = s;
    s->monitor_polled = true;
    uv_poll_start(&s->monitor_poll, UV_READABLE, on_monitor);
}

/* ---- memory of the dead ---- */

static void memory_is_back(struct session *s, uint32_t p)
{
    s->places[p].waits_for_memory = false;
    session_event(s, (struct feed_event){.kind = EV_MEM_BACK, .worker = p});
}

void memory_await(struct session *s, uint32_t p)
{
    s->places[p].waits_for_memory = true;
    s->places[p].memory_wait_since_ms = s->now_ms;
    if (seat_memory(s, &s->places[p].seat).total_bytes ==
        0) /* no device with memory, or none was ever sampled */
        memory_is_back(s, p);
}

/*
 * A driver frees memory as the process ends, or soon after. Where neighbours live, what is theirs cannot be
 * told from what the dead one has not given back: a sample of after its death must do.
 */
static bool is_back(const struct session *s, const struct place *place, size_t d)
{
    const struct watched *w = &s->watched[d];
    if (is_ours(s, d, true))
        return w->sampled_ms > place->memory_wait_since_ms;
    return w->sample.mem_used_bytes <= w->mem_idle_bytes + w->sample.mem_total_bytes / 50;
}

/* After a minute it is taken to be there for good, and the next death does not wait for it again. */
static bool patience_is_over(struct session *s, uint32_t p)
{
    const struct place *place = &s->places[p];
    if (s->now_ms - place->memory_wait_since_ms < MEMORY_WAIT_MS)
        return false;
    log_add(s->log, LOG_WARN, "device",
            "%s: the dead worker's device memory was not freed within %d s; starting the next "
            "worker anyway",
            place->seat.label, MEMORY_WAIT_MS / 1000);
    for (size_t i = 0; i < place->seat.n_devices; i++) {
        struct watched *watched = &s->watched[place->seat.devices[i]];
        if (!is_ours(s, place->seat.devices[i], true))
            watched->mem_idle_bytes = watched->sample.mem_used_bytes;
    }
    return true;
}

void memory_check(struct session *s)
{
    for (uint32_t p = 0; p < s->n_places; p++) {
        const struct place *place = &s->places[p];
        if (!place->waits_for_memory)
            continue;
        bool back = true;
        for (size_t i = 0; i < place->seat.n_devices; i++)
            back = back && is_back(s, place, place->seat.devices[i]);
        if (back || patience_is_over(s, p))
            memory_is_back(s, p);
    }
}

void locks_check(struct session *s)
{
    cleanup_buf struct buf holder = BUF_INIT;
    char label[24];
    const struct device_lock *lock = device_locks_renew(&s->locks, s->run_id, &holder);
    if (!lock)
        return;
    size_t d = 0;
    while (s->chosen[d] != lock->device)
        d++;
    device_label(&s->devices.at[lock->device], label);
    log_add(s->log, LOG_ERROR, "device",
            "%s: the lock file was deleted and the device was taken by %s; this run gives the "
            "device up",
            label, buf_text(&holder));
    s->watched[lock->device].is_lost = true;
    session_event(s, (struct feed_event){.kind = EV_DEVICE_LOST, .worker = (uint32_t)d});
}

void seats_log(struct session *s)
{
    for (uint32_t p = 0; p < s->n_places; p++) {
        const struct seat *seat = &s->places[p].seat;
        for (size_t i = 0; i < seat->n_devices; i++) {
            const struct device *device = &s->devices.at[seat->devices[i]];
            bool has_memory = device->mem_total_bytes > 0;
            char total[16], available[16];
            size_format(total, device->mem_total_bytes);
            size_format(available, device->mem_free_bytes);
            log_add(s->log, LOG_INFO, "device", "%s: %s, %s%s%s%s%s", seat->label, device->name,
                    device->uuid, has_memory ? ", " : "", has_memory ? available : "",
                    has_memory ? " free of " : "", has_memory ? total : "");
        }
    }
}
