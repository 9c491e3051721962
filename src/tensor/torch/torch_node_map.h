/* SPDX-License-Identifier: Apache-2.0
 *
 * A number for some nodes of several graphs, where an array by node would mostly be empty.
 */
#pragma once

#include "tensor/pickle/pickle.h"

struct node_slot {
    uint32_t part;
    pickle_id id; /* 0: free */
    uint32_t value;
};

struct node_map {
    struct node_slot *slots;
    size_t len, cap; /* cap: a power of two */
};

/* Its number, 0 of one that is new. Borrowed until the next call. */
uint32_t *node_map_at(struct node_map *map, uint32_t part, pickle_id id);
/* The same without a change: 0 if there is none. */
uint32_t node_map_find(const struct node_map *map, uint32_t part, pickle_id id);
void node_map_release(struct node_map *map);
