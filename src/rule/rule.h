/* SPDX-License-Identifier: Apache-2.0
 *
 * What becomes of a value when files of tensors are merged: by its path, `PATH=VERB`, the first rule
 * that fits; else by its name and kind. A path is the keys from the root, joined by dots ("." is the
 * root itself), and may have * ? [...] in it, as names of files have. A path that begins with + is
 * of a key that the output gets in addition.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/texts.h"

#define MERGE_VERBS(X)                                                                     \
    X(CONCAT, "concat", "lists one behind the other")                                      \
    X(CAT0, "cat0", "tensors one behind the other along their first dimension")            \
    X(SUM, "sum", "numbers are added")                                                     \
    X(SUM_BY_KEY, "sum-by-key", "dictionaries of numbers are added key by key")            \
    X(SAME, "same", "all files must have the same")                                        \
    X(FIRST, "first", "the first file's")                                                  \
    X(MAX, "max", "the greatest number, the last text")                                    \
    X(MERGED, "merged", "texts: what they share before _gpu_N and its like, and _merged")  \
    X(COLLECT, "collect", "a list of each file's")                                         \
    X(UNION, "union", "dictionaries with different keys; the same key must have the same") \
    X(DEEP, "deep", "dictionaries with the same keys, each by a rule of its own")          \
    X(DROP, "drop", "it is left out")                                                      \
    X(COUNT, "count", "how many files there are, for a path with +")                       \
    X(RATIO, "A/B", "of two keys beside it, after the merge")

enum merge_verb {
    MERGE_BY_KIND, /* no rule says anything */
#define X(name, text, help) MERGE_##name,
    MERGE_VERBS(X)
#undef X
};

struct merge_rule {
    char *path; /* without the + */
    enum merge_verb verb;
    char *above, *below; /* of RATIO: names of keys */
    bool is_added;
    bool was_used;
    size_t before; /* where another one came before it: that one's index + 1 */
};

struct merge_rules {
    struct merge_rule *at;
    size_t len;
    bool is_shared; /* several merges take them, one after the other */
    size_t n_more;  /* of those are still to come: a rule that fits nothing yet may fit there */
};

/* ERR_USAGE with the verbs there are. */
MUST_CHECK int merge_rule_add(struct merge_rules *rules, struct str text, struct err *err);
/* Those that were typed, then those of a file, if there is one: a rule a line; # and blank lines are
 * skipped. */
MUST_CHECK int merge_rules_take(struct merge_rules *rules, const struct texts *typed,
                                const char *path, struct err *err);
void merge_rules_release(struct merge_rules *rules);
/* NULL if none is about this path. */
struct merge_rule *merge_rule_find(const struct merge_rules *rules, const char *path);
/* ERR_USAGE for a rule that was not used, by the last merge that takes them. */
MUST_CHECK int merge_rules_check(const struct merge_rules *rules, struct err *err);
const char *merge_verb_name(enum merge_verb verb);
/* The last key of a rule's path, if it is about a key added to the dictionary at `path`; else NULL. */
const char *merge_rule_added_name(const struct merge_rule *rule, const char *path);
