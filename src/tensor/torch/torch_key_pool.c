/* SPDX-License-Identifier: Apache-2.0
 *
 * Compound keys get numbers from the inside out: a tuple is identified by the numbers of its items,
 * so equal tuples have one number, and an item of many tuples is looked at once. There is no
 * recursion, because a file may nest a million levels.
 */
#include <xxhash.h>

#include "tensor/grow.h"
#include "tensor/hash_seed.h"
#include "tensor/torch/torch_merge_impl.h"

enum {
    PENDING = UINT32_MAX /* in `numbers`: the node is being numbered */
};

/* The nodes that are being numbered, from the key down, and the ids of the parts of one of them. */
struct descent {
    struct visit {
        pickle_id id;
        bool is_left; /* its parts have their numbers */
    } * todo;
    pickle_id *ids;
    uint32_t *numbers;
    size_t n_todo, cap_todo, n_ids, cap_ids, n_numbers, cap_numbers;
};

void key_pool_init(struct key_pool *pool, const struct merge_state *merge)
{
    *pool = (struct key_pool){.merge = merge, .seed = hash_seed()};
}

void key_pool_release(struct key_pool *pool)
{
    node_map_release(&pool->numbers);
    free(pool->forms);
    free(pool->children);
    free(pool->slots);
    buf_release(&pool->rooms[0].bytes);
    buf_release(&pool->rooms[1].bytes);
    *pool = (struct key_pool){0};
}

/* ---- what a compound is made of ---- */

static void ids_add(struct descent *d, const struct pickle *graph, const struct pickle_node *items)
{
    struct pickle_walk walk = pickle_items(items);
    for (pickle_id id; (id = pickle_next(graph, &walk)) != 0;)
        PUSH(d->ids, d->n_ids, d->cap_ids, id);
}

static bool is_call(const struct pickle_node *node)
{
    return node->kind == PICKLE_CALL || node->kind == PICKLE_NEW;
}

/* The kind of the node when it has been loaded. Puts the node's parts into d->ids. */
static enum pickle_kind parts_take(struct descent *d, const struct pickle *graph, pickle_id id)
{
    const struct pickle_node *node = pickle_node(graph, id), *items = set_items(graph, node);
    enum pickle_kind kind = value_kind(graph, node);
    d->n_ids = 0;
    if (kind == PICKLE_TUPLE && node->kind == PICKLE_CALL) /* torch.Size */
        items = pickle_node(graph, pickle_item(graph, pickle_node(graph, node->call.args), 0));
    if (!is_call(node) || items) {
        ids_add(d, graph, items ? items : node);
        return kind;
    }
    const struct pickle_later *later = pickle_later(graph, node);
    PUSH(d->ids, d->n_ids, d->cap_ids, node->call.callee);
    PUSH(d->ids, d->n_ids, d->cap_ids, node->call.args);
    ids_add(d, graph, &later->items);
    ids_add(d, graph, &later->pairs);
    ids_add(d, graph, &later->states);
    return kind;
}

/* ---- forms ---- */

static uint32_t form_add(struct key_pool *pool, struct key_form form)
{
    PUSH(pool->forms, pool->n_forms, pool->cap_forms, form);
    return (uint32_t)pool->n_forms - 1;
}

static void slots_grow(struct key_pool *pool)
{
    if (pool->n_forms * 2 < pool->cap_slots)
        return;
    free(pool->slots);
    pool->cap_slots = MAX(pool->cap_slots * 2, (size_t)64);
    pool->slots = xcalloc(pool->cap_slots, sizeof(*pool->slots));
    for (size_t i = 0; i < pool->n_forms; i++) {
        size_t at = (size_t)pool->forms[i].hash & (pool->cap_slots - 1);
        while (pool->slots[at] != 0)
            at = (at + 1) & (pool->cap_slots - 1);
        if (!pool->forms[i].is_itself)
            pool->slots[at] = (uint32_t)i + 1;
    }
}

static bool is_form(struct key_pool *pool, const struct key_form *form,
                    const struct key_form *wanted, const struct key_scalar *scalar,
                    const uint32_t *numbers)
{
    struct key_scalar other;
    if (form->hash != wanted->hash || form->kind != wanted->kind ||
        form->n_children != wanted->n_children)
        return false;
    if (!scalar) /* () has no children, and pool->children may be NULL */
        return form->n_children == 0 || memcmp(pool->children + form->children_at, numbers,
                                               form->n_children * sizeof(*numbers)) == 0;
    key_scalar_take(torch_merge_graph(pool->merge, form->ref.part), form->ref.id, &pool->rooms[1],
                    &other);
    return key_scalars_equal(&other, scalar);
}

/* The number of the form: that of an equal form, or a new one. */
static uint32_t form_intern(struct key_pool *pool, struct key_form form,
                            const struct key_scalar *scalar, const uint32_t *numbers)
{
    slots_grow(pool);
    size_t mask = pool->cap_slots - 1, at = (size_t)form.hash & mask;
    for (; pool->slots[at] != 0; at = (at + 1) & mask)
        if (is_form(pool, &pool->forms[pool->slots[at] - 1], &form, scalar, numbers))
            return pool->slots[at] - 1;
    form.children_at = (uint32_t)pool->n_children;
    for (uint32_t i = 0; i < form.n_children; i++)
        PUSH(pool->children, pool->n_children, pool->cap_children, numbers[i]);
    pool->slots[at] = (uint32_t)pool->n_forms + 1;
    return form_add(pool, form);
}

/* Adds a form that is equal only to the same node. */
static uint32_t form_of_itself(struct key_pool *pool, struct node_ref ref)
{
    uint32_t number = form_add(pool, (struct key_form){.ref = ref, .is_itself = true});
    *node_map_at(&pool->numbers, ref.part, ref.id) = number + 1;
    return number;
}

/* ---- from the inside out ---- */

/*
 * The number of a part that is not a compound, or that has been numbered already; PENDING if the
 * part contains this node.
 */
static uint32_t part_number(struct key_pool *pool, struct node_ref ref)
{
    const struct pickle *graph = torch_merge_graph(pool->merge, ref.part);
    struct key_scalar scalar;
    key_scalar_take(graph, ref.id, &pool->rooms[0], &scalar);
    if (scalar.kind < KEY_COMPOUND)
        return form_intern(pool,
                           (struct key_form){.hash = key_scalar_hash(&scalar, pool->seed),
                                             .kind = PICKLE_NONE,
                                             .ref = ref},
                           &scalar, NULL);
    uint32_t number = *node_map_at(&pool->numbers, ref.part, ref.id);
    if (number > 0)
        return number == PENDING ? PENDING : number - 1;
    pool->met_splice |= pickle_node(graph, ref.id)->kind == PICKLE_SPLICE;
    return form_of_itself(pool, ref);
}

static int number_order(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

/* The order of a set's items does not count, nor do duplicates. */
static void numbers_sort(struct descent *d)
{
    size_t len = 0;
    if (d->n_numbers > 0)
        qsort(d->numbers, d->n_numbers, sizeof(*d->numbers), number_order);
    for (size_t i = 0; i < d->n_numbers; i++)
        if (i == 0 || d->numbers[i] != d->numbers[len - 1])
            d->numbers[len++] = d->numbers[i];
    d->n_numbers = len;
}

/* Numbers a compound whose parts have their numbers. */
static void compound_number(struct key_pool *pool, struct descent *d, struct node_ref ref)
{
    const struct pickle *graph = torch_merge_graph(pool->merge, ref.part);
    const struct pickle_node *node = pickle_node(graph, ref.id);
    struct key_form form = {.ref = ref, .kind = (uint8_t)parts_take(d, graph, ref.id)};
    bool is_itself = false;
    form.is_opaque = is_call(node) && !call_known(graph, node) && form.kind == node->kind;
    d->n_numbers = 0;
    for (size_t i = 0; i < d->n_ids; i++) {
        uint32_t number = part_number(pool, (struct node_ref){ref.part, d->ids[i]});
        is_itself = is_itself || number == PENDING || pool->forms[number].is_itself;
        form.is_opaque |= number != PENDING && pool->forms[number].is_opaque;
        PUSH(d->numbers, d->n_numbers, d->cap_numbers, number);
    }
    if (is_itself) {
        form_of_itself(pool, ref);
        return;
    }
    if (form.kind == PICKLE_SET || form.kind == PICKLE_FROZENSET)
        numbers_sort(d);
    if (is_call(node) && form.kind == node->kind) { /* the numbers of items and of pairs */
        const struct pickle_later *later = pickle_later(graph, node);
        PUSH(d->numbers, d->n_numbers, d->cap_numbers, later->items.count);
        PUSH(d->numbers, d->n_numbers, d->cap_numbers, later->pairs.count);
    }
    form.n_children = (uint32_t)d->n_numbers;
    form.hash = XXH3_64bits_withSeed(d->numbers, d->n_numbers * sizeof(*d->numbers),
                                     pool->seed + form.kind);
    uint32_t number = form_intern(pool, form, NULL, d->numbers);
    *node_map_at(&pool->numbers, ref.part, ref.id) = number + 1;
}

/* Is the node a compound that has no number yet? Then marks it as PENDING. */
static bool is_new(struct key_pool *pool, struct node_ref ref)
{
    struct key_scalar scalar;
    key_scalar_take(torch_merge_graph(pool->merge, ref.part), ref.id, &pool->rooms[0], &scalar);
    if (scalar.kind != KEY_COMPOUND)
        return false;
    uint32_t *number = node_map_at(&pool->numbers, ref.part, ref.id);
    if (*number != 0)
        return false;
    *number = PENDING;
    return true;
}

uint32_t key_pool_number(struct key_pool *pool, struct node_ref ref)
{
    const struct pickle *graph = torch_merge_graph(pool->merge, ref.part);
    struct descent d = {0};
    PUSH(d.todo, d.n_todo, d.cap_todo, (struct visit){ref.id, false});
    while (d.n_todo > 0) {
        struct visit visit = d.todo[--d.n_todo];
        struct node_ref at = {ref.part, visit.id};
        if (visit.is_left) {
            compound_number(pool, &d, at);
        } else if (is_new(pool, at)) {
            PUSH(d.todo, d.n_todo, d.cap_todo, (struct visit){visit.id, true});
            (void)parts_take(&d, graph, visit.id);
            for (size_t i = 0; i < d.n_ids; i++)
                PUSH(d.todo, d.n_todo, d.cap_todo, (struct visit){d.ids[i], false});
        }
    }
    free(d.todo);
    free(d.ids);
    free(d.numbers);
    return part_number(pool, ref);
}
