/* SPDX-License-Identifier: Apache-2.0
 *
 * The events to come in a simulated world, ordered by time; of events at the same moment, the one
 * that was planned first comes first. So a world depends on nothing but its seed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An event to come. The world defines the kinds, and what the other members mean for each. */
struct future {
    uint64_t at_us, sequence;
    uint64_t item, count;
    uint32_t kind, worker, life, detail;
};

struct future_heap {
    struct future *at;
    size_t len, cap;
    uint64_t sequence; /* of the next to be planned */
};

/* Grows when it must. False: out of memory, and nothing has changed. `sequence` is filled in. */
bool heap_push(struct future_heap *heap, const struct future *future);
/* Takes the soonest event out. Precondition: there is one. */
struct future heap_pop(struct future_heap *heap);
/* When the soonest event is due; UINT64_MAX: there is none. */
uint64_t heap_next_us(const struct future_heap *heap);
void heap_release(struct future_heap *heap);
