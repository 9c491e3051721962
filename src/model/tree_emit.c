/* SPDX-License-Identifier: Apache-2.0
 *
 * Brings a tree into depth-first order. Siblings are ordered by rank, then by number, then as in the files.
 */
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/xalloc.h"
#include "model/tree_impl.h"
#include "tensor/grow.h"

/* ---- order ---- */

struct sibling {
    uint32_t node, rank;
    uint64_t number;
};

static int sibling_order(const void *a, const void *b)
{
    const struct sibling *left = a, *right = b;
    if (left->rank != right->rank)
        return left->rank < right->rank ? -1 : 1;
    if (left->number != right->number)
        return left->number < right->number ? -1 : 1;
    return left->node < right->node ? -1 : 1;
}

/* Relinks the children of a node. */
static void children_sort(struct tree_maker *maker, uint32_t parent, struct sibling *room)
{
    size_t n = 0;
    uint32_t child = maker->nodes[parent].first_child;
    for (; child > 0; child = maker->nodes[child].next)
        room[n++] = (struct sibling){child, maker->nodes[child].rank, maker->nodes[child].number};
    if (n < 2)
        return;
    qsort(room, n, sizeof(*room), sibling_order);
    maker->nodes[parent].first_child = room[0].node;
    for (size_t i = 0; i < n; i++)
        maker->nodes[room[i].node].next = i + 1 < n ? room[i + 1].node : 0;
}

/* A linear layer registers its weight before its bias; parameters come before buffers. */
static int tensor_rank(const struct tree_maker *maker, uint32_t tensor)
{
    struct str name = name_index_get(&maker->tree->tensor_names, tensor);
    if (maker->tensors[tensor].is_buffer)
        return 3;
    if (str_ends_with(name, STR(".weight")))
        return 0;
    return str_ends_with(name, STR(".bias")) ? 1 : 2;
}

/* ---- the cache ---- */

/* The tokens of each layer that config.json lists; without a list there are none. */
static void layers_read(struct tree_maker *maker)
{
    struct str config = buf_str(&maker->model->config_text), list, type, inner;
    size_t cap = 0;
    bool is_begun = false;
    if (json_get(config, "text_config", &inner) && json_kind_of(inner) == JSON_OBJECT)
        config = inner;
    if (!json_get(config, "layer_types", &list))
        return;
    while (json_element(&list, &is_begun, &type))
        PUSH(maker->layer_tokens, maker->n_layer_tokens, cap,
             layer_type_tokens(type, maker->model->config.window, maker->wish->context));
}

static void module_cache_set(struct tree_maker *maker, struct partition_module *module,
                             const struct tree_node *node)
{
    struct model_tree *tree = maker->tree;
    const struct model_config *c = &maker->model->config;
    uint32_t element = maker->wish->type_bytes > 0 ? maker->wish->type_bytes : c->element_bytes;
    tree->n_blocks += node->is_whole;
    if (!node->is_whole || !node->has_cache)
        return;
    tree->lacks_cache |= !model_config_has_cache(c);
    if (tree->lacks_cache)
        return;
    uint64_t tokens = node->number < maker->n_layer_tokens
                          ? maker->layer_tokens[node->number]
                          : model_config_layer_tokens(c, node->number, maker->wish->context);
    double token = model_config_cache_elements(c) * element;
    double all = token * (double)tokens * (double)maker->wish->batch;
    tree->n_cached += tokens > 0;
    tree->cache_bytes += (uint64_t)MIN(all, (double)PARTITION_BYTES_MAX);
    module->kv_bytes = (uint64_t)MIN(all, (double)PARTITION_BYTES_MAX);
}

/* ---- the arrays ---- */

static void tensors_put(struct tree_maker *maker, uint32_t node, uint32_t module)
{
    struct model_tree *tree = maker->tree;
    for (int rank = 0; rank <= 3; rank++) {
        uint32_t at = maker->nodes[node].first_tensor;
        for (; at > 0; at = maker->tensors[at - 1].next) {
            const struct tree_tensor *tensor = &maker->tensors[at - 1];
            if (tensor_rank(maker, at - 1) != rank)
                continue;
            tree->tensors[tree->of.n_tensors++] =
                (struct partition_tensor){.name = name_index_get(&tree->tensor_names, at - 1),
                                          .bytes = tensor->bytes,
                                          .module = module,
                                          .is_buffer = tensor->is_buffer,
                                          .is_bool = tensor->is_bool,
                                          .tied = tensor->tied};
        }
    }
}

static uint32_t module_put(struct tree_maker *maker, uint32_t node, uint32_t parent)
{
    struct model_tree *tree = maker->tree;
    const struct tree_node *from = &maker->nodes[node];
    uint32_t number = (uint32_t)tree->of.n_modules++;
    tree->modules[number] = (struct partition_module){.name = tree_node_name(maker, node),
                                                      .parent = parent,
                                                      .is_whole = from->is_whole,
                                                      .class_number = from->class_number};
    module_cache_set(maker, &tree->modules[number], from);
    tensors_put(maker, node, number);
    return number;
}

void tree_emit(struct tree_maker *maker)
{
    struct model_tree *tree = maker->tree;
    cleanup_free struct sibling *room = xcalloc(maker->n_nodes, sizeof(*room));
    cleanup_free uint32_t *numbers = xcalloc(maker->n_nodes, sizeof(*numbers)); /* as modules */
    tree->modules = xcalloc(maker->n_nodes, sizeof(*tree->modules));
    tree->tensors = xcalloc(maker->n_tensors + 1, sizeof(*tree->tensors));
    layers_read(maker);
    for (uint32_t i = 0; i < maker->n_nodes; i++)
        children_sort(maker, i, room);
    for (uint32_t at = 0;;) {
        numbers[at] = module_put(maker, at, numbers[maker->nodes[at].parent]);
        uint32_t next = maker->nodes[at].first_child;
        while (next == 0 && at > 0) {
            next = maker->nodes[at].next;
            at = maker->nodes[at].parent;
        }
        if (next == 0)
            break;
        at = next;
    }
    tree->of.modules = tree->modules;
    tree->of.tensors = tree->tensors;
}
