/* SPDX-License-Identifier: Apache-2.0
 *
 * The planned events of a simulated world, ordered by time. Of events at the same moment, the one
 * that was planned first comes first, so a world depends only on its seed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A planned event. The world defines the kinds, and what the other members mean for each kind. */
struct future {
    uint64_t at_us, sequence;
    uint64_t item, count;
    uint32_t kind, worker, life, detail;
};

struct future_heap {
    struct future *at;
    size_t len, cap;
    uint64_t sequence; /* of the event that is planned next */
};

/*
 * Adds an event and fills in its `sequence`; the heap grows as needed. False: out of memory, and
 * nothing has changed.
 */
bool heap_push(struct future_heap *heap, const struct future *future);
/* Removes the soonest event and returns it. Precondition: there is one. */
struct future heap_pop(struct future_heap *heap);
/* When the soonest event is due; UINT64_MAX if there is none. */
uint64_t heap_next_us(const struct future_heap *heap);
void heap_release(struct future_heap *heap);
