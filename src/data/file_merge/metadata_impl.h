/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of metadata: metadata_members.c reads an object, metadata_level.c walks the members,
 * metadata_rules.c says by the name what becomes of a member, metadata_verbs.c carries out the
 * user's rules.
 */
#pragma once

#include "data/file_merge/metadata.h"

enum metadata_rule {
    RULE_KEEP, /* kept if it is the same in all files, else an array of what each file has */
    RULE_SUM,
    RULE_RATIO,
    RULE_BATCH_NAME,
    RULE_LATEST, /* for texts: the last one in the order of bytes */
    /* These apply at the top level only; in a nested object RULE_KEEP applies instead: */
    RULE_DROP,
    RULE_WHOLE, /* num_gpus, gpu_metadata: written at the end */
};
enum metadata_rule metadata_rule_of(struct str key);

struct member {
    struct str key, value; /* as written, but the key without its quotes */
};

/* The members of one object; empty where a file lacks the object. No two keys are equal once
 * decoded. */
struct members {
    struct member *at;
    size_t len;
    uint32_t *slots; /* a hash table of numbers + 1; 0: free; half of the slots are free */
    size_t n_slots;
};
/* False, and nothing is added, if there is a member with this key already. */
bool members_add(struct members *members, struct str key, struct str value);
void members_release(struct members *members);
/* The value of the member; at == NULL if there is no such member. */
struct str member_get(const struct members *members, struct str name);

/* One level: the object at the same place of every part. */
struct level {
    const struct metadata_opts *opts;
    const struct metadata_part *parts;
    const struct members *objects; /* n_parts */
    const struct str *texts;       /* their texts; at == NULL where a part has none */
    size_t n_parts;
    struct buf *path;   /* keys from the root, joined by dots; "." at the root */
    enum merge_verb by; /* DEEP: all have the same members; UNION: equal names, equal values */
    bool is_below;      /* not at the top level */
    bool is_settings;   /* these are settings, not counts: nothing is added up */
};
void level_note(const struct level *level, const char *fmt, ...) PRINTF(2, 3);
/* Fails with ERR_DATA; the message begins with the path. */
int level_fail(const struct level *level, struct err *err, const char *fmt, ...) PRINTF(3, 4);

/* Adds the merged object of the level, with its brackets. */
MUST_CHECK int level_merge(const struct level *level, struct buf *out, struct err *err);
/* Merges `values`, objects at the same place, one of each file, into one. */
MUST_CHECK int metadata_below(const struct level *level, struct str key, const struct str *values,
                              enum merge_verb by, struct buf *out, struct err *err);
MUST_CHECK int members_read(const char *name, struct str object, struct members *out,
                            struct err *err);
/* As member_get(), with the key as it is written in this or another file, with its escapes. */
struct str member_like(const struct members *members, struct str key);
/* True if the values are equal apart from white space; false where one of them is missing. */
bool metadata_is_same(struct str a, struct str b);
/* Orders two strings by the bytes of their characters, however these are written. */
int metadata_text_order(struct str a, struct str b);
/* Adds an array of the files' values, with null for a file that has none. */
void metadata_list(const struct str *values, size_t n_values, struct buf *out);
/* Parses a signed whole number; false for any other value. */
bool metadata_to_i64(struct str value, int64_t *out);
/* Carries out a rule: 1 if a value was added to out, 0 if the member is left out, or an error. */
MUST_CHECK int metadata_verb(const struct level *level, enum merge_verb verb, struct str key,
                             const struct str *values, struct buf *out, struct err *err);

/*
 * Each adds the result of the rule for the values of one member (n_parts of them, at == NULL where
 * a part has none). Returns 1 if a value was added to `out`, 0 if the rule does not fit the values
 * (the caller then uses RULE_KEEP), or an error.
 */
MUST_CHECK int metadata_sum(const struct level *level, struct str key, const struct str *values,
                            struct buf *out, struct err *err);
MUST_CHECK int metadata_ratio(const struct level *level, struct str key, const struct str *values,
                              struct buf *out, struct err *err);
MUST_CHECK int metadata_batch_name(const struct level *level, const struct str *values,
                                   struct buf *out);
MUST_CHECK int metadata_latest(const struct level *level, const struct str *values,
                               struct buf *out);
