/* SPDX-License-Identifier: Apache-2.0
 *
 * Which parameters share memory with one that a node holds, and are outside of it.
 *
 * Accelerate decides by text what is inside: a node holds a parameter if the node's name and a dot occur anywhere in
 * the parameter's name, so "model" holds "language_model.head.weight". Such a node has an alias. It is possible only
 * for a node whose module right below the root has a name that occurs again inside of a parameter's name; all other
 * nodes are compared by numbers.
 */
#include <string.h>

#include "core/partition_greedy.h"

/* Does a name occur in another one at `from` or later, and end there or before a dot? */
static bool name_occurs(struct str name, struct str in, size_t from)
{
    while (from + name.len <= in.len) {
        const char *at = memmem(in.at + from, in.len - from, name.at, name.len);
        if (!at)
            return false;
        size_t end = (size_t)(at - in.at) + name.len;
        if (end == in.len || in.at[end] == '.')
            return true;
        from = (size_t)(at - in.at) + 1;
    }
    return false;
}

static bool occurs_inside(const struct greedy *g, struct str name)
{
    for (uint32_t i = 0; i < g->tree->n_tied; i++)
        if (name_occurs(name, g->tree->model.tensors[g->tree->tied[i]].name, 1))
            return true;
    return false;
}

void greedy_find_aliases(struct greedy *g)
{
    for (uint32_t m = 1; m < g->tree->n_modules; m = g->tree->module_ends[m])
        g->has_alias[m] = occurs_inside(g, g->tree->model.modules[m].name);
}

static bool may_have_alias(const struct greedy *g, uint32_t node)
{
    for (uint32_t parent; (parent = node_parent(g->tree, node)) > 0;)
        node = parent;
    return node_is_module(g->tree, node) ? g->has_alias[node]
                                         : occurs_inside(g, node_name(g->tree, node));
}

static bool holds(const struct greedy *g, uint32_t node, bool by_text, uint32_t tensor)
{
    if (by_text)
        return name_occurs(node_name(g->tree, node), g->tree->model.tensors[tensor].name, 0);
    struct node_range inside = node_tensors(g->tree, node);
    return tensor >= inside.first && tensor < inside.end;
}

/* Adds the members of a group that are outside of a node, unless all are. */
static void group_look(struct greedy *g, uint32_t node, bool by_text, uint32_t group)
{
    if (g->group_looks[group] == g->look)
        return;
    g->group_looks[group] = g->look;
    uint32_t n_before = g->n_partners;
    struct node_range members = partition_group(g->tree, group);
    for (uint32_t i = members.first; i < members.end; i++)
        if (!holds(g, node, by_text, g->tree->members[i]))
            g->partners[g->n_partners++] = g->tree->members[i];
    if (g->n_partners - n_before == members.end - members.first)
        g->n_partners = n_before;
}

/* The number of tied parameters before a tensor. */
static uint32_t tied_before(const struct partition_tree *tree, uint32_t tensor)
{
    uint32_t first = 0, end = tree->n_tied;
    while (first < end) {
        uint32_t middle = first + (end - first) / 2;
        if (tree->tied[middle] < tensor)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

void greedy_find_partners(struct greedy *g, uint32_t node)
{
    const struct partition_tree *tree = g->tree;
    g->look++;
    g->n_partners = 0;
    bool by_text = tree->n_tied > 0 && may_have_alias(g, node);
    struct node_range inside =
        by_text ? (struct node_range){0, tree->n_tensors} : node_tensors(tree, node);
    for (uint32_t i = tied_before(tree, inside.first);
         i < tree->n_tied && tree->tied[i] < inside.end; i++)
        group_look(g, node, by_text, tree->model.tensors[tree->tied[i]].tied);
}

uint32_t greedy_listed_around(const struct greedy *g, uint32_t tensor)
{
    uint32_t node = node_of_tensor(g->tree, tensor);
    while (node > 0 && g->states[node] != NODE_LISTED)
        node = node_parent(g->tree, node);
    return node > 0 ? node : NODE_NONE;
}
