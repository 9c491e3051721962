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
    RULE_LATEST, /* of texts, the last in the order of bytes */
    /* At the top level only; in a nested object RULE_KEEP instead: */
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
    uint32_t *slots; /* a hash table: 0, or the member's number + 1; half of them are free */
    size_t n_slots;
};
/* False, and nothing is added, if the key is there already. */
bool members_add(struct members *members, struct str key, struct str value);
void members_release(struct members *members);
/* The value of the member; at == NULL: there is none. */
struct str member_get(const struct members *members, struct str name);

/* One level: the object at the same place of every part. */
struct level {
    const struct metadata_opts *opts;
    const struct metadata_part *parts;
    const struct members *objects; /* n_parts */
    const struct str *texts;       /* of these objects; at NULL where there is none */
    size_t n_parts;
    struct buf *path;   /* keys from the root, joined by dots; "." at the root */
    enum merge_verb by; /* DEEP: all have the same members; UNION: those of one name are equal */
    bool is_below;      /* not at the top level */
    bool is_settings;   /* these are settings, not counts: nothing is added up */
};
void level_note(const struct level *level, const char *fmt, ...) PRINTF(2, 3);
/* ERR_DATA with the path in front. */
int level_fail(const struct level *level, struct err *err, const char *fmt, ...) PRINTF(3, 4);

/* Adds the object that the objects of the level become, with its brackets. */
MUST_CHECK int level_merge(const struct level *level, struct buf *out, struct err *err);
/* Merges `values`, objects at the same place, one of each file, into one. */
MUST_CHECK int metadata_below(const struct level *level, struct str key, const struct str *values,
                              enum merge_verb by, struct buf *out, struct err *err);
MUST_CHECK int members_read(const char *name, struct str object, struct members *out,
                            struct err *err);
/* member_get() by a key as it is written in this or another file, with its escapes. */
struct str member_like(const struct members *members, struct str key);
/* Equal apart from white space; false where one of them is missing. */
bool metadata_is_same(struct str a, struct str b);
/* Of two strings, by the bytes of their characters, however these are written. */
int metadata_text_order(struct str a, struct str b);
/* Adds an array of what each file has, null where it has none. */
void metadata_list(const struct str *values, size_t n_values, struct buf *out);
/* Whole numbers only, signed. */
bool metadata_to_i64(struct str value, int64_t *out);
/* Carries out a rule: 1 if a value was added to out, 0 if the member is left out, or an error. */
MUST_CHECK int metadata_verb(const struct level *level, enum merge_verb verb, struct str key,
                             const struct str *values, struct buf *out, struct err *err);

/*
 * Add what the rule makes of the values of one member (n_parts of them, at == NULL where there is
 * none). 1: added to out; 0: the rule does not fit the values (RULE_KEEP is used then); or an
 * error.
 */
MUST_CHECK int metadata_sum(const struct level *level, struct str key, const struct str *values,
                            struct buf *out, struct err *err);
MUST_CHECK int metadata_ratio(const struct level *level, struct str key, const struct str *values,
                              struct buf *out, struct err *err);
MUST_CHECK int metadata_batch_name(const struct level *level, const struct str *values,
                                   struct buf *out);
MUST_CHECK int metadata_latest(const struct level *level, const struct str *values,
                               struct buf *out);
