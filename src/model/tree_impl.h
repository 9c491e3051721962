/* SPDX-License-Identifier: Apache-2.0
 *
 * A tree of modules while it is made. Its nodes and tensors have the numbers of their names.
 */
#pragma once

#include "model/tree.h"

#define RANK_NONE   UINT32_MAX
#define NUMBER_NONE UINT64_MAX

struct tree_node {
    uint32_t parent, first_child, last_child, next; /* 0: none, since the root is no child */
    uint32_t first_tensor, last_tensor;             /* plus 1; 0: none */
    uint32_t rank;                                  /* among its siblings */
    uint32_t class_number;
    uint64_t number; /* the last word of its name, if it is one */
    bool is_whole, has_cache;
};

struct tree_tensor {
    uint32_t module, next; /* next: plus 1 */
    uint32_t tied;
    uint64_t bytes;
    bool is_buffer, is_bool;
};

struct tree_maker {
    const struct model *model;
    const struct model_tree_wish *wish;
    struct model_tree *tree; /* has the names */
    struct tree_node *nodes;
    struct tree_tensor *tensors;
    size_t n_nodes, cap_nodes, n_tensors, cap_tensors;
    uint32_t n_ties;
    struct err *err;
};

struct str tree_node_name(const struct tree_maker *maker, uint32_t node);
/* The node of that name, made with those above it if it is not there. ERR_DATA if it is deeper than
 * any, or if there are too many. */
MUST_CHECK int tree_node_make(struct tree_maker *maker, struct str name, uint32_t *out);
/* The tensor of that name; false if there is none. */
bool tree_tensor_find(const struct tree_maker *maker, struct str name, uint32_t *out);
MUST_CHECK int tree_tensor_add(struct tree_maker *maker, struct str name,
                               const struct tree_tensor *tensor);

/* Ranks, blocks, ties and buffers as a layout has them. */
MUST_CHECK int tree_layout_apply(struct tree_maker *maker, struct str layout);
/* Without a layout: from the names alone. */
void tree_layout_guess(struct tree_maker *maker);
/* Brings the tree into the form of core/partition.h. */
void tree_emit(struct tree_maker *maker);
