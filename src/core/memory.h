/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides when the memory that a dead worker held on a device is free again. Drivers free it as the process ends, or
 * soon after; the next worker may start only then. The inputs are samples of the devices, and the times at which
 * workers come and go. No clock, no allocation after memory_new.
 */
#pragma once

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MEMORY_PATIENCE_MS = 60000 /* memory that is not free by then is accepted as used for good */
};

struct memory;

/* NULL only when memory ran out. */
struct memory *memory_new(uint32_t n_seats, uint32_t n_devices);
void memory_free(struct memory *memory);
/* The seat uses this device; a new seat uses none. */
void memory_seat_uses(struct memory *memory, uint32_t seat, uint32_t device);

/*
 * The device will be sampled; used_bytes are in use by others before any worker of ours starts. If the total is not
 * known (0), memory always counts as free again.
 */
void memory_idle(struct memory *memory, uint32_t device, uint64_t used_bytes, uint64_t total_bytes);
/* A sample; total 0: the device's memory is not known. */
void memory_sampled(struct memory *memory, uint32_t device, uint64_t used_bytes,
                    uint64_t total_bytes, uint64_t now_ms);
/* By the last sample: the memory in use beyond what was in use before any worker of ours. */
uint64_t memory_beyond_idle(const struct memory *memory, uint32_t device);
/* True if no other seat has a worker on the device, or waits for its memory. */
bool memory_is_alone(const struct memory *memory, uint32_t seat, uint32_t device);
/* A worker of ours is on the seat. */
void memory_taken(struct memory *memory, uint32_t seat, uint64_t now_ms);
/* The worker's process is gone, but its result is still being checked. This call may be left out. */
void memory_ended(struct memory *memory, uint32_t seat, uint64_t now_ms);
/* The worker is gone, or could not be started; the seat waits until memory_back() returns it. */
void memory_left(struct memory *memory, uint32_t seat, uint64_t now_ms);
/*
 * The seat's host is away: no sample comes, and how long a worker lives on there is not known, so memory_back() does
 * not return the seat. When the host is back, a seat that waits begins to wait anew.
 */
void memory_away(struct memory *memory, uint32_t seat, bool is_away, uint64_t now_ms);
/* Has a seat begun to wait at since_ms or later? A sample now may show that its devices have their memory back. */
bool memory_is_awaited(const struct memory *memory, uint64_t since_ms);
/*
 * Returns one of the seats whose devices have their memory back; false: there is none now. To be called until it
 * returns false, after each memory_left and ten times a second. *is_overdue: the memory is not back, but the wait
 * is over.
 */
bool memory_back(struct memory *memory, uint64_t now_ms, uint32_t *seat, bool *is_overdue);
