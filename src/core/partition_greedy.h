/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of Accelerate's placement, which partition_greedy.c, partition_ties.c and
 * partition_fallback.c share.
 */
#pragma once

#include "core/partition_impl.h"

enum {
    FALLBACKS_PER_NODE =
        2 /* more tries would not end: a node may fit in the search, and not when it is placed */
};

enum node_state {
    NODE_BELOW,  /* a node around it, or its parts, stand for it */
    NODE_TAKEN,  /* from the list, to be judged */
    NODE_LISTED, /* to be placed */
    NODE_PLACED
};

/* Sizes are eighths of a byte. */
struct greedy {
    const struct partition_wish *wish;
    const struct partition_tree *tree;
    struct placement *placement;
    uint32_t n_nodes;
    const int64_t *limits; /* [n_devices] */
    uint32_t device;       /* being filled; n_devices: what is left over */
    int64_t used;          /* of it */

    /* The nodes to be placed: in the order of the model, except for a few at the front. */
    uint8_t *states; /* [n_nodes] */
    uint32_t *next,
        *prev; /* [n_nodes + 1]; n_nodes stands before the first one and behind the last one */

    /* The layers of those nodes. */
    struct cover layers;
    uint32_t *layers_before; /* [n_modules + 1] those of modules with a smaller number */
    uint32_t n_root_parameters;
    int64_t largest;    /* of the layers, as Accelerate has it */
    bool is_stale;      /* a layer of that size was placed, and Accelerate has not noticed */
    uint32_t *put_back; /* [n_put_back] nodes that were taken, and put back into the list */
    uint32_t n_put_back;

    /* The parameters outside of the taken node that share the memory of one inside. */
    uint32_t *partners; /* [n_partners] */
    uint32_t n_partners;
    uint32_t *group_looks; /* [n_tensors + 1] by group: the number of the last look at it */
    uint32_t look;
    bool *has_alias; /* [n_modules] of modules right below the root: see partition_ties.c */

    uint32_t *searches; /* [n_nodes] the last search that came by */
    uint32_t n_searches;
};

/* The list. */
void greedy_unlink(struct greedy *g, uint32_t node);
/* Puts a node before another one; before n_nodes is at the end. */
void greedy_link(struct greedy *g, uint32_t node, uint32_t before);
/* Replaces a node that is not in the list by its parts, each linked before the node `before`. */
void greedy_link_parts(struct greedy *g, uint32_t node, uint32_t before);
/* Puts the taken node at the front of the list again. */
void greedy_put_back(struct greedy *g, uint32_t node);

/* Finds g->partners of a node. */
void greedy_find_partners(struct greedy *g, uint32_t node);
/* Which modules right below the root have an alias. */
void greedy_find_aliases(struct greedy *g);
/* The node in the list that holds a tensor, or is it; NODE_NONE. */
uint32_t greedy_listed_around(const struct greedy *g, uint32_t tensor);

/*
 * fallback_allocation: puts the first node that takes at most `room` before the taken node, and
 * both at the front of the list. False: there is none, and nothing has changed.
 */
bool greedy_fall_back(struct greedy *g, uint32_t taken, int64_t room);

static inline int64_t greedy_size(const struct greedy *g, uint32_t node)
{
    return (int64_t)node_eighths(g->tree, node);
}

/* Sums of sizes may count a node several times. */
static inline int64_t greedy_size_add(int64_t a, int64_t b)
{
    return a > INT64_MAX / 2 - b ? INT64_MAX / 2 : a + b;
}
