/* SPDX-License-Identifier: Apache-2.0
 *
 * fallback_allocation of Accelerate: if a device is empty and too small for the next node, the first later node that
 * fits goes there. The search covers all nodes of the list, and the parts of those that may be cut.
 */
#include "core/partition_greedy.h"

struct search {
    struct greedy *g;
    int64_t room;
    uint32_t listed; /* where the search is */
    uint32_t node;   /* that node, or one below it */
};

/*
 * The part that holds a partner: a part of the searched node or of a node around it, which the search would cut next
 * to get to `node`.
 */
static uint32_t part_around(const struct search *s, uint32_t tensor)
{
    const struct partition_tree *tree = s->g->tree;
    uint32_t first = node_tensors(tree, s->node).first, part = node_of_tensor(tree, tensor);
    while (node_tensors(tree, node_parent(tree, part)).first > first)
        part = node_parent(tree, part);
    return part;
}

/* Adds the size of the node that would have to come along. False: it was passed by, or is taken. */
static bool partner_add(const struct search *s, uint32_t tensor, int64_t *size)
{
    const struct greedy *g = s->g;
    uint32_t around = greedy_listed_around(g, tensor);
    if (around == NODE_NONE || (around != s->listed && g->searches[around] == g->n_searches))
        return false;
    if (around == s->listed) {
        if (tensor < node_tensors(g->tree, s->node).first)
            return false;
        around = part_around(s, tensor);
    }
    *size = greedy_size_add(*size, greedy_size(g, around) -
                                       greedy_size(g, node_of_tensor(g->tree, tensor)));
    return true;
}

static bool node_fits(const struct search *s)
{
    int64_t size = greedy_size(s->g, s->node);
    greedy_find_partners(s->g, s->node);
    for (uint32_t i = 0; i < s->g->n_partners; i++)
        if (!partner_add(s, s->g->partners[i], &size))
            return false;
    return size <= s->room;
}

/* Searches the parameters of a module that is cut. */
static bool parameters_search(struct search *s, uint32_t module)
{
    const struct partition_tree *tree = s->g->tree;
    for (uint32_t t = tree->first_tensor[module]; t < tree->first_tensor[module + 1]; t++) {
        s->node = node_of_tensor(tree, t);
        if (!tree->model.tensors[t].is_buffer && node_fits(s))
            return true;
    }
    return false;
}

/* Searches a node of the list, and what is below it. */
static bool listed_search(struct search *s)
{
    const struct partition_tree *tree = s->g->tree;
    s->node = s->listed;
    if (!node_is_module(tree, s->listed))
        return node_fits(s);
    for (uint32_t m = s->listed; m < tree->module_ends[s->listed];) {
        s->node = m;
        if (node_fits(s))
            return true;
        bool is_cut = node_can_split(tree, m);
        if (is_cut && parameters_search(s, m))
            return true;
        m = is_cut ? m + 1 : tree->module_ends[m];
    }
    return false;
}

/* Cuts the modules around the found node, so that the node itself is in the list. */
static void node_expose(const struct search *s)
{
    struct greedy *g = s->g;
    for (uint32_t around = s->listed; around != s->node;) {
        uint32_t part = s->node, before = g->next[around];
        while (node_parent(g->tree, part) != around)
            part = node_parent(g->tree, part);
        greedy_unlink(g, around);
        greedy_link_parts(g, around, before);
        around = part;
    }
}

bool greedy_fall_back(struct greedy *g, uint32_t taken, int64_t room)
{
    if (g->n_searches == FALLBACKS_PER_NODE * g->n_nodes)
        return false;
    struct search s = {.g = g, .room = room};
    g->n_searches++;
    for (s.listed = g->next[g->n_nodes]; s.listed != g->n_nodes; s.listed = g->next[s.listed]) {
        g->searches[s.listed] = g->n_searches;
        if (!listed_search(&s))
            continue;
        node_expose(&s);
        greedy_unlink(g, s.node);
        greedy_put_back(g, taken);
        greedy_link(g, s.node, g->next[g->n_nodes]);
        return true;
    }
    return false;
}
