/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files partition_*.c share: the model as a tree with sizes that are found in constant time, and the result
 * of a method: a device for each node that it placed.
 *
 * A node is a module, or a tensor: n_modules + its number. Modules are numbered depth-first, so
 * the modules and the tensors below one of them are ranges.
 */
#pragma once

#include "base/attr.h"
#include "core/partition.h"

#define NODE_NONE UINT32_MAX

/* Accelerate counts an element of bool as a bit, so it has sizes of eighths of a byte. */
enum {
    EIGHTHS = 8
};

/* Half-open. */
struct node_range {
    uint32_t first, end;
};

struct partition_tree {
    struct partition_model model;
    uint32_t n_modules, n_tensors;
    uint32_t *module_ends; /* the modules below m are [m, module_ends[m]) */
    /* [n_modules + 1] the tensors of m are [first_tensor[m], first_tensor[m + 1]) */
    uint32_t *first_tensor;
    uint64_t *bytes_before; /* [n_tensors + 1] sum of the sizes of tensors with a smaller number */
    uint64_t *eighths_before; /* the same as Accelerate counts it */
    uint32_t *same_before; /* [n_tensors] the tensor before it that shares its memory; NODE_NONE */
    /* Of the groups of parameters that share memory: */
    uint32_t *tied; /* [n_tied] parameters in groups, ascending */
    uint32_t n_tied;
    uint32_t *members; /* [n_tied] the same, group by group, in each by name */
    /* [n_tensors + 2] those of group g are [first_member[g], first_member[g + 1]) */
    uint32_t *first_member;
};

/* False: memory ran out. To be released in any case. */
bool partition_tree_init(struct partition_tree *tree, const struct partition_model *model,
                         bool *is_too_large);
void partition_tree_release(struct partition_tree *tree);

/* The members of a group of parameters; empty if it has only one. */
static inline struct node_range partition_group(const struct partition_tree *tree, uint32_t group)
{
    return (struct node_range){tree->first_member[group], tree->first_member[group + 1]};
}

static inline bool node_is_module(const struct partition_tree *tree, uint32_t node)
{
    return node < tree->n_modules;
}

static inline uint32_t node_of_tensor(const struct partition_tree *tree, uint32_t tensor)
{
    return tree->n_modules + tensor;
}

/* The tensors that a node holds. */
static inline struct node_range node_tensors(const struct partition_tree *tree, uint32_t node)
{
    if (!node_is_module(tree, node))
        return (struct node_range){node - tree->n_modules, node - tree->n_modules + 1};
    return (struct node_range){tree->first_tensor[node],
                               tree->first_tensor[tree->module_ends[node]]};
}

static inline uint64_t node_bytes(const struct partition_tree *tree, uint32_t node)
{
    struct node_range t = node_tensors(tree, node);
    return tree->bytes_before[t.end] - tree->bytes_before[t.first];
}

static inline uint64_t node_eighths(const struct partition_tree *tree, uint32_t node)
{
    struct node_range t = node_tensors(tree, node);
    return tree->eighths_before[t.end] - tree->eighths_before[t.first];
}

static inline struct str node_name(const struct partition_tree *tree, uint32_t node)
{
    return node_is_module(tree, node) ? tree->model.modules[node].name
                                      : tree->model.tensors[node - tree->n_modules].name;
}

/* The module that holds a node; the root is in itself. */
static inline uint32_t node_parent(const struct partition_tree *tree, uint32_t node)
{
    return node_is_module(tree, node) ? tree->model.modules[node].parent
                                      : tree->model.tensors[node - tree->n_modules].module;
}

/* Can it be replaced by its tensors and its modules? */
static inline bool node_can_split(const struct partition_tree *tree, uint32_t node)
{
    return node_is_module(tree, node) && tree->module_ends[node] > node + 1 &&
           !tree->model.modules[node].is_whole;
}

/* The device of each node that stands for itself and all nodes below it; NODE_NONE: none of its own. */
struct placement {
    const struct partition_tree *tree;
    uint32_t *devices; /* [n_modules + n_tensors] */
};

/*
 * Makes the entries of a map; modules all of whose parts are on one device become one, if
 * `is_joined`. Sets the device of each tensor, and adds to the loads. False: memory ran out.
 */
bool partition_emit(struct partition_map *map, struct placement *placement, bool is_joined);

/*
 * The largest value in the open ranges. Ranges are closed and opened again; a range that was closed twice has to be
 * opened twice. Only equal or nested ranges may be closed at the same time.
 */
struct cover {
    uint32_t n_leaves;  /* a power of two */
    uint32_t *n_closed; /* [2 * n_leaves] of this node of the tree as a whole */
    uint64_t *values;   /* [2 * n_leaves] the largest open one below; 0: none */
};

bool cover_init(struct cover *cover, const uint64_t *values, uint32_t n);
void cover_release(struct cover *cover);
void cover_close(struct cover *cover, struct node_range range);
void cover_open(struct cover *cover, struct node_range range);
uint64_t cover_max(const struct cover *cover);
uint64_t cover_max_in(const struct cover *cover, struct node_range range);

/* How many devices are GPUs: they come first. */
uint32_t partition_gpus(const struct partition_wish *wish);
/*
 * The limits of the devices, in eighths of a byte, as Accelerate's method has them: [n_devices].
 * False: memory ran out.
 */
bool partition_limits(const struct partition_tree *tree, const struct partition_wish *wish,
                      int64_t *limits);
/* Accelerate's placement. False: memory ran out. */
bool partition_accelerate(const struct partition_wish *wish, struct placement *placement);
/* The best contiguous placement; sets reserve_bytes of the map's loads, and needed_use. False: memory ran out. */
bool partition_optimal(const struct partition_wish *wish, struct placement *placement,
                       struct partition_map *map);
