/* SPDX-License-Identifier: Apache-2.0 */
#include "map/key_index.h"

#include <xxhash.h>

#include "base/json.h"
#include "base/json_identity.h"
#include "base/xalloc.h"

/* Open addressing with linear probing; `hash` 0 = free. Two values with the same 64-bit hash are
 * not told apart: among a few thousand items in flight the chance of that is 1 in 10^12. */
struct entry {
    uint64_t hash, item;
};

struct key_index {
    struct entry *entries;
    size_t cap, used; /* cap is a power of two */
    struct buf value; /* the current value, in the form that equal values share */
};

static uint64_t value_hash(struct key_index *key_index, struct str value)
{
    buf_reset(&key_index->value);
    buf_add_json_identity(&key_index->value, value);
    return XXH3_64bits(key_index->value.at, key_index->value.len) | 1;
}

static void entry_put(struct key_index *key_index, uint64_t hash, uint64_t item)
{
    size_t at = hash & (key_index->cap - 1);
    while (key_index->entries[at].hash)
        at = (at + 1) & (key_index->cap - 1);
    key_index->entries[at] = (struct entry){hash, item};
    key_index->used++;
}

static void grow(struct key_index *key_index)
{
    struct key_index bigger = {.cap = key_index->cap ? key_index->cap * 2 : 64,
                               .value = key_index->value};
    bigger.entries = xcalloc(bigger.cap, sizeof(*bigger.entries));
    for (size_t i = 0; i < key_index->cap; i++)
        if (key_index->entries[i].hash)
            entry_put(&bigger, key_index->entries[i].hash, key_index->entries[i].item);
    free(key_index->entries);
    *key_index = bigger;
}

/* The index of the entry with that hash, or of the free one where it would be. */
static size_t entry_find(const struct key_index *key_index, uint64_t hash)
{
    size_t at = hash & (key_index->cap - 1);
    while (key_index->entries[at].hash && key_index->entries[at].hash != hash)
        at = (at + 1) & (key_index->cap - 1);
    return at;
}

enum key_end key_index_add(struct key_index **key_index, const char *field, uint64_t first,
                           struct str lines, uint64_t *n_added, size_t *n_bytes)
{
    struct str rest = lines, line, value;
    if (!*key_index)
        *key_index = xcalloc(1, sizeof(**key_index));
    *n_added = *n_bytes = 0;
    while (rest.len > 0 && str_next(&rest, '\n', &line)) {
        if (!json_get(line, field, &value))
            return KEY_MISSING;
        if (((*key_index)->used + 1) * 2 > (*key_index)->cap)
            grow(*key_index);
        uint64_t hash = value_hash(*key_index, value);
        if ((*key_index)->entries[entry_find(*key_index, hash)].hash)
            return KEY_TAKEN;
        entry_put(*key_index, hash, first + (*n_added)++);
        *n_bytes = (size_t)(line.at + line.len - lines.at) + 1;
    }
    return KEY_ALL;
}

/* Deletion with linear probing: entries that follow are moved up, so that they are still found. */
static void entry_remove(struct key_index *key_index, size_t at)
{
    size_t mask = key_index->cap - 1;
    key_index->used--;
    key_index->entries[at].hash = 0;
    for (size_t next = (at + 1) & mask; key_index->entries[next].hash; next = (next + 1) & mask) {
        struct entry moved = key_index->entries[next];
        key_index->entries[next].hash = 0;
        key_index->used--;
        entry_put(key_index, moved.hash, moved.item);
    }
}

bool key_index_take(struct key_index *key_index, const char *field, struct str answer,
                    uint64_t *item)
{
    struct str value;
    return json_get(answer, field, &value) && key_index_take_value(key_index, value, item);
}

bool key_index_take_value(struct key_index *key_index, struct str value, uint64_t *item)
{
    if (!key_index || key_index->cap == 0)
        return false;
    size_t at = entry_find(key_index, value_hash(key_index, value));
    if (!key_index->entries[at].hash)
        return false;
    *item = key_index->entries[at].item;
    entry_remove(key_index, at);
    return true;
}

void key_index_free(struct key_index *key_index)
{
    if (!key_index)
        return;
    buf_release(&key_index->value);
    free(key_index->entries);
    free(key_index);
}
