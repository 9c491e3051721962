/* SPDX-License-Identifier: Apache-2.0 */
#include "core/memory.h"

#include <stdlib.h>

enum {
    TOLERANCE_SHARE = 50 /* of a device's memory: so much more than before may be in use */
};

struct device_memory {
    uint64_t used_bytes, total_bytes; /* by the last sample */
    uint64_t sampled_ms;
    uint64_t idle_bytes; /* in use when none of our workers is there */
};

enum seat_use {
    SEAT_EMPTY,
    SEAT_TAKEN,
    SEAT_WAITS
};

struct seat_wait {
    enum seat_use use;
    uint64_t since_ms; /* it waits */
};

struct memory {
    uint32_t n_seats, n_devices;
    struct device_memory *devices;
    struct seat_wait *seats;
    bool *uses; /* [seat][device] */
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
    m->uses = calloc((size_t)n_seats * n_devices + 1, sizeof(*m->uses));
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

static bool *use_of(const struct memory *m, uint32_t seat, uint32_t device)
{
    return &m->uses[(size_t)seat * m->n_devices + device];
}

void memory_seat_uses(struct memory *m, uint32_t seat, uint32_t device)
{
    *use_of(m, seat, device) = true;
}

void memory_idle(struct memory *m, uint32_t device, uint64_t used_bytes)
{
    m->devices[device].idle_bytes = used_bytes;
}

/* Is a seat of this use on the device? */
static bool has_seat(const struct memory *m, uint32_t device, enum seat_use use)
{
    for (uint32_t seat = 0; seat < m->n_seats; seat++)
        if (m->seats[seat].use == use && *use_of(m, seat, device))
            return true;
    return false;
}

void memory_sampled(struct memory *m, uint32_t device, uint64_t used_bytes, uint64_t total_bytes,
                    uint64_t now_ms)
{
    struct device_memory *d = &m->devices[device];
    d->used_bytes = used_bytes;
    d->total_bytes = total_bytes;
    d->sampled_ms = now_ms;
    if (!has_seat(m, device, SEAT_TAKEN) && !has_seat(m, device, SEAT_WAITS))
        d->idle_bytes = used_bytes;
}

void memory_taken(struct memory *m, uint32_t seat)
{
    m->seats[seat].use = SEAT_TAKEN;
}

void memory_left(struct memory *m, uint32_t seat, uint64_t now_ms)
{
    m->seats[seat] = (struct seat_wait){SEAT_WAITS, now_ms};
}

/*
 * Where neighbours live, what is theirs cannot be told from what the dead one has not given back: a sample of
 * after its death must do.
 */
static bool device_is_back(const struct memory *m, uint32_t seat, uint32_t device)
{
    const struct device_memory *d = &m->devices[device];
    if (d->total_bytes == 0)
        return true;
    if (has_seat(m, device, SEAT_TAKEN))
        return d->sampled_ms > m->seats[seat].since_ms;
    return d->used_bytes <= d->idle_bytes + d->total_bytes / TOLERANCE_SHARE;
}

static bool seat_is_back(const struct memory *m, uint32_t seat)
{
    bool is_back = true;
    for (uint32_t device = 0; device < m->n_devices && is_back; device++)
        is_back = !*use_of(m, seat, device) || device_is_back(m, seat, device);
    return is_back;
}

/* So the next death there does not wait for it again. */
static void patience_end(struct memory *m, uint32_t seat)
{
    for (uint32_t device = 0; device < m->n_devices; device++)
        if (*use_of(m, seat, device) && !has_seat(m, device, SEAT_TAKEN))
            m->devices[device].idle_bytes = m->devices[device].used_bytes;
}

bool memory_back(struct memory *m, uint64_t now_ms, uint32_t *out, bool *is_overdue)
{
    for (uint32_t seat = 0; seat < m->n_seats; seat++) {
        if (m->seats[seat].use != SEAT_WAITS)
            continue;
        *is_overdue = !seat_is_back(m, seat);
        if (*is_overdue && now_ms - m->seats[seat].since_ms < MEMORY_PATIENCE_MS)
            continue;
        if (*is_overdue)
            patience_end(m, seat);
        m->seats[seat].use = SEAT_EMPTY;
        *out = seat;
        return true;
    }
    return false;
}
