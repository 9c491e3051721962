/* SPDX-License-Identifier: Apache-2.0 */
#include <xxhash.h>

#include "base/xalloc.h"
#include "tensor/torch/torch_merge_impl.h"

static const uint32_t NO_KEY = UINT32_MAX;

void torch_key_index_init(struct torch_key_index *index, struct key_pool *pool)
{
    *index = (struct torch_key_index){.pool = pool};
}

void torch_key_index_release(struct torch_key_index *index)
{
    free(index->entries);
    free(index->values);
    free(index->slots);
    *index = (struct torch_key_index){0};
}

static const struct pickle *graph_of(const struct torch_key_index *index, struct node_ref ref)
{
    return torch_merge_graph(index->pool->merge, ref.part);
}

static void slots_grow(struct torch_key_index *index)
{
    if (index->n_entries * 2 < index->cap_slots)
        return;
    free(index->slots);
    index->cap_slots = MAX(index->cap_slots * 2, (size_t)16);
    index->slots = xcalloc(index->cap_slots, sizeof(*index->slots));
    for (size_t i = 0; i < index->n_entries; i++) {
        size_t at = index->entries[i].hash & (index->cap_slots - 1);
        while (index->slots[at] != 0)
            at = (at + 1) & (index->cap_slots - 1);
        index->slots[at] = (uint32_t)i + 1;
    }
}

/* A key to search for. pool_number is the number of its form, if it is compared by form. */
struct wanted {
    struct key_scalar scalar;
    uint32_t pool_number;
    uint32_t hash;
};

static struct wanted wanted_of(struct torch_key_index *index, struct node_ref ref)
{
    struct key_pool *pool = index->pool;
    struct wanted wanted = {.pool_number = NO_KEY};
    uint64_t hash;
    key_scalar_take(graph_of(index, ref), ref.id, &pool->rooms[0], &wanted.scalar);
    if (wanted.scalar.kind < KEY_COMPOUND) {
        hash = key_scalar_hash(&wanted.scalar, pool->seed);
    } else {
        wanted.pool_number = key_pool_number(pool, ref);
        hash = XXH3_64bits_withSeed(&wanted.pool_number, sizeof(wanted.pool_number), pool->seed);
    }
    wanted.hash = (uint32_t)(hash ^ hash >> 32);
    return wanted;
}

static bool is_wanted(struct torch_key_index *index, const struct key_entry *entry,
                      const struct wanted *wanted)
{
    struct key_scalar other;
    if (entry->hash != wanted->hash)
        return false;
    key_scalar_take(graph_of(index, entry->ref), entry->ref.id, &index->pool->rooms[1], &other);
    if (wanted->scalar.kind < KEY_COMPOUND)
        return key_scalars_equal(&other, &wanted->scalar);
    return other.kind >= KEY_COMPOUND &&
           key_pool_number(index->pool, entry->ref) == wanted->pool_number;
}

/* The slot of the key, or the free slot where it belongs. */
static uint32_t *slot_find(struct torch_key_index *index, const struct wanted *wanted)
{
    size_t mask = index->cap_slots - 1, at = wanted->hash & mask;
    while (index->slots[at] != 0 &&
           !is_wanted(index, &index->entries[index->slots[at] - 1], wanted))
        at = (at + 1) & mask;
    return &index->slots[at];
}

uint32_t torch_key_index_add(struct torch_key_index *index, struct node_ref key)
{
    slots_grow(index);
    struct wanted wanted = wanted_of(index, key);
    uint32_t *slot = slot_find(index, &wanted);
    if (*slot != 0)
        return *slot - 1;
    if (index->n_entries == index->cap_entries) {
        index->cap_entries = MAX(index->cap_entries + index->cap_entries / 2, (size_t)16);
        index->entries = xrealloc(index->entries, index->cap_entries * sizeof(*index->entries));
    }
    index->entries[index->n_entries] = (struct key_entry){.hash = wanted.hash, .ref = key};
    *slot = (uint32_t)++index->n_entries;
    return *slot - 1;
}

uint32_t torch_key_index_find_text(struct torch_key_index *index, struct str text)
{
    struct wanted wanted = {.scalar = {.kind = KEY_TEXT, .bytes = text}, .pool_number = NO_KEY};
    uint64_t hash = key_scalar_hash(&wanted.scalar, index->pool->seed);
    wanted.hash = (uint32_t)(hash ^ hash >> 32);
    return index->cap_slots > 0 ? *slot_find(index, &wanted) - 1 : NO_KEY;
}

static const struct key_form *form_of(struct torch_key_index *index, uint32_t number)
{
    struct node_ref ref = index->entries[number].ref;
    struct key_scalar scalar;
    key_scalar_take(graph_of(index, ref), ref.id, &index->pool->rooms[0], &scalar);
    return scalar.kind < KEY_COMPOUND ? NULL
                                      : &index->pool->forms[key_pool_number(index->pool, ref)];
}

bool torch_key_index_is_itself(struct torch_key_index *index, uint32_t number)
{
    const struct key_form *form = form_of(index, number);
    return form && form->is_itself;
}

bool torch_key_index_is_opaque(struct torch_key_index *index, uint32_t number)
{
    const struct key_form *form = form_of(index, number);
    return form && form->is_opaque;
}

static void value_add(struct torch_key_index *index, struct key_entry *entry,
                      struct key_value value)
{
    if (index->n_values == index->cap_values) {
        index->cap_values = MAX(index->cap_values + index->cap_values / 2, (size_t)16);
        index->values = xrealloc(index->values, index->cap_values * sizeof(*index->values));
    }
    ASSERT(index->values);
    index->values[index->n_values++] = value;
    uint32_t last = (uint32_t)index->n_values;
    if (entry->last)
        index->values[entry->last - 1].next = last;
    else
        entry->first = last;
    entry->last = last;
}

bool torch_key_index_take(struct torch_key_index *index, uint32_t side, uint32_t part,
                          const struct pickle_node *members)
{
    const struct pickle *graph = torch_merge_graph(index->pool->merge, part);
    struct pickle_walk walk = pickle_items(members);
    for (pickle_id key; (key = pickle_next(graph, &walk)) != 0;) {
        pickle_id id = members->kind == PICKLE_DICT ? pickle_next(graph, &walk) : key;
        uint32_t number = torch_key_index_add(index, (struct node_ref){part, key});
        struct key_entry *entry = &index->entries[number];
        struct key_value *last = entry->last ? &index->values[entry->last - 1] : NULL;
        if (!last || last->side != side)
            value_add(index, entry, (struct key_value){.side = side, .value = id});
        else if (torch_key_index_is_opaque(index, number))
            return false;
        else
            last->value = id;
    }
    return true;
}

pickle_id torch_key_index_value(const struct torch_key_index *index, uint32_t number, uint32_t side)
{
    const struct key_value *value = key_value_first(index, number);
    while (value && value->side < side)
        value = key_value_next(index, value);
    return value && value->side == side ? value->value : 0;
}
