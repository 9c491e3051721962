/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys of dictionaries and items of sets, found by hash. Two keys are one where Python's dictionary has them as
 * one when the merged file is loaded: 1, 1.0, True and numpy's 1 are; -0.0 is 0; a NaN and a tensor are keys of
 * their own wherever they stand. The hash selects, and full equality decides; both take time in proportion to
 * the files, since what a tuple is made of is numbered once, however many tuples share it.
 */
#pragma once

#include "tensor/torch/torch_node_map.h"
#include "tensor/torch/torch_value.h"

struct merge_state;

/* ---- a key that is not made of others ---- */

enum {
    WIDE_BYTES_MAX = 136 /* the greatest float has 1024 bits */
};

/* As Python has it, True and 1.0 are the key 1. */
bool key_to_integer(const struct pickle_node *key, int64_t *out);
/* Of whole numbers beyond 64 bits, int or float: two's complement, as short as it can be. */
bool key_to_digits(const struct pickle *pickle, const struct pickle_node *key,
                   char room[WIDE_BYTES_MAX], struct str *out);

/* What kind of key a node is when it has been loaded; those before KEY_COMPOUND are compared by their value. */
enum key_kind {
    KEY_NONE,
    KEY_INTEGER, /* it fits 64 bits, whatever type it is of */
    KEY_DIGITS,  /* a whole number that does not */
    KEY_REAL,    /* not whole, or infinite */
    KEY_TEXT,
    KEY_BYTES,
    KEY_GLOBAL,
    KEY_COMPOUND, /* made of other values */
    KEY_ITSELF    /* equal to nothing but the same object: NaN, a tensor */
};

struct key_scalar {
    enum key_kind kind;
    int64_t integer;
    double real;
    struct str bytes, module; /* borrowed from the pickle, or from the room */
};

/* Room for what is not in the pickle as it is compared. */
struct key_room {
    char digits[WIDE_BYTES_MAX];
    struct buf bytes;
};

/* Borrows until the room is used again. */
void key_scalar_take(const struct pickle *pickle, pickle_id id, struct key_room *room,
                     struct key_scalar *out);
uint64_t key_scalar_hash(const struct key_scalar *key, uint64_t seed);
bool key_scalars_equal(const struct key_scalar *a, const struct key_scalar *b);

/* ---- keys that are made of others ---- */

struct node_ref {
    uint32_t part;
    pickle_id id;
};

/* A key, or something that keys are made of. Equal ones have one form, and its number. */
struct key_form {
    uint64_t hash;
    struct node_ref ref; /* the first one that was met */
    uint32_t children_at, n_children;
    uint8_t kind;   /* enum pickle_kind of a compound; PICKLE_NONE of a scalar */
    bool is_itself; /* equal to nothing else, since a part of it is */
    bool is_opaque; /* made by a class of which it is not known what it calls equal */
};

struct key_pool {
    const struct merge_state *merge;
    uint64_t seed;           /* of all hashes: nobody can write a file whose keys all have one */
    struct node_map numbers; /* of compounds: number + 1 */
    struct key_form *forms;
    uint32_t *children, *slots; /* slots: number + 1 */
    size_t n_forms, cap_forms, n_children, cap_children, cap_slots;
    struct key_room rooms[2];
    bool met_splice; /* part of a key is a piece of a pickle, so it is not known what it is */
};

void key_pool_init(struct key_pool *pool, const struct merge_state *merge);
void key_pool_release(struct key_pool *pool);
/* Of a KEY_COMPOUND. */
uint32_t key_pool_number(struct key_pool *pool, struct node_ref ref);

/* ---- the keys of one or several dictionaries ---- */

/* What one dictionary has at a key. Of a set each item is its own value. */
struct key_value {
    uint32_t side;
    pickle_id value;
    uint32_t next; /* index + 1 of the value of a later side, 0: none */
};

/* A key by its number, in the order in which they were met. */
struct key_entry {
    uint32_t hash;
    struct node_ref ref;
    uint32_t first, last; /* values, as `next` */
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
/* The number of this key, which may be new. */
uint32_t torch_key_index_add(struct torch_key_index *index, struct node_ref key);
/*
 * Pairs of a dictionary, or items of a set; sides in ascending order. Of a key that is set twice the last value
 * counts. False if two objects of one file are such keys and look alike, so that only their class knows which
 * of another file's they are.
 */
bool torch_key_index_take(struct torch_key_index *index, uint32_t side, uint32_t part,
                          const struct pickle_node *members);
/* The number of the key with this text, UINT32_MAX if there is none. */
uint32_t torch_key_index_find_text(struct torch_key_index *index, struct str text);
/* The value of a key on a side, 0 if it has none. */
pickle_id torch_key_index_value(const struct torch_key_index *index, uint32_t number,
                                uint32_t side);
/* Is this key equal to nothing but the same object? */
bool torch_key_index_is_itself(struct torch_key_index *index, uint32_t number);
/* Is what it equals known to a class alone that is not known here? */
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
