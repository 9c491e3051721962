/* SPDX-License-Identifier: Apache-2.0
 *
 * The invented devices: who uses them, what is seen of them, and how they are lost and come back.
 */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/xalloc.h"
#include "device/driver_probe.h"
#include "device/probe.h"
#include "shell/shell.h"
#include "sim/shell/fake_agent.h"

enum {
    SAMPLE_MS = 1000,
    LOSS_SEEN_MS = 2 * SAMPLE_MS + 500, /* on muster's machine */
    CONTEXT_MS = 60,                    /* until a worker has taken device memory */
    DEVICE_BYTES = 1 << 30
};

#define TOTAL_BYTES ((uint64_t)16 << 30)

/* ---- who uses them ---- */

static bool uses(const struct fake_worker *w, uint32_t device)
{
    bool any = false;
    for (uint32_t i = 0; i < w->n_devices; i++)
        any = any || w->devices[i] == device;
    return any;
}

static bool has_memory(const struct fake_worker *w)
{
    bool is_dead = w->state == ACTOR_DEAD;
    uint64_t end_ns = is_dead ? w->died_ns : world.now_ns;
    bool has_taken = w->has_device_memory && end_ns - w->born_ns > CONTEXT_MS * 1000000ull;
    return has_taken && !(is_dead && world.now_ns >= end_ns + world.scene.memory_lag_ms * 1000000);
}

static uint64_t used_bytes(uint32_t host, uint32_t device)
{
    uint64_t bytes = 0;
    for (const struct fake_worker *w = fake_workers(); w; w = w->next)
        bytes += w->host == host && has_memory(w) && uses(w, device) ? DEVICE_BYTES : 0;
    return bytes;
}

/* ---- losses ---- */

static bool is_lost_at(uint32_t host, uint32_t device, uint64_t ms)
{
    const struct scenario *scene = &world.scene;
    if (host != scene->lost_host)
        return false;
    uint32_t after_first = (device + scene->n_devices - scene->lost_device) % scene->n_devices;
    return after_first < scene->n_lost && ms >= scene->lost_at_ms && ms < scene->back_at_ms;
}

static bool is_on_lost(const struct fake_worker *w)
{
    bool is_on = false;
    for (uint32_t i = 0; i < w->n_devices; i++)
        is_on = is_on || is_lost_at(w->host, w->devices[i], world_ms());
    return is_on;
}

/*
 * As when a machine goes down: whoever is there dies with it. Muster knows nothing of the loss yet, and holds
 * the death against whatever was sent to the worker, read or not.
 */
static void users_kill(void *context, uint64_t argument)
{
    (void)context, (void)argument;
    for (struct fake_worker *w = fake_workers(); w; w = w->next) {
        if (w->state == ACTOR_DEAD || w->is_released || !is_on_lost(w))
            continue;
        for (uint32_t item = 0; item < world.scene.n_items; item++)
            world.truth->faults[item]++;
        fake_die(w, 0, SIGKILL);
    }
}

void devices_begin(void)
{
    if (world.scene.n_lost > 0 && world.scene.loss_kills)
        after_ms(world.scene.lost_at_ms, users_kill, NULL, 0);
}

/* ---- where a worker may start ---- */

/* The device was lost, and muster knows of it: it has listened to samples of that host for long enough. */
static bool is_known_as_lost(const struct fake_worker *w, uint32_t device)
{
    static uint64_t first_spawn_ms;
    if (!fake_workers()) /* while hosts are awaited, no sample is looked at */
        first_spawn_ms = world_ms();
    const struct scenario_link *link = &world.scene.hosts.links[w->host];
    uint64_t seen_ms = LOSS_SEEN_MS + 2 * (link->latency_us + link->jitter_us) / 1000;
    uint64_t begin_ms = world.scene.hosts.n > 0 ? first_spawn_ms : 0;
    uint64_t watched_ms = world_ms() - MAX(begin_ms, w->place ? w->place->begin_ms : 0);
    bool may_be_late = world.scene.rates.no_sample > 0 || (w->host > 0 && has_troubles());
    return !may_be_late && watched_ms >= seen_ms && is_lost_at(w->host, device, world_ms()) &&
           is_lost_at(w->host, device, world_ms() - seen_ms);
}

void fake_place_check(const struct fake_worker *w, const struct spawn_request *request)
{
    const struct scenario *scene = &world.scene;
    bool alone = scene->workers_per_device <= 1;
    int held[LOCK_FDS_MAX];
    for (uint32_t i = 0; i < w->n_devices; i++)
        if (is_known_as_lost(w, w->devices[i]))
            broken("worker %u is started on device %u, which is lost", w->number, w->devices[i]);
    for (const struct fake_worker *other = fake_workers(); other; other = other->next)
        for (uint32_t i = 0; i < w->n_devices; i++)
            if (other->state != ACTOR_DEAD && uses(other, w->devices[i]) &&
                other->host == w->host && other->seat_share == w->seat_share &&
                (scene->has_gpus || other->place == w->place)) /* slots have no locks */
                broken("workers %u and %u are on device %u at one time", other->number, w->number,
                       w->devices[i]);
    if (!scene->has_gpus)
        return;
    if (spawn_locks_fds(request, held) < w->n_devices)
        broken("the guard of worker %u does not hold the locks of its devices", w->number);
    bool shows = scene->rates.no_sample == 0 && scene->memory_lag_ms >= 2 * SAMPLE_MS &&
                 !may_have_been_left(w->host);
    for (uint32_t i = 0; i < w->n_devices && alone && shows; i++)
        if (used_bytes(w->host, w->devices[i]) > 0)
            broken("worker %u is started though device %u has not its memory back", w->number,
                   w->devices[i]);
    world.truth->n_returned += scene->n_lost > 0 && w->host == scene->lost_host &&
                               uses(w, scene->lost_device) && world_ms() >= scene->back_at_ms;
}

/* ---- what muster sees of them ---- */

int __real_probe_universe(const struct probe_opts *opts, const struct device_spec *spec,
                          struct device_list *out, struct buf *notes, struct err *err);
int __wrap_probe_universe(const struct probe_opts *opts, const struct device_spec *spec,
                          struct device_list *out, struct buf *notes, struct err *err);

int __wrap_probe_universe(const struct probe_opts *opts, const struct device_spec *spec,
                          struct device_list *out, struct buf *notes, struct err *err)
{
    if (!world.scene.has_gpus)
        return __real_probe_universe(opts, spec, out, notes, err);
    *out = (struct device_list){xcalloc(world.scene.n_devices, sizeof(struct device)),
                                world.scene.n_devices, NULL};
    for (uint32_t i = 0; i < world.scene.n_devices; i++) {
        struct device *device = &out->at[i];
        device_reset(device, DEVICE_CUDA, (int)i);
        device->index = (int)i;
        snprintf(device->uuid, sizeof(device->uuid), "GPU-%d-%u-%u", (int)getpid(),
                 world.place ? world.place->host : 0, i);
        snprintf(device->name, sizeof(device->name), "invented");
        device->mem_total_bytes = device->mem_free_bytes = TOTAL_BYTES;
    }
    return 0;
}

struct monitor {
    uint32_t host;
    size_t n_devices, next;
};

int __wrap_monitor_open(struct monitor **out, const struct probe_opts *opts,
                        const struct device_list *devices, uint64_t period_ms, struct err *err);
int __wrap_monitor_fd(const struct monitor *monitor);
pid_t __wrap_monitor_pid(const struct monitor *monitor);
size_t __wrap_monitor_read(struct monitor *monitor, struct device_sample *out, size_t cap);
void __wrap_monitor_hurry(struct monitor *monitor);
void __wrap_monitor_close(struct monitor *monitor);

int __wrap_monitor_open(struct monitor **out, const struct probe_opts *opts,
                        const struct device_list *devices, uint64_t period_ms, struct err *err)
{
    (void)opts, (void)period_ms, (void)err;
    *out = xcalloc(1, sizeof(**out));
    **out = (struct monitor){.host = world.place ? world.place->host : 0,
                             .n_devices = world.scene.has_gpus ? devices->len : 0};
    return 0;
}

int __wrap_monitor_fd(const struct monitor *monitor)
{
    return monitor->n_devices > 0 ? 1000000 : -1;
}

pid_t __wrap_monitor_pid(const struct monitor *monitor)
{
    (void)monitor;
    return -1;
}

/* One round of samples at each poll: all that are there, then none. */
size_t __wrap_monitor_read(struct monitor *monitor, struct device_sample *out, size_t cap)
{
    size_t n = 0;
    for (; monitor->next < monitor->n_devices && n < cap; monitor->next++) {
        size_t d = monitor->next;
        bool is_lost = is_lost_at(monitor->host, (uint32_t)d, world_ms());
        if (chance(world.scene.rates.no_sample))
            continue;
        out[n++] = (struct device_sample){.device = d,
                                          .mem_used_bytes =
                                              is_lost ? 0 : used_bytes(monitor->host, (uint32_t)d),
                                          .mem_total_bytes = is_lost ? 0 : TOTAL_BYTES,
                                          .is_lost = is_lost};
    }
    if (n == 0)
        monitor->next = 0;
    return n;
}

/* Samples come when they come. */
void __wrap_monitor_hurry(struct monitor *monitor)
{
    (void)monitor;
}

void __wrap_monitor_close(struct monitor *monitor)
{
    free(monitor);
}
