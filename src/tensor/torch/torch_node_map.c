/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/torch/torch_node_map.h"

#include "base/xalloc.h"

static struct node_slot *slot_find(const struct node_map *map, uint32_t part, pickle_id id)
{
    uint64_t hash = ((uint64_t)part << 32 | id) * 0x9e3779b97f4a7c15;
    size_t i = (size_t)(hash >> 20) & (map->cap - 1);
    while (map->slots[i].id != 0 && (map->slots[i].id != id || map->slots[i].part != part))
        i = (i + 1) & (map->cap - 1);
    return &map->slots[i];
}

static void map_grow(struct node_map *map)
{
    struct node_map old = *map;
    map->cap = MAX(old.cap * 2, (size_t)64);
    map->slots = xcalloc(map->cap, sizeof(*map->slots));
    for (size_t i = 0; i < old.cap; i++)
        if (old.slots[i].id != 0)
            *slot_find(map, old.slots[i].part, old.slots[i].id) = old.slots[i];
    free(old.slots);
}

uint32_t *node_map_at(struct node_map *map, uint32_t part, pickle_id id)
{
    if (map->len * 2 >= map->cap)
        map_grow(map);
    struct node_slot *slot = slot_find(map, part, id);
    if (slot->id == 0) {
        *slot = (struct node_slot){.part = part, .id = id};
        map->len++;
    }
    return &slot->value;
}

uint32_t node_map_find(const struct node_map *map, uint32_t part, pickle_id id)
{
    return map->len > 0 ? slot_find(map, part, id)->value : 0;
}

void node_map_release(struct node_map *map)
{
    free(map->slots);
    *map = (struct node_map){0};
}
