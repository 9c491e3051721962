/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of metadata: metadata_members.c reads an object, metadata_level.c walks the members,
 * metadata_rules.c knows what becomes of each by its name, metadata_verbs.c what the user's rules ask
 * for.
 */
#pragma once

#include "data/file_merge/metadata.h"

enum metadata_rule {
    RULE_KEEP, /* the same, or an array of what the files have */
    RULE_SUM,
    RULE_RATIO,
    RULE_BATCH_NAME,
    RULE_LATEST, /* of texts, the last in the order of bytes */
    /* At the top; kept within an object: */
    RULE_DROP,
    RULE_WHOLE, /* num_gpus, gpu_metadata: written at the end */
};
enum metadata_rule metadata_rule_of(struct str key);

struct member {
    struct str key, value; /* as written; the key without its quotes */
};

/* The members of one object; empty where a file lacks it. No two keys stand for the same. */
struct members {
    struct member *at;
    size_t len;
    uint32_t *slots; /* a hash table: 0, or the member's number + 1; half of them are free */
    size_t n_slots;
};
/* False, and nothing is added, if its key is there. */
bool members_add(struct members *members, struct str key, struct str value);
void members_release(struct members *members);
/* at == NULL: there is none. */
struct str member_get(const struct members *members, struct str name);

/* One level: the object at the same place of every part. */
struct level {
    const struct metadata_opts *opts;
    const struct metadata_part *parts;
    const struct members *objects; /* n_parts */
    const struct str *texts;       /* of these objects; at NULL where there is none */
    size_t n_parts;
    struct buf *path; /* keys from the root, joined by dots; "." at the root */
    enum merge_verb
        by; /* DEEP: all objects have the same members; UNION: those of one name are the same */
    bool is_below;    /* the top */
    bool is_settings; /* what the parts were told, not what they counted: nothing is added up */
};
void level_note(const struct level *level, const char *fmt, ...) PRINTF(2, 3);
/* ERR_DATA with the path in front. */
int level_fail(const struct level *level, struct err *err, const char *fmt, ...) PRINTF(3, 4);

/* The object that they become, with its brackets. */
MUST_CHECK int level_merge(const struct level *level, struct buf *out, struct err *err);
/* Objects at the same place, one of each file, become one. */
MUST_CHECK int metadata_below(const struct level *level, struct str key, const struct str *values,
                              enum merge_verb by, struct buf *out, struct err *err);
MUST_CHECK int members_read(const char *name, struct str object, struct members *out,
                            struct err *err);
/* By a key of another file, or of this one. */
struct str member_like(const struct members *members, struct str key);
/* The same but for white space; false where one is not there. */
bool metadata_is_same(struct str a, struct str b);
/* An array of what each file has, null where it has none. */
void metadata_list(const struct str *values, size_t n_values, struct buf *out);
/* Whole numbers only, signed. */
bool metadata_to_i64(struct str value, int64_t *out);
/* 1 and the value is added to out, 0 if it is left out, or an error. */
MUST_CHECK int metadata_verb(const struct level *level, enum merge_verb verb, struct str key,
                             const struct str *values, struct buf *out, struct err *err);

/*
 * What the rule makes of the values of one member (n_parts of them, at == NULL where there is
 * none): 1 and it is added to out, 0 if it does not fit them (RULE_KEEP then does), or an error.
 */
MUST_CHECK int metadata_sum(const struct level *level, struct str key, const struct str *values,
                            struct buf *out, struct err *err);
MUST_CHECK int metadata_ratio(const struct level *level, struct str key, const struct str *values,
                              struct buf *out, struct err *err);
MUST_CHECK int metadata_batch_name(const struct level *level, const struct str *values,
                                   struct buf *out);
MUST_CHECK int metadata_latest(const struct level *level, const struct str *values,
                               struct buf *out);
