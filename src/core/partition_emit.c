/* SPDX-License-Identifier: Apache-2.0
 *
 * From a placement to a map: keys in the order of the model, modules joined whose parts are on
 * one device, the device of each tensor, and what each device holds.
 */
#include <string.h>

#include "core/partition_impl.h"

/* The keys below a module. */
struct below {
    uint32_t n_keys; /* 2: two or more */
    uint32_t device; /* of all of them; MIXED */
};
#define MIXED (UINT32_MAX - 1)

static void below_add(struct below *below, struct below more)
{
    if (below->n_keys == 0)
        below->device = more.device;
    else if (below->device != more.device)
        below->device = MIXED;
    below->n_keys = MIN(below->n_keys + more.n_keys, 2u);
}

/*
 * Joins two or more keys below a module that have one device into a key of the module. Accelerate leaves a single key
 * as it is.
 */
static void keys_join(struct placement *placement, struct below *below)
{
    const struct partition_tree *tree = placement->tree;
    for (uint32_t m = 0; m < tree->n_modules; m++)
        below[m] = (struct below){0, NODE_NONE};
    for (uint32_t node = tree->n_modules + tree->n_tensors; node-- > 0;) {
        struct below own = {1, placement->devices[node]};
        if (own.device == NODE_NONE && node_is_module(tree, node)) {
            own = below[node];
            if (own.n_keys == 2 && own.device != MIXED)
                placement->devices[node] = own.device;
        } else if (own.device == NODE_NONE) {
            continue;
        }
        if (node > 0)
            below_add(&below[node_parent(tree, node)], own);
    }
}

static size_t entries_list(const struct placement *placement, struct partition_entry *entries)
{
    const struct partition_tree *tree = placement->tree;
    size_t n = 0;
    for (uint32_t m = 0; m < tree->n_modules;) {
        if (placement->devices[m] != NODE_NONE) {
            entries[n++] = (struct partition_entry){node_name(tree, m), placement->devices[m]};
            m = tree->module_ends[m];
            continue;
        }
        for (uint32_t t = tree->first_tensor[m]; t < tree->first_tensor[m + 1]; t++) {
            uint32_t device = placement->devices[node_of_tensor(tree, t)];
            if (device != NODE_NONE)
                entries[n++] = (struct partition_entry){tree->model.tensors[t].name, device};
        }
        m++;
    }
    return n;
}

/* The device of the first tensor that stands directly in a module and has one; else another device. */
static uint32_t own_device(const struct placement *placement, uint32_t module, uint32_t otherwise)
{
    const struct partition_tree *tree = placement->tree;
    for (uint32_t t = tree->first_tensor[module]; t < tree->first_tensor[module + 1]; t++)
        if (placement->devices[node_of_tensor(tree, t)] != NODE_NONE)
            return placement->devices[node_of_tensor(tree, t)];
    return otherwise;
}

/*
 * Finds the device of each module: the one that the module, or a module around it, was given. A module that was cut
 * is where the first node below its modules is. A root without modules is where its first tensor is.
 */
static void homes_find(const struct placement *placement, uint32_t *homes)
{
    const struct partition_tree *tree = placement->tree;
    for (uint32_t m = 0; m < tree->n_modules; m++) {
        homes[m] = placement->devices[m];
        if (homes[m] == NODE_NONE && m > 0)
            homes[m] = homes[node_parent(tree, m)];
    }
    uint32_t next = own_device(placement, 0, 0);
    for (uint32_t m = tree->n_modules; m-- > 0;) {
        bool is_cut = homes[m] == NODE_NONE;
        if (is_cut)
            homes[m] = next;
        next = is_cut ? own_device(placement, m, next) : homes[m];
    }
}

static void loads_add(const struct placement *placement, const uint32_t *homes,
                      struct partition_map *map)
{
    const struct partition_tree *tree = placement->tree;
    for (uint32_t m = 0; m < tree->n_modules; m++)
        map->loads[homes[m]].kv_bytes += tree->model.modules[m].kv_bytes;
    for (uint32_t t = 0; t < tree->n_tensors; t++) {
        uint32_t device = placement->devices[node_of_tensor(tree, t)];
        if (device == NODE_NONE)
            device = homes[tree->model.tensors[t].module];
        map->tensor_devices[t] = device;
        map->loads[device].weight_bytes += tree->bytes_before[t + 1] - tree->bytes_before[t];
    }
}

static size_t placed_count(const struct placement *placement)
{
    size_t n_nodes = (size_t)placement->tree->n_modules + placement->tree->n_tensors, n = 0;
    for (size_t node = 0; node < n_nodes; node++)
        n += placement->devices[node] != NODE_NONE;
    return n;
}

bool partition_emit(struct partition_map *map, struct placement *placement, bool is_joined)
{
    const struct partition_tree *tree = placement->tree;
    uint32_t *homes = malloc(tree->n_modules * sizeof(*homes));
    struct below *below = calloc(tree->n_modules, sizeof(*below));
    map->entries = malloc((placed_count(placement) + 1) * sizeof(*map->entries));
    map->tensor_devices = malloc((tree->n_tensors + 1ul) * sizeof(*map->tensor_devices));
    bool is_ok = homes && below && map->entries && map->tensor_devices;
    if (is_ok) {
        homes_find(placement, homes);
        loads_add(placement, homes, map);
        if (is_joined)
            keys_join(placement, below);
        map->n_entries = entries_list(placement, map->entries);
    }
    free(below);
    free(homes);
    return is_ok;
}
