/* SPDX-License-Identifier: Apache-2.0
 *
 * When has a device the memory back that a dead worker held? Drivers free it as the process ends, or soon
 * after; the next worker may only start when it is there. What this knows are samples of devices, and when
 * workers come and go. No clock, no allocation after memory_new.
 */
#pragma once

#include "base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MEMORY_PATIENCE_MS = 60000 /* what is not back by then is taken to be there for good */
};

struct memory;

/* NULL only when memory ran out. */
struct memory *memory_new(uint32_t n_seats, uint32_t n_devices);
void memory_free(struct memory *memory);
/* The seat stands on this device as well; at first on none. */
void memory_seat_uses(struct memory *memory, uint32_t seat, uint32_t device);

/*
 * A device that is watched, and what others have in use of it before any worker of ours is there. Where no total
 * is known, all counts as given back.
 */
void memory_idle(struct memory *memory, uint32_t device, uint64_t used_bytes, uint64_t total_bytes);
/* A sample; total 0: it has no memory that is known. */
void memory_sampled(struct memory *memory, uint32_t device, uint64_t used_bytes,
                    uint64_t total_bytes, uint64_t now_ms);
/* A worker of ours is in the seat. */
void memory_taken(struct memory *memory, uint32_t seat, uint64_t now_ms);
/* Its process is gone, and it is not over yet; need not be said. */
void memory_ended(struct memory *memory, uint32_t seat, uint64_t now_ms);
/* It is gone, or could not be started; the seat waits until memory_back() names it. */
void memory_left(struct memory *memory, uint32_t seat, uint64_t now_ms);
/*
 * One of the seats whose devices have their memory back; false: none, now. To be called until then, after each
 * memory_left and now and then. *is_overdue: it is not back, but is waited for no longer.
 */
bool memory_back(struct memory *memory, uint64_t now_ms, uint32_t *seat, bool *is_overdue);
