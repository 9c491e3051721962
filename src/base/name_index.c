/* SPDX-License-Identifier: Apache-2.0 */
#include "base/name_index.h"

#include <xxhash.h>

#include "base/xalloc.h"

void name_index_release(struct name_index *index)
{
    buf_release(&index->text);
    free(index->ends);
    free(index->hashes);
    free(index->slots);
    *index = (struct name_index)NAME_INDEX_INIT;
}

struct str name_index_get(const struct name_index *index, size_t i)
{
    ASSERT(i < index->len);
    size_t begin = i > 0 ? index->ends[i - 1] : 0;
    return (struct str){buf_text(&index->text) + begin, index->ends[i] - begin};
}

static uint32_t hash_of(struct str name)
{
    return (uint32_t)XXH3_64bits(name.at, name.len);
}

static bool is_name(const struct name_index *index, size_t number, struct str name, uint32_t hash)
{
    return index->hashes[number] == hash && str_equal(name_index_get(index, number), name);
}

/* The slot that has the name, or the free one where it belongs. */
static uint32_t *slot_of(const struct name_index *index, struct str name, uint32_t hash)
{
    size_t mask = index->n_slots - 1, i = hash & mask;
    while (index->slots[i] && !is_name(index, index->slots[i] - 1, name, hash))
        i = (i + 1) & mask;
    return &index->slots[i];
}

static void slot_take(struct name_index *index, size_t number)
{
    uint32_t *slot = slot_of(index, name_index_get(index, number), index->hashes[number]);
    if (*slot == 0)
        *slot = (uint32_t)number + 1;
}

static void grow(struct name_index *index)
{
    index->cap = MAX(index->cap * 2, (size_t)8);
    index->n_slots = index->cap * 2;
    index->ends = xrealloc(index->ends, index->cap * sizeof(*index->ends));
    index->hashes = xrealloc(index->hashes, index->cap * sizeof(*index->hashes));
    free(index->slots);
    index->slots = xcalloc(index->n_slots, sizeof(*index->slots));
    for (size_t i = 0; i < index->len; i++)
        slot_take(index, i);
}

size_t name_index_find(const struct name_index *index, struct str name)
{
    uint32_t number = index->len > 0 ? *slot_of(index, name, hash_of(name)) : 0;
    return number > 0 ? number - 1 : NAME_NONE;
}

size_t name_index_add(struct name_index *index, struct str name)
{
    ASSERT(index->len < UINT32_MAX - 1);
    if (index->len == index->cap)
        grow(index);
    buf_add_str(&index->text, name);
    index->ends[index->len] = index->text.len;
    index->hashes[index->len++] = hash_of(name);
    slot_take(index, index->len - 1);
    return name_index_find(index, name);
}

size_t name_index_number(struct name_index *index, struct str name)
{
    size_t number = name_index_find(index, name);
    return number != NAME_NONE ? number : name_index_add(index, name);
}
