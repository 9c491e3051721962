/* SPDX-License-Identifier: Apache-2.0
 *
 * A map from nodes of several graphs to numbers, for the case that only a few nodes have a number.
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

/* The node's number, which the caller may change; 0 if the node is new. Valid until the next
 * call. */
uint32_t *node_map_at(struct node_map *map, uint32_t part, pickle_id id);
/* The node's number; 0 if it has none. The node is not added to the map. */
uint32_t node_map_find(const struct node_map *map, uint32_t part, pickle_id id);
void node_map_release(struct node_map *map);
