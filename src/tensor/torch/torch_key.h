/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys of dictionaries and items of sets, found by hash. Two keys are equal if they are one key of
 * a Python dictionary when the merged file is loaded: 1, 1.0, True and numpy's 1 are equal; -0.0
 * equals 0; a NaN or a tensor equals only itself. The hash selects candidates, and a full
 * comparison decides; both take time in proportion to the files, because the parts of tuples are
 * numbered once, however many tuples share them.
 */
#pragma once

#include "tensor/torch/torch_node_map.h"
#include "tensor/torch/torch_value.h"

struct merge_state;

/* ---- a key that is not made of others ---- */

enum {
    WIDE_BYTES_MAX = 136 /* the largest float has 1024 bits */
};

/*
 * The key as a whole number of 64 bits; as in Python, True and 1.0 are the key 1. False if the key
 * is not such a number.
 */
bool key_to_integer(const struct pickle_node *key, int64_t *out);
/* The digits of a whole number beyond 64 bits, int or float: two's complement, as short as
 * possible. False for other keys. */
bool key_to_digits(const struct pickle *pickle, const struct pickle_node *key,
                   char room[WIDE_BYTES_MAX], struct str *out);

/* What kind of key a node is when it has been loaded; the kinds before KEY_COMPOUND are compared by
 * value. */
enum key_kind {
    KEY_NONE,
    KEY_INTEGER, /* a whole number of any type that fits 64 bits */
    KEY_DIGITS,  /* a whole number that does not fit 64 bits */
    KEY_REAL,    /* a number that is not whole, or infinite */
    KEY_TEXT,
    KEY_BYTES,
    KEY_GLOBAL,
    KEY_COMPOUND, /* made of other values */
    KEY_ITSELF    /* equal only to the same object: NaN, a tensor */
};

struct key_scalar {
    enum key_kind kind;
    int64_t integer;
    double real;
    struct str bytes, module; /* borrowed from the pickle, or from the room */
};

/* Room for values that the pickle has in another form than they are compared in. */
struct key_room {
    char digits[WIDE_BYTES_MAX];
    struct buf bytes;
};

/* Gives the key's kind and value; *out is valid until the room is used again. */
void key_scalar_take(const struct pickle *pickle, pickle_id id, struct key_room *room,
                     struct key_scalar *out);
uint64_t key_scalar_hash(const struct key_scalar *key, uint64_t seed);
bool key_scalars_equal(const struct key_scalar *a, const struct key_scalar *b);

/* ---- keys that are made of others ---- */

struct node_ref {
    uint32_t part;
    pickle_id id;
};

/* A key, or a part of keys. Equal keys have one form, and each form has a number. */
struct key_form {
    uint64_t hash;
    struct node_ref ref; /* the first node of this form */
    uint32_t children_at, n_children;
    uint8_t kind;   /* enum pickle_kind of a compound; PICKLE_NONE of a scalar */
    bool is_itself; /* a part of it equals only itself, and so does it */
    bool is_opaque; /* its class has an unknown equality */
};

struct key_pool {
    const struct merge_state *merge;
    uint64_t seed;           /* random, so that nobody can write a file whose keys all collide */
    struct node_map numbers; /* compounds: number + 1 */
    struct key_form *forms;
    uint32_t *children, *slots; /* slots: number + 1 */
    size_t n_forms, cap_forms, n_children, cap_children, cap_slots;
    struct key_room rooms[2];
    bool met_splice; /* a part of a key is in a splice, so its value is unknown */
};

void key_pool_init(struct key_pool *pool, const struct merge_state *merge);
void key_pool_release(struct key_pool *pool);
/* The number of the form of a KEY_COMPOUND. */
uint32_t key_pool_number(struct key_pool *pool, struct node_ref ref);

/* ---- the keys of one or several dictionaries ---- */

/* The value that one dictionary has at a key. Each item of a set is its own value. */
struct key_value {
    uint32_t side;
    pickle_id value;
    uint32_t next; /* index + 1 of the value of a later side; 0: no later side */
};

/* A key. Its number is its index; keys are in the order in which they were added. */
struct key_entry {
    uint32_t hash;
    struct node_ref ref;
    uint32_t first, last; /* indices of its values, as in `next` */
};

struct torch_key_index {
    struct key_pool *pool;
    struct key_entry *entries;
    struct key_value *values;
    uint32_t *slots; /* number + 1 */
    size_t n_entries, cap_entries, n_values, cap_values, cap_slots;
};

void torch_key_index_init(struct torch_key_index *index, struct key_pool *pool);
void torch_key_index_release(struct torch_key_index *index);
/* The number of this key. Adds the key if it is new. */
uint32_t torch_key_index_add(struct torch_key_index *index, struct node_ref key);
/*
 * Adds the pairs of a dictionary, or the items of a set; sides must come in ascending order. If a
 * key is set twice, the last value counts. False if two keys of one side look alike and are of a
 * class whose equality is unknown: they cannot be matched with keys of other files.
 */
bool torch_key_index_take(struct torch_key_index *index, uint32_t side, uint32_t part,
                          const struct pickle_node *members);
/* The number of the key with this text; UINT32_MAX if there is no such key. */
uint32_t torch_key_index_find_text(struct torch_key_index *index, struct str text);
/* The value of a key on a side; 0 if the side has no such key. */
pickle_id torch_key_index_value(const struct torch_key_index *index, uint32_t number,
                                uint32_t side);
/* Is this key equal only to the same object? */
bool torch_key_index_is_itself(struct torch_key_index *index, uint32_t number);
/* Is this key, or a part of it, of a class whose equality is unknown? */
bool torch_key_index_is_opaque(struct torch_key_index *index, uint32_t number);

static inline const struct key_value *key_value_first(const struct torch_key_index *index,
                                                      uint32_t number)
{
    uint32_t first = index->entries[number].first;
    return first ? &index->values[first - 1] : NULL;
}

static inline const struct key_value *key_value_next(const struct torch_key_index *index,
                                                     const struct key_value *value)
{
    return value->next ? &index->values[value->next - 1] : NULL;
}
