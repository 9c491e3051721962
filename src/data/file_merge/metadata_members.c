/* SPDX-License-Identifier: Apache-2.0
 *
 * The members of one object, in the order of the file, found by their decoded keys.
 */
#include <xxhash.h>

#include "base/json_rough.h"
#include "base/xalloc.h"
#include "data/file_merge/metadata_impl.h"

enum {
    SLOTS_MIN = 16
};

static bool is_escaped(struct str key)
{
    return memchr(key.at, '\\', key.len) != NULL;
}

/* A hash of the decoded key, so that keys which differ only in their escapes have one hash. */
static uint64_t key_hash(struct str key)
{
    cleanup_buf struct buf text = BUF_INIT;
    bool has_text = key.len > 0 && is_escaped(key) && json_key_to_text(key, &text);
    return has_text ? XXH3_64bits(text.at, text.len) : XXH3_64bits(key.at, key.len);
}

/* The slot of the member of this name, or the free slot where it belongs. */
static size_t slot_find(const struct members *members, struct str name, uint64_t hash,
                        bool (*is_equal)(struct str key, struct str name))
{
    size_t mask = members->n_slots - 1, slot = (size_t)hash & mask;
    while (members->slots[slot] != 0 && !is_equal(members->at[members->slots[slot] - 1].key, name))
        slot = (slot + 1) & mask;
    return slot;
}

static void slots_grow(struct members *members)
{
    members->n_slots = MAX(2 * members->n_slots, (size_t)SLOTS_MIN);
    free(members->slots);
    members->slots = xcalloc(members->n_slots, sizeof(*members->slots));
    for (size_t i = 0; i < members->len; i++) {
        struct str key = members->at[i].key;
        members->slots[slot_find(members, key, key_hash(key), json_keys_equal)] = (uint32_t)i + 1;
    }
    members->at = xrealloc(members->at, members->n_slots / 2 * sizeof(*members->at));
}

bool members_add(struct members *members, struct str key, struct str value)
{
    if (members->len == members->n_slots / 2)
        slots_grow(members);
    size_t slot = slot_find(members, key, key_hash(key), json_keys_equal);
    if (members->slots[slot] != 0)
        return false;
    members->at[members->len++] = (struct member){key, value};
    members->slots[slot] = (uint32_t)members->len;
    return true;
}

void members_release(struct members *members)
{
    free(members->at);
    free(members->slots);
    *members = (struct members){0};
}

static struct str value_at(const struct members *members, size_t slot)
{
    uint32_t number = members->slots[slot];
    return number != 0 ? members->at[number - 1].value : (struct str){NULL, 0};
}

struct str member_get(const struct members *members, struct str name)
{
    if (members->len == 0)
        return (struct str){NULL, 0};
    return value_at(members,
                    slot_find(members, name, XXH3_64bits(name.at, name.len), json_key_equal));
}

struct str member_like(const struct members *members, struct str key)
{
    if (members->len == 0)
        return (struct str){NULL, 0};
    return value_at(members, slot_find(members, key, key_hash(key), json_keys_equal));
}

int members_read(const char *name, struct str object, struct members *out, struct err *err)
{
    struct json_members walk = json_members(object);
    struct str key, value;
    while (json_next(&walk, &key, &value))
        if (!members_add(out, key, value))
            return fail(err, ERR_DATA, "%s has '%.*s' twice", name, (int)MIN(key.len, (size_t)60),
                        key.at);
    if (!walk.malformed)
        return 0;
    if (json_flaw(object, &value))
        return wrap(err, json_refuse(object, ERR_DATA, err), "%s", name);
    return fail(err, ERR_DATA,
                "%s is not one JSON object; if it has one value a line, say --format jsonl", name);
}
