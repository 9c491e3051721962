/* SPDX-License-Identifier: Apache-2.0
 *
 * A map from its wish: the tree of the model, the method, the entries.
 */
#include "core/partition.h"

#include <string.h>

#include "core/partition_units.h"

static void wish_check(const struct partition_wish *wish)
{
    ASSERT(wish->n_devices < UINT32_MAX / 4);
    for (uint32_t i = 1; i < wish->n_devices; i++) {
        enum partition_kind before = wish->devices[i - 1].kind, kind = wish->devices[i].kind;
        ASSERT(before < kind || (before == PARTITION_GPU && kind == PARTITION_GPU));
    }
}

/* Finds the largest unit of what fits nowhere. */
static bool missing_find(struct partition_map *map, const struct partition_tree *tree,
                         uint32_t nowhere)
{
    const struct partition_load *load = &map->loads[nowhere];
    map->missing_bytes = load->weight_bytes + load->kv_bytes;
    if (map->missing_bytes == 0)
        return true;
    struct units units;
    bool is_ok = units_init(&units, tree);
    for (uint32_t u = 0; is_ok && u < units.n; u++) {
        struct node_range tensors = node_tensors(tree, units.nodes[u]);
        uint64_t bytes = units.weight_bytes[u] + units.kv_bytes[u];
        if (bytes <= map->missing_unit_bytes || tensors.first == tensors.end ||
            map->tensor_devices[tensors.first] != nowhere)
            continue;
        map->missing_unit_bytes = bytes;
        map->missing_name = node_name(tree, units.nodes[u]);
    }
    units_release(&units);
    return is_ok;
}

static bool map_fill(struct partition_map *map, const struct partition_tree *tree,
                     const struct partition_wish *wish)
{
    size_t n_nodes = (size_t)tree->n_modules + tree->n_tensors;
    struct placement placement = {.tree = tree, .devices = malloc(n_nodes * sizeof(uint32_t))};
    map->loads = calloc(wish->n_devices + 1ul, sizeof(*map->loads));
    bool is_ok = placement.devices && map->loads;
    if (is_ok) {
        memset(placement.devices, 0xff, n_nodes * sizeof(uint32_t));
        is_ok = (wish->method == PARTITION_OPTIMAL ? partition_optimal(wish, &placement, map)
                                                   : partition_accelerate(wish, &placement)) &&
                partition_emit(map, &placement, !wish->keeps_pieces) &&
                missing_find(map, tree, wish->n_devices);
    }
    free(placement.devices);
    return is_ok;
}

struct partition_map *partition_new(const struct partition_model *model,
                                    const struct partition_wish *wish)
{
    wish_check(wish);
    struct partition_map *map = calloc(1, sizeof(*map));
    struct partition_tree tree = {0};
    bool is_ok = map && partition_tree_init(&tree, model, &map->is_too_large) &&
                 (map->is_too_large || map_fill(map, &tree, wish));
    partition_tree_release(&tree);
    if (is_ok)
        return map;
    partition_free(map);
    return NULL;
}

void partition_free(struct partition_map *map)
{
    if (!map)
        return;
    free(map->entries);
    free(map->loads);
    free(map->tensor_devices);
    free(map);
}
