/* SPDX-License-Identifier: Apache-2.0
 *
 * The units of a model, their clusters, and the sequence of their sizes.
 */
#include <string.h>

#include "core/partition_units.h"

static void unit_add(struct units *units, uint32_t node)
{
    units->nodes[units->n] = node;
    units->weight_bytes[units->n] = node_bytes(units->tree, node);
    units->anchors[units->n] = units->n;
    units->n++;
}

static void tensors_add(struct units *units, uint32_t module, bool buffers)
{
    const struct partition_tree *tree = units->tree;
    for (uint32_t t = tree->first_tensor[module]; t < tree->first_tensor[module + 1]; t++)
        if (module > 0 || tree->model.tensors[t].is_buffer == buffers)
            unit_add(units, node_of_tensor(tree, t));
}

/*
 * Buffers of the root are the last ones, as Accelerate has it. The cache of a module that is cut
 * goes to the first unit below its modules, as in partition_emit.c.
 */
static void units_find(struct units *units)
{
    const struct partition_tree *tree = units->tree;
    for (uint32_t m = 0; m < tree->n_modules;) {
        if (m > 0 && !node_can_split(tree, m)) {
            uint32_t node = m;
            for (; m < tree->module_ends[node]; m++)
                units->kv_bytes[units->n] += tree->model.modules[m].kv_bytes;
            unit_add(units, node);
        } else {
            tensors_add(units, m, false);
            uint32_t next = tree->n_modules > 1 ? units->n : 0; /* a root alone: its first tensor */
            units->kv_bytes[next] += tree->model.modules[m++].kv_bytes;
        }
    }
    tensors_add(units, 0, true);
}

/* The anchor of a cluster, whose members point to earlier ones. */
static uint32_t anchor_of(uint32_t *anchors, uint32_t unit)
{
    while (anchors[unit] != unit) {
        anchors[unit] = anchors[anchors[unit]];
        unit = anchors[unit];
    }
    return unit;
}

/* `unit_of` is scratch: [n_tensors] */
static void clusters_find(struct units *units, uint32_t *unit_of)
{
    const struct partition_tree *tree = units->tree;
    for (uint32_t u = 0; u < units->n; u++) {
        struct node_range tensors = node_tensors(tree, units->nodes[u]);
        for (uint32_t t = tensors.first; t < tensors.end; t++)
            unit_of[t] = u;
    }
    for (uint32_t t = 0; t < tree->n_tensors; t++) {
        if (tree->same_before[t] == NODE_NONE)
            continue;
        uint32_t a = anchor_of(units->anchors, unit_of[tree->same_before[t]]);
        uint32_t b = anchor_of(units->anchors, unit_of[t]);
        units->anchors[MAX(a, b)] = MIN(a, b);
        units->has_clusters |= a != b;
    }
    for (uint32_t u = 0; u < units->n; u++)
        units->anchors[u] = anchor_of(units->anchors, u);
}

bool units_init(struct units *units, const struct partition_tree *tree)
{
    size_t n_max = (size_t)tree->n_modules + tree->n_tensors;
    *units = (struct units){
        .tree = tree,
        .nodes = malloc(n_max * sizeof(uint32_t)),
        .weight_bytes = malloc(n_max * sizeof(uint64_t)),
        .kv_bytes = calloc(n_max + 1, sizeof(uint64_t)),
        .anchors = malloc(n_max * sizeof(uint32_t)),
    };
    uint32_t *unit_of = calloc(tree->n_tensors + 1ul, sizeof(*unit_of));
    bool is_ok =
        units->nodes && units->weight_bytes && units->kv_bytes && units->anchors && unit_of;
    if (is_ok) {
        units_find(units);
        clusters_find(units, unit_of);
    }
    free(unit_of);
    return is_ok;
}

void units_release(struct units *units)
{
    free(units->nodes);
    free(units->weight_bytes);
    free(units->kv_bytes);
    free(units->anchors);
    *units = (struct units){0};
}

void units_turn_anchors(struct units *units)
{
    uint32_t *anchors = units->anchors;
    for (uint32_t u = 0; u < units->n; u++)
        anchors[anchors[u]] = MAX(anchors[anchors[u]], u);
    for (uint32_t u = 0; u < units->n;
         u++) /* but for the first of a cluster, which has it already */
        anchors[u] = MAX(anchors[u], anchors[anchors[u]]);
}

bool unit_line_init(struct unit_line *line, const struct units *units)
{
    uint32_t n = units->n;
    *line = (struct unit_line){
        .n = n,
        .weight_bytes = calloc(n + 1ul, sizeof(uint64_t)),
        .before = calloc(n + 1ul, sizeof(uint64_t)),
        .largest_from = calloc(n + 1ul, sizeof(uint64_t)),
    };
    if (!line->weight_bytes || !line->before || !line->largest_from)
        return false;
    for (uint32_t u = 0; u < n; u++) {
        line->before[units->anchors[u] + 1] += units->weight_bytes[u] + units->kv_bytes[u];
        line->weight_bytes[units->anchors[u]] += units->weight_bytes[u];
    }
    for (uint32_t u = 0; u < n; u++)
        line->before[u + 1] += line->before[u];
    for (uint32_t u = n; u-- > 0;)
        line->largest_from[u] = MAX(line->weight_bytes[u], line->largest_from[u + 1]);
    return true;
}

void unit_line_release(struct unit_line *line)
{
    free(line->weight_bytes);
    free(line->before);
    free(line->largest_from);
    *line = (struct unit_line){0};
}

uint32_t unit_line_reach(const struct unit_line *line, uint32_t start, uint64_t bytes)
{
    uint32_t first = start, last = line->n; /* it is in [first, last] */
    while (first < last) {
        uint32_t middle = last - (last - first) / 2;
        if (line->before[middle] - line->before[start] <= bytes)
            first = middle;
        else
            last = middle - 1;
    }
    return first;
}
