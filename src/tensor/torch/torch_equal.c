/* SPDX-License-Identifier: Apache-2.0
 *
 * When two values of different files are the same. Python's order of a set is an accident, and that of a
 * dictionary says when its keys were set: neither counts. That of an OrderedDict does.
 */
#include "base/xalloc.h"
#include "tensor/torch/torch_merge_impl.h"

enum {
    EQUAL_DEPTH_MAX = 500,
    COMPARED_MAX = 100 * 1000 * 1000 /* then they count as different: a few bytes can make 2^40 */
};

/* NOLINTBEGIN(misc-no-recursion): at most EQUAL_DEPTH_MAX deep */

static bool items_equal(const struct graft *graft, size_t part_a, const struct pickle_node *a,
                        size_t part_b, const struct pickle_node *b, unsigned depth)
{
    struct pickle_walk walk_a = pickle_items(a), walk_b = pickle_items(b);
    pickle_id id_a, id_b;
    if (a->count != b->count)
        return false;
    while ((id_a = pickle_next(graft_graph(graft, part_a), &walk_a)) != 0) {
        id_b = pickle_next(graft_graph(graft, part_b), &walk_b);
        if (!values_equal(graft, part_a, id_a, part_b, id_b, depth + 1))
            return false;
    }
    return true;
}

/* Have they their keys, or a set its items, in the same order? */
static bool orders_equal(const struct graft *graft, size_t part_a, const struct pickle_node *a,
                         size_t part_b, const struct pickle_node *b)
{
    struct pickle_walk walk_a = pickle_items(a), walk_b = pickle_items(b);
    for (pickle_id key; (key = pickle_next(graft_graph(graft, part_a), &walk_a)) != 0;) {
        if (!keys_equal(graft, part_a, key, part_b,
                        pickle_next(graft_graph(graft, part_b), &walk_b)))
            return false;
        if (a->kind == PICKLE_DICT) {
            pickle_next(graft_graph(graft, part_a), &walk_a);
            pickle_next(graft_graph(graft, part_b), &walk_b);
        }
    }
    return true;
}

/* Is each key of `a` one of `b`, with the same value? Of a key that is set twice the last value counts. */
static bool holds_all(const struct graft *graft, size_t part_a, const struct pickle_node *a,
                      size_t part_b, const struct pickle_node *b, unsigned depth)
{
    const struct pickle *graph = graft_graph(graft, part_a);
    struct pickle_walk walk = pickle_items(a);
    struct key_table own, table;
    bool is_same = true;
    keys_take(&own, graph, a);
    keys_take(&table, graft_graph(graft, part_b), b);
    for (pickle_id key; is_same && (key = pickle_next(graph, &walk)) != 0;) {
        pickle_id found = keys_find(graft, &table, part_b, part_a, key);
        pickle_id value = a->kind == PICKLE_DICT ? pickle_next(graph, &walk) : 0;
        if (value)
            value = keys_find(graft, &own, part_a, part_a, key);
        is_same = found && (!value || values_equal(graft, part_a, value, part_b, found, depth + 1));
    }
    free(own.at);
    free(table.at);
    return is_same;
}

/* Of pairs, or of the items of a set. With a key twice there are more of them, and each is in the other. */
static bool members_equal(const struct graft *graft, size_t part_a, const struct pickle_node *a,
                          size_t part_b, const struct pickle_node *b, unsigned depth)
{
    if (a->count == b->count && orders_equal(graft, part_a, a, part_b, b))
        return a->kind != PICKLE_DICT || items_equal(graft, part_a, a, part_b, b, depth);
    return holds_all(graft, part_a, a, part_b, b, depth) &&
           holds_all(graft, part_b, b, part_a, a, depth);
}

static bool globals_equal(const struct pickle *a, uint32_t global_a, const struct pickle *b,
                          uint32_t global_b)
{
    return str_equal(a->globals[global_a].name, b->globals[global_b].name) &&
           str_equal(a->globals[global_a].module, b->globals[global_b].module);
}

/* By checksum; where a file has none, storages are not the same. */
static bool storages_equal(const struct graft *graft, size_t part_a, uint32_t a, size_t part_b,
                           uint32_t b)
{
    const struct torch_file *file_a = &graft->parts[part_a].file;
    const struct torch_file *file_b = &graft->parts[part_b].file;
    const struct pickle_storage *left = &file_a->pickle.storages[a];
    const struct pickle_storage *right = &file_b->pickle.storages[b];
    return file_a->zip.has_crcs && file_b->zip.has_crcs && str_equal(left->type, right->type) &&
           left->n_elements == right->n_elements && str_equal(left->location, right->location) &&
           file_a->storage_crc[a] == file_b->storage_crc[b];
}

/* The list that protocol 2 makes a set of; NULL of another call. */
static const struct pickle_node *set_items(const struct pickle *graph,
                                           const struct pickle_node *call)
{
    const struct pickle_callable *known = call_known(graph, call);
    bool is_set =
        known && (strcmp(known->name, "set") == 0 || strcmp(known->name, "frozenset") == 0);
    const struct pickle_node *args = pickle_node(graph, call->call.args);
    const struct pickle_node *first = pickle_node(graph, pickle_item(graph, args, 0));
    return is_set && args->count == 1 && first->kind == PICKLE_LIST && !first->truth ? first : NULL;
}

static bool args_equal(const struct graft *graft, size_t part_a, const struct pickle_node *a,
                       size_t part_b, const struct pickle_node *b, unsigned depth)
{
    const struct pickle_node *set_a = set_items(graft_graph(graft, part_a), a);
    const struct pickle_node *set_b = set_items(graft_graph(graft, part_b), b);
    if (set_a && set_b)
        return members_equal(graft, part_a, set_a, part_b, set_b, depth);
    return values_equal(graft, part_a, a->call.args, part_b, b->call.args, depth + 1);
}

/* What was set in the result of a call. */
static bool pairs_equal(const struct graft *graft, size_t part_a, const struct pickle_node *a,
                        size_t part_b, const struct pickle_node *b, unsigned depth)
{
    const struct pickle *graph_a = graft_graph(graft, part_a);
    const struct pickle_callable *known = call_known(graph_a, a);
    const struct pickle_node *left = &pickle_later(graph_a, a)->pairs;
    const struct pickle_node *right = &pickle_later(graft_graph(graft, part_b), b)->pairs;
    bool is_ordered = !known || strcmp(known->name, "OrderedDict") == 0;
    return is_ordered ? items_equal(graft, part_a, left, part_b, right, depth)
                      : members_equal(graft, part_a, left, part_b, right, depth);
}

static bool calls_equal(const struct graft *graft, size_t part_a, const struct pickle_node *a,
                        size_t part_b, const struct pickle_node *b, unsigned depth)
{
    const struct pickle *graph_a = graft_graph(graft, part_a),
                        *graph_b = graft_graph(graft, part_b);
    const struct pickle_later *later_a = pickle_later(graph_a, a);
    const struct pickle_later *later_b = pickle_later(graph_b, b);
    return values_equal(graft, part_a, a->call.callee, part_b, b->call.callee, depth + 1) &&
           args_equal(graft, part_a, a, part_b, b, depth) &&
           items_equal(graft, part_a, &later_a->items, part_b, &later_b->items, depth) &&
           pairs_equal(graft, part_a, a, part_b, b, depth) &&
           items_equal(graft, part_a, &later_a->states, part_b, &later_b->states, depth);
}

bool values_equal(const struct graft *graft, size_t part_a, pickle_id id_a, size_t part_b,
                  pickle_id id_b, unsigned depth)
{
    const struct pickle *graph_a = graft_graph(graft, part_a),
                        *graph_b = graft_graph(graft, part_b);
    const struct pickle_node *a = pickle_node(graph_a, id_a), *b = pickle_node(graph_b, id_b);
    if (a->kind == PICKLE_SPLICE || b->kind == PICKLE_SPLICE)
        *graft->met_splice = true; /* what is in it is not known */
    if (a->kind != b->kind || depth > EQUAL_DEPTH_MAX || ++*graft->n_compared > COMPARED_MAX)
        return false;
    switch ((enum pickle_kind)a->kind) {
    case PICKLE_NONE:
        return true;
    case PICKLE_BOOL:
        return a->truth == b->truth;
    case PICKLE_INT:
    case PICKLE_FLOAT: /* by its bits: NaN is NaN */
        return a->integer == b->integer;
    case PICKLE_LONG:
    case PICKLE_TEXT:
    case PICKLE_BYTES:
    case PICKLE_BYTEARRAY:
        return str_equal(pickle_bytes(graph_a, a), pickle_bytes(graph_b, b));
    case PICKLE_GLOBAL:
        return globals_equal(graph_a, a->global, graph_b, b->global);
    case PICKLE_TUPLE:
    case PICKLE_LIST:
        return items_equal(graft, part_a, a, part_b, b, depth);
    case PICKLE_DICT:
    case PICKLE_SET:
    case PICKLE_FROZENSET:
        return members_equal(graft, part_a, a, part_b, b, depth);
    case PICKLE_CALL:
    case PICKLE_NEW:
        return calls_equal(graft, part_a, a, part_b, b, depth);
    case PICKLE_STORAGE:
        return storages_equal(graft, part_a, a->storage, part_b, b->storage);
    case PICKLE_SPLICE:
        return false;
    case PICKLE_OF:
        break;
    }
    BUG("kind %d", a->kind);
}

bool dicts_alike(const struct graft *graft, const struct pickle_node *first, size_t part,
                 const struct pickle_node *node)
{
    if (first->kind != node->kind || node->kind != PICKLE_CALL)
        return first->kind == node->kind;
    return values_equal(graft, 0, first->call.callee, part, node->call.callee, 0) &&
           items_equal(graft, 0, &pickle_later(graft_graph(graft, 0), first)->states, part,
                       &pickle_later(graft_graph(graft, part), node)->states, 0);
}

/* NOLINTEND(misc-no-recursion) */
