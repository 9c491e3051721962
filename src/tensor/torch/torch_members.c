/* SPDX-License-Identifier: Apache-2.0
 *
 * Adds members of dictionaries and sets to an index by their keys. A pickle may set one key a
 * million times, and refer to that dictionary in a million places, so repeated keys are removed
 * from a dictionary the first time it is read.
 */
#include "base/xalloc.h"
#include "tensor/pickle/pickle_impl.h"
#include "tensor/torch/torch_normalise.h"

const struct pickle_node *set_items(const struct pickle *graph, const struct pickle_node *call)
{
    const struct pickle_callable *known = call_known(graph, call);
    bool is_set =
        known && (strcmp(known->name, "set") == 0 || strcmp(known->name, "frozenset") == 0);
    if (!is_set)
        return NULL;
    const struct pickle_node *args = pickle_node(graph, call->call.args);
    const struct pickle_node *first = pickle_node(graph, pickle_item(graph, args, 0));
    return args->count == 1 && first->kind == PICKLE_LIST && !first->truth ? first : NULL;
}

enum pickle_kind value_kind(const struct pickle *graph, const struct pickle_node *node)
{
    const struct pickle_callable *known = call_known(graph, node);
    if (!known)
        return (enum pickle_kind)node->kind;
    if (set_items(graph, node))
        return strcmp(known->name, "set") == 0 ? PICKLE_SET : PICKLE_FROZENSET;
    const struct pickle_node *args = pickle_node(graph, node->call.args);
    const struct pickle_node *first = pickle_node(graph, pickle_item(graph, args, 0));
    bool is_size = known->result == RESULT_SIZE && args->count == 1 && first->kind == PICKLE_TUPLE;
    return is_size ? PICKLE_TUPLE : PICKLE_CALL;
}

/* The same node without const. It is one of graph->nodes, or a member of graph->later. */
static struct pickle_node *node_change(struct pickle *graph, const struct pickle_node *node)
{
    uintptr_t begin = (uintptr_t)graph->nodes, at = (uintptr_t)node;
    if (at >= begin && at < begin + graph->n_nodes * sizeof(*graph->nodes))
        return &graph->nodes[(at - begin) / sizeof(*graph->nodes)];
    return (struct pickle_node *)((char *)graph->later + (at - (uintptr_t)graph->later));
}

/*
 * Reduces the members to one for each key, at the place of its first member, with the value of its
 * last. False if the keys cannot be told apart.
 */
static bool members_thin(struct merge_state *merge, size_t part, const struct pickle_node *members)
{
    struct pickle *graph = torch_merge_graph_mutable(merge, part);
    struct pickle_node thin = {.kind = members->kind};
    struct torch_key_index own;
    torch_key_index_init(&own, &merge->pool);
    bool is_known = torch_key_index_take(&own, 0, (uint32_t)part, members);
    for (uint32_t i = 0; is_known && i < own.n_entries; i++) {
        pickle_id pair[2] = {own.entries[i].ref.id, torch_key_index_value(&own, i, 0)};
        bool has_pairs = members->kind == PICKLE_DICT;
        items_add(graph, &thin, pair, has_pairs ? 2 : 1);
        thin.count++;
    }
    torch_key_index_release(&own);
    if (is_known)
        *node_change(graph, members) = thin;
    return is_known;
}

bool torch_merge_members_take(struct merge_state *merge, uint32_t side, size_t part,
                              const struct pickle_node *members, struct torch_key_index *keys)
{
    size_t before = keys->n_values;
    bool is_known = torch_key_index_take(keys, side, (uint32_t)part, members);
    if (is_known && keys->n_values - before < members->count)
        is_known = members_thin(merge, part, members);
    return is_known;
}

int keys_untold(struct merge_state *merge, size_t part)
{
    return torch_merge_fail(
        merge,
        "has keys in %s that look alike and belong to a class whose equality muster "
        "does not know; --rule '%s=first' takes the first file's dictionary",
        torch_merge_file_name(merge, part), buf_text(&merge->path));
}

int torch_merge_keys_take(struct merge_state *merge, size_t part, pickle_id id,
                          struct torch_key_index *keys)
{
    const struct pickle_node *pairs = dict_pairs(torch_merge_graph(merge, part), id);
    if (!pairs)
        return torch_merge_fail(merge, "is no dictionary in %s",
                                torch_merge_file_name(merge, part));
    bool is_known = torch_merge_members_take(merge, (uint32_t)part, part, pairs, keys);
    *merge->met_splice |= merge->pool.met_splice;
    return is_known ? 0 : keys_untold(merge, part);
}
