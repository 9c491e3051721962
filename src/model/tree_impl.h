/* SPDX-License-Identifier: Apache-2.0
 *
 * A tree of modules while it is made. A node or tensor has the index of its name.
 */
#pragma once

#include "model/tree.h"

#define RANK_NONE   UINT32_MAX
#define NUMBER_NONE UINT64_MAX

struct tree_node {
    uint32_t parent, first_child, last_child, next; /* 0: none, because the root is never a child */
    uint32_t first_tensor, last_tensor;             /* index + 1; 0: none */
    uint32_t rank;                                  /* among its siblings */
    uint32_t class_number;
    uint64_t number; /* the last word of its name, if that is a number */
    bool is_whole, has_cache;
};

struct tree_tensor {
    uint32_t module, next; /* next: index + 1 */
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
    uint64_t *layer_tokens; /* tokens that each layer keeps in its KV cache, if known */
    size_t n_layer_tokens;
    struct err *err;
};

struct str tree_node_name(const struct tree_maker *maker, uint32_t node);
/*
 * Finds the node of that name, or makes it with all nodes above it. ERR_DATA if it is too deep, or if there are too
 * many nodes.
 */
MUST_CHECK int tree_node_make(struct tree_maker *maker, struct str name, uint32_t *out);
/* The tensor of that name; false if there is none. */
bool tree_tensor_find(const struct tree_maker *maker, struct str name, uint32_t *out);
MUST_CHECK int tree_tensor_add(struct tree_maker *maker, struct str name,
                               const struct tree_tensor *tensor);

/* Sets ranks, blocks, ties and buffers as in a layout. */
MUST_CHECK int tree_layout_apply(struct tree_maker *maker, struct str layout);
/* Sets ranks and blocks without a layout, from the names alone. */
void tree_layout_guess(struct tree_maker *maker);
/* Brings the tree into the form of core/partition.h. */
void tree_emit(struct tree_maker *maker);
