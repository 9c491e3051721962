/* SPDX-License-Identifier: Apache-2.0 */
#include "core/memory.h"

#include <stdlib.h>

enum {
    TOLERANCE_SHARE = 50, /* 1/n of a device's memory may be in use beyond before */
    CONTEXT_MIN_MS =
        50, /* no driver makes a context in less: a worker that lived shorter took no memory */
    UNUSED_LIVES = 2, /* this many longer lives without use show that workers use no memory */
    UNUSED_LIFE_MS = 500
};
#define LIFE_UNKNOWN UINT64_MAX /* the worker went on after its host was lost */

struct device_memory {
    uint64_t used_bytes, total_bytes; /* by the last sample */
    uint64_t sampled_ms;
    uint64_t idle_bytes;   /* in use without any worker of ours */
    bool was_used;         /* a sample during or after the life of a worker of ours shows use */
    uint32_t unused_lives; /* lives of workers in which no sample shows use */
    uint32_t n_ours;       /* seats that use it and are not empty */
};

enum seat_use {
    SEAT_EMPTY,
    SEAT_TAKEN,
    SEAT_ENDED, /* its worker's process is gone, and its result is being checked */
    SEAT_WAITS
};

struct seat_wait {
    enum seat_use use;
    uint64_t since_ms; /* since when it is taken, or its worker's process has ended */
    uint64_t life_ms;  /* of its last worker */
    bool is_away;      /* with its host */
};

struct memory {
    uint32_t n_seats, n_devices;
    struct device_memory *devices;
    struct seat_wait *seats;
    uint8_t *uses; /* one bit per [seat][device]: room for the seats to come has to stay small */
};

struct memory *memory_new(uint32_t n_seats, uint32_t n_devices)
{
    struct memory *m = calloc(1, sizeof(*m));
    if (!m)
        return NULL;
    m->n_seats = n_seats;
    m->n_devices = n_devices;
    m->devices = calloc(n_devices + 1u, sizeof(*m->devices));
    m->seats = calloc(n_seats + 1u, sizeof(*m->seats));
    m->uses = calloc((size_t)n_seats * n_devices / 8 + 1, sizeof(*m->uses));
    if (m->devices && m->seats && m->uses)
        return m;
    memory_free(m);
    return NULL;
}

void memory_free(struct memory *m)
{
    if (!m)
        return;
    free(m->devices);
    free(m->seats);
    free(m->uses);
    free(m);
}

static bool has_use(const struct memory *m, uint32_t seat, uint32_t device)
{
    size_t at = (size_t)seat * m->n_devices + device;
    return m->uses[at / 8] >> at % 8 & 1;
}

void memory_seat_uses(struct memory *m, uint32_t seat, uint32_t device)
{
    size_t at = (size_t)seat * m->n_devices + device;
    m->uses[at / 8] |= (uint8_t)(1u << at % 8);
}

static void seat_set(struct memory *m, uint32_t seat, const struct seat_wait *wait)
{
    bool was_ours = m->seats[seat].use != SEAT_EMPTY, is_ours = wait->use != SEAT_EMPTY;
    for (uint32_t device = 0; device < m->n_devices && was_ours != is_ours; device++)
        if (has_use(m, seat, device))
            m->devices[device].n_ours += is_ours ? 1u : -1u;
    m->seats[seat] = *wait;
}

void memory_idle(struct memory *m, uint32_t device, uint64_t used_bytes, uint64_t total_bytes)
{
    struct device_memory *d = &m->devices[device];
    d->idle_bytes = d->used_bytes = used_bytes;
    d->total_bytes = total_bytes;
}

static bool has_worker(const struct memory *m, uint32_t device)
{
    for (uint32_t seat = 0; seat < m->n_seats; seat++)
        if (m->seats[seat].use == SEAT_TAKEN && has_use(m, seat, device))
            return true;
    return false;
}

static bool is_idle(const struct device_memory *d)
{
    return d->used_bytes <= d->idle_bytes + d->total_bytes / TOLERANCE_SHARE;
}

void memory_sampled(struct memory *m, uint32_t device, uint64_t used_bytes, uint64_t total_bytes,
                    uint64_t now_ms)
{
    struct device_memory *d = &m->devices[device];
    d->used_bytes = used_bytes;
    d->total_bytes = total_bytes;
    d->sampled_ms = now_ms;
    if (d->n_ours == 0)
        d->idle_bytes = used_bytes;
    d->was_used |= d->n_ours > 0 && !is_idle(d);
}

uint64_t memory_beyond_idle(const struct memory *m, uint32_t device)
{
    const struct device_memory *d = &m->devices[device];
    return d->used_bytes > d->idle_bytes ? d->used_bytes - d->idle_bytes : 0;
}

bool memory_is_alone(const struct memory *m, uint32_t seat, uint32_t device)
{
    bool is_own = m->seats[seat].use != SEAT_EMPTY && has_use(m, seat, device);
    return m->devices[device].n_ours == is_own;
}

void memory_taken(struct memory *m, uint32_t seat, uint64_t now_ms)
{
    const struct seat_wait taken = {
        .use = SEAT_TAKEN, .since_ms = now_ms, .is_away = m->seats[seat].is_away};
    seat_set(m, seat, &taken);
}

void memory_ended(struct memory *m, uint32_t seat, uint64_t now_ms)
{
    bool was_there = m->seats[seat].use == SEAT_TAKEN;
    uint64_t life_ms = was_there ? now_ms - m->seats[seat].since_ms : 0;
    const struct seat_wait ended = {.use = SEAT_ENDED,
                                    .since_ms = now_ms,
                                    .life_ms = life_ms,
                                    .is_away = m->seats[seat].is_away};
    seat_set(m, seat, &ended);
}

void memory_left(struct memory *m, uint32_t seat, uint64_t now_ms)
{
    if (m->seats[seat].use != SEAT_ENDED)
        memory_ended(m, seat, now_ms);
    m->seats[seat].use = SEAT_WAITS;
}

void memory_away(struct memory *m, uint32_t seat, bool is_away, uint64_t now_ms)
{
    struct seat_wait *wait = &m->seats[seat];
    wait->is_away = is_away;
    wait->since_ms = now_ms;
    wait->life_ms = LIFE_UNKNOWN;
}

/*
 * A sample from before the death says nothing about memory that the worker took after it; only if workers are known
 * to use no memory is no sample waited for. While other workers use the device, their memory cannot be told from
 * memory that the dead one has not given back: then any sample after its death is enough.
 */
static bool device_is_back(const struct memory *m, uint32_t seat, uint32_t device)
{
    const struct device_memory *d = &m->devices[device];
    bool is_recent = d->sampled_ms > m->seats[seat].since_ms;
    if (d->total_bytes == 0)
        return true;
    if (has_worker(m, device))
        return is_recent;
    bool uses_none = m->seats[seat].life_ms < CONTEXT_MIN_MS ||
                     (d->unused_lives >= UNUSED_LIVES && !d->was_used);
    return (is_recent || uses_none) && is_idle(d);
}

static bool seat_is_back(const struct memory *m, uint32_t seat)
{
    bool is_back = true;
    for (uint32_t device = 0; device < m->n_devices && is_back; device++)
        is_back = !has_use(m, seat, device) || device_is_back(m, seat, device);
    return is_back;
}

static void life_count(struct memory *m, uint32_t seat)
{
    const struct seat_wait *wait = &m->seats[seat];
    for (uint32_t device = 0; device < m->n_devices; device++) {
        struct device_memory *d = &m->devices[device];
        bool tells = wait->life_ms != LIFE_UNKNOWN && wait->life_ms >= UNUSED_LIFE_MS &&
                     d->sampled_ms > wait->since_ms;
        if (has_use(m, seat, device) && tells && !d->was_used && d->unused_lives < UNUSED_LIVES)
            d->unused_lives++;
    }
}

/* Accepts the memory as used for good, so that the next death does not wait for it again. */
static void patience_end(struct memory *m, uint32_t seat)
{
    for (uint32_t device = 0; device < m->n_devices; device++) {
        struct device_memory *d = &m->devices[device];
        if (!has_use(m, seat, device) || has_worker(m, device))
            continue;
        d->idle_bytes = d->used_bytes;
        d->unused_lives = UNUSED_LIVES;
        d->was_used = false;
    }
}

bool memory_back(struct memory *m, uint64_t now_ms, uint32_t *out, bool *is_overdue)
{
    for (uint32_t seat = 0; seat < m->n_seats; seat++) {
        if (m->seats[seat].use != SEAT_WAITS || m->seats[seat].is_away)
            continue;
        *is_overdue = !seat_is_back(m, seat);
        if (*is_overdue && now_ms - m->seats[seat].since_ms < MEMORY_PATIENCE_MS)
            continue;
        (*is_overdue ? patience_end : life_count)(m, seat);
        struct seat_wait empty = m->seats[seat];
        empty.use = SEAT_EMPTY;
        seat_set(m, seat, &empty);
        *out = seat;
        return true;
    }
    return false;
}

bool memory_is_awaited(const struct memory *m, uint64_t since_ms)
{
    bool is = false;
    for (uint32_t seat = 0; seat < m->n_seats && !is; seat++)
        is = m->seats[seat].use == SEAT_WAITS && !m->seats[seat].is_away &&
             m->seats[seat].since_ms >= since_ms;
    return is;
}
