/* SPDX-License-Identifier: Apache-2.0
 *
 * Accelerate's placement (infer_auto_device_map of accelerate 1.15): the modules go in their order to the first
 * device, as long as they fit, then to the next one. A module that does not fit is replaced by its parts where it may
 * be cut. Modules whose tensors share memory go to a device together.
 *
 * On the first GPU and on the CPU, room is kept for the largest layer that is not placed yet,
 * which may have to be loaded there from a slower device. Accelerate knows that size from a list
 * of the layers that had it when it last looked, and looks again when a module was cut or when
 * none of them is left; layers that were placed because they are tied stay in the list. `layers`
 * has those that the list could have; closed are those that have been taken since.
 */
#include <string.h>

#include "core/partition_greedy.h"

void greedy_unlink(struct greedy *g, uint32_t node)
{
    g->next[g->prev[node]] = g->next[node];
    g->prev[g->next[node]] = g->prev[node];
}

void greedy_link(struct greedy *g, uint32_t node, uint32_t before)
{
    g->next[node] = before;
    g->prev[node] = g->prev[before];
    g->next[g->prev[before]] = node;
    g->prev[before] = node;
    g->states[node] = NODE_LISTED;
}

/* Is the tensor the same as one before it in the same module? Then it is listed once. */
static bool is_repeated(const struct partition_tree *tree, uint32_t tensor)
{
    uint32_t same = tree->same_before[tensor];
    return same != NODE_NONE &&
           tree->model.tensors[same].module == tree->model.tensors[tensor].module;
}

static void tensors_link(struct greedy *g, uint32_t module, bool is_buffer, uint32_t before)
{
    const struct partition_tree *tree = g->tree;
    for (uint32_t t = tree->first_tensor[module]; t < tree->first_tensor[module + 1]; t++)
        if (tree->model.tensors[t].is_buffer == is_buffer && !is_repeated(tree, t))
            greedy_link(g, node_of_tensor(tree, t), before);
}

/* Accelerate leaves out the buffers of a module that it cuts, but for those of the root. */
void greedy_link_parts(struct greedy *g, uint32_t node, uint32_t before)
{
    g->states[node] = NODE_BELOW;
    tensors_link(g, node, false, before);
    for (uint32_t m = node + 1; m < g->tree->module_ends[node]; m = g->tree->module_ends[m])
        greedy_link(g, m, before);
    if (node == 0)
        tensors_link(g, node, true, before);
}

/* The layers of a node. Tensors of the root are layers too. */
static struct node_range node_layers(const struct greedy *g, uint32_t node)
{
    const struct partition_tree *tree = g->tree;
    uint32_t n_before = g->n_root_parameters;
    if (node_is_module(tree, node))
        return (struct node_range){n_before + g->layers_before[node],
                                   n_before + g->layers_before[tree->module_ends[node]]};
    uint32_t t = node - tree->n_modules;
    if (tree->model.tensors[t].module > 0)
        return (struct node_range){0, 0};
    uint32_t at = t < n_before ? t : t + g->layers_before[tree->n_modules];
    return (struct node_range){at, at + 1};
}

/* Accelerate looks at the list anew: at modules only. */
static void layers_look(struct greedy *g)
{
    uint32_t n_layers = g->layers_before[g->tree->n_modules], n_root = g->tree->first_tensor[1];
    cover_close(&g->layers, (struct node_range){0, g->n_root_parameters});
    cover_close(&g->layers,
                (struct node_range){g->n_root_parameters + n_layers, n_root + n_layers});
    while (g->n_put_back > 0)
        cover_open(&g->layers, node_layers(g, g->put_back[--g->n_put_back]));
    uint64_t max = cover_max(&g->layers);
    g->largest = max > 0 ? (int64_t)max - 1 : 0;
    g->is_stale = false;
}

static uint32_t node_take(struct greedy *g)
{
    uint32_t node = g->next[g->n_nodes];
    greedy_unlink(g, node);
    g->states[node] = NODE_TAKEN;
    cover_close(&g->layers, node_layers(g, node));
    if (!g->is_stale && cover_max(&g->layers) != (uint64_t)g->largest + 1)
        layers_look(g);
    return node;
}

void greedy_put_back(struct greedy *g, uint32_t node)
{
    greedy_link(g, node, g->next[g->n_nodes]);
    g->put_back[g->n_put_back++] = node;
}

static void node_cut(struct greedy *g, uint32_t node)
{
    greedy_link_parts(g, node, g->next[g->n_nodes]);
    cover_open(&g->layers, node_layers(g, node));
    layers_look(g);
}

static bool is_unlimited(const struct greedy *g)
{
    return g->device == g->wish->n_devices || g->wish->devices[g->device].kind == PARTITION_DISK;
}

/* What the device still takes; may be negative. */
static int64_t device_room(const struct greedy *g)
{
    if (is_unlimited(g))
        return INT64_MAX;
    bool is_main = g->device == 0 || g->wish->devices[g->device].kind == PARTITION_CPU;
    return g->limits[g->device] - g->used - (is_main ? g->largest : 0);
}

/*
 * The size of a node with those that hold its partners, as Accelerate adds it: a node with two of
 * them counts twice.
 */
static int64_t size_with_partners(const struct greedy *g, uint32_t node)
{
    int64_t size = greedy_size(g, node);
    for (uint32_t i = 0; i < g->n_partners; i++) {
        uint32_t around = greedy_listed_around(g, g->partners[i]);
        if (around != NODE_NONE)
            size =
                greedy_size_add(size, greedy_size(g, around) -
                                          greedy_size(g, node_of_tensor(g->tree, g->partners[i])));
    }
    return size;
}

static void node_place(struct greedy *g, uint32_t node, int64_t size)
{
    g->used += is_unlimited(g) ? 0 : size;
    g->states[node] = NODE_PLACED;
    g->placement->devices[node] = g->device;
    for (uint32_t i = 0; i < g->n_partners; i++) {
        uint32_t around = greedy_listed_around(g, g->partners[i]);
        if (around == NODE_NONE)
            continue;
        greedy_unlink(g, around);
        g->states[around] = NODE_PLACED;
        g->placement->devices[around] = g->device;
        struct node_range layers = node_layers(g, around);
        g->is_stale |= cover_max_in(&g->layers, layers) == (uint64_t)g->largest + 1;
        cover_close(&g->layers, layers);
    }
}

/* Cuts the first node around a partner that may be cut. */
static bool partner_cut(struct greedy *g)
{
    for (uint32_t i = 0; i < g->n_partners; i++) {
        uint32_t around = greedy_listed_around(g, g->partners[i]);
        if (around == NODE_NONE || !node_can_split(g->tree, around))
            continue;
        uint32_t before = g->next[around];
        greedy_unlink(g, around);
        greedy_link_parts(g, around, before);
        return true;
    }
    return false;
}

/* An empty device may get another node than the next one. */
static bool fallback_try(struct greedy *g, uint32_t node, int64_t size)
{
    if (!g->wish->fallback_allocation || g->used > 0)
        return false;
    return greedy_fall_back(g, node, g->limits[g->device] - MAX(g->largest, size));
}

static void node_treat(struct greedy *g, uint32_t node)
{
    greedy_find_partners(g, node);
    int64_t alone = greedy_size(g, node), size = size_with_partners(g, node), room = device_room(g);
    if (size <= room) {
        node_place(g, node, size);
    } else if (g->n_partners > 0 && alone <= room && partner_cut(g)) {
        greedy_put_back(g, node);
        layers_look(g);
    } else if (alone >= room && node_can_split(g->tree, node)) {
        node_cut(g, node);
    } else if (!fallback_try(g, node, size)) {
        greedy_put_back(g, node);
        g->device++;
        g->used = 0;
    }
}

static bool arrays_new(struct greedy *g)
{
    size_t n = g->n_nodes + 1ul, n_modules = g->tree->n_modules, n_tensors = g->tree->n_tensors;
    g->states = calloc(n, sizeof(*g->states));
    g->next = malloc(n * sizeof(*g->next));
    g->prev = malloc(n * sizeof(*g->prev));
    g->layers_before = malloc((n_modules + 1) * sizeof(*g->layers_before));
    g->put_back = malloc((FALLBACKS_PER_NODE * n + g->wish->n_devices + 1) * sizeof(*g->put_back));
    g->partners = malloc((n_tensors + 1) * sizeof(*g->partners));
    g->group_looks = calloc(n_tensors + 1, sizeof(*g->group_looks));
    g->has_alias = calloc(n_modules, sizeof(*g->has_alias));
    g->searches = calloc(n, sizeof(*g->searches));
    return g->states && g->next && g->prev && g->layers_before && g->put_back && g->partners &&
           g->group_looks && g->has_alias && g->searches;
}

static void greedy_release(struct greedy *g)
{
    void *const all[] = {g->states,   g->next,        g->prev,      g->layers_before, g->put_back,
                         g->partners, g->group_looks, g->has_alias, g->searches};
    for (size_t i = 0; i < countof(all); i++)
        free(all[i]);
    cover_release(&g->layers);
}

/* Layers are modules that are never cut. */
static void layers_count(struct greedy *g)
{
    const struct partition_tree *tree = g->tree;
    uint32_t n = 0, whole_end = 1; /* of a module that is whole */
    g->layers_before[0] = 0;
    for (uint32_t m = 1; m < tree->n_modules; m++) {
        g->layers_before[m] = n;
        if (m < whole_end || node_can_split(tree, m))
            continue;
        n++;
        whole_end = tree->module_ends[m];
    }
    g->layers_before[tree->n_modules] = n;
    while (g->n_root_parameters < tree->first_tensor[1] &&
           !tree->model.tensors[g->n_root_parameters].is_buffer)
        g->n_root_parameters++;
}

static bool layers_init(struct greedy *g)
{
    layers_count(g);
    const struct partition_tree *tree = g->tree;
    uint32_t n = g->layers_before[tree->n_modules] + tree->first_tensor[1];
    uint64_t *sizes = malloc((n + 1ul) * sizeof(*sizes));
    if (sizes) {
        for (uint32_t m = tree->n_modules; --m > 0;) {
            struct node_range layers = node_layers(g, m);
            if (layers.first < layers.end && !node_can_split(tree, m))
                sizes[layers.first] = node_eighths(tree, m) + 1;
        }
        for (uint32_t t = 0; t < tree->first_tensor[1]; t++)
            sizes[node_layers(g, node_of_tensor(tree, t)).first] =
                node_eighths(tree, node_of_tensor(tree, t)) + 1;
    }
    bool is_ok = sizes && cover_init(&g->layers, sizes, n);
    free(sizes);
    return is_ok;
}

static bool greedy_run(struct greedy *g)
{
    if (!arrays_new(g) || !layers_init(g))
        return false;
    uint64_t max = cover_max(&g->layers);
    g->largest = max > 0 ? (int64_t)max - 1 : 0;
    g->next[g->n_nodes] = g->prev[g->n_nodes] = g->n_nodes;
    greedy_find_aliases(g);
    greedy_link_parts(g, 0, g->n_nodes);
    while (g->next[g->n_nodes] != g->n_nodes)
        node_treat(g, node_take(g));
    return true;
}

bool partition_accelerate(const struct partition_wish *wish, struct placement *placement)
{
    const struct partition_tree *tree = placement->tree;
    int64_t *limits = calloc(wish->n_devices + 1ul, sizeof(*limits));
    struct greedy g = {
        .wish = wish,
        .tree = tree,
        .placement = placement,
        .n_nodes = tree->n_modules + tree->n_tensors,
        .limits = limits,
    };
    bool is_ok = limits && partition_limits(tree, wish, limits) && greedy_run(&g);
    greedy_release(&g);
    free(limits);
    return is_ok;
}
