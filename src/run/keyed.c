/* SPDX-License-Identifier: Apache-2.0 */
#include "run/keyed.h"

#include <xxhash.h>

#include "base/json.h"
#include "base/json_identity.h"
#include "base/xalloc.h"

/* Open addressing with linear probing; `hash` 0 = free. Two values with one 64-bit hash are told
 * apart by nobody: among the few thousand items in flight that is a chance of 1 in 10^12. */
struct entry {
    uint64_t hash, item;
};

struct keyed {
    struct entry *entries;
    size_t cap, used; /* cap is a power of two */
    struct buf value; /* the one at hand, in the form that equal values share */
};

static uint64_t value_hash(struct keyed *keyed, struct str value)
{
    buf_reset(&keyed->value);
    buf_add_json_identity(&keyed->value, value);
    return XXH3_64bits(keyed->value.at, keyed->value.len) | 1;
}

static void entry_put(struct keyed *keyed, uint64_t hash, uint64_t item)
{
    size_t at = hash & (keyed->cap - 1);
    while (keyed->entries[at].hash)
        at = (at + 1) & (keyed->cap - 1);
    keyed->entries[at] = (struct entry){hash, item};
    keyed->used++;
}

static void grow(struct keyed *keyed)
{
    struct keyed bigger = {.cap = keyed->cap ? keyed->cap * 2 : 64, .value = keyed->value};
    bigger.entries = xcalloc(bigger.cap, sizeof(*bigger.entries));
    for (size_t i = 0; i < keyed->cap; i++)
        if (keyed->entries[i].hash)
            entry_put(&bigger, keyed->entries[i].hash, keyed->entries[i].item);
    free(keyed->entries);
    *keyed = bigger;
}

uint64_t keyed_add(struct keyed **keyed, const char *field, uint64_t first, struct str lines,
                   size_t *bytes_out)
{
    struct str rest = lines, line, value;
    uint64_t n_items = 0;
    if (!*keyed)
        *keyed = xcalloc(1, sizeof(**keyed));
    *bytes_out = 0;
    while (rest.len > 0 && str_next(&rest, '\n', &line) && json_get(line, field, &value)) {
        if (((*keyed)->used + 1) * 2 > (*keyed)->cap)
            grow(*keyed);
        entry_put(*keyed, value_hash(*keyed, value), first + n_items);
        n_items++;
        *bytes_out = (size_t)(line.at + line.len - lines.at) + 1;
    }
    return n_items;
}

/* Deleting in linear probing: what follows in the run moves up to where it is still found. */
static void entry_remove(struct keyed *keyed, size_t at)
{
    size_t mask = keyed->cap - 1;
    keyed->used--;
    keyed->entries[at].hash = 0;
    for (size_t next = (at + 1) & mask; keyed->entries[next].hash; next = (next + 1) & mask) {
        struct entry moved = keyed->entries[next];
        keyed->entries[next].hash = 0;
        keyed->used--;
        entry_put(keyed, moved.hash, moved.item);
    }
}

bool keyed_take(struct keyed *keyed, const char *field, struct str answer, uint64_t *item)
{
    struct str value;
    return json_get(answer, field, &value) && keyed_take_value(keyed, value, item);
}

bool keyed_take_value(struct keyed *keyed, struct str value, uint64_t *item)
{
    if (!keyed || keyed->cap == 0)
        return false;
    uint64_t hash = value_hash(keyed, value);
    size_t mask = keyed->cap - 1;
    for (size_t at = hash & mask; keyed->entries[at].hash; at = (at + 1) & mask) {
        if (keyed->entries[at].hash != hash)
            continue;
        *item = keyed->entries[at].item;
        entry_remove(keyed, at);
        return true;
    }
    return false;
}

void keyed_free(struct keyed *keyed)
{
    if (!keyed)
        return;
    buf_release(&keyed->value);
    free(keyed->entries);
    free(keyed);
}
