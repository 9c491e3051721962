/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules that decide how a value is merged when files of tensors or metadata are merged. A rule is
 * `PATH=VERB`. The first rule that fits a value's path decides; without one, the value's name and
 * kind decide. A path is the keys from the root, joined by dots ("." is the root itself), and may
 * have the wildcards * ? [...] of file names. A path that begins with + names a key that is added
 * to the output.
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
    MERGE_BY_KIND, /* used where no rule fits */
#define X(name, text, help) MERGE_##name,
    MERGE_VERBS(X)
#undef X
};

struct merge_rule {
    char *path; /* without the + */
    enum merge_verb verb;
    char *above, *below; /* for RATIO: the keys whose values are divided */
    bool is_added;
    bool was_used;
    size_t before; /* index + 1 of the earlier rule that took a path of this rule; 0: none */
};

struct merge_rules {
    struct merge_rule *at;
    size_t len;
    bool is_shared; /* several merges use these rules, one after the other */
    size_t n_more;  /* merges still to come; a rule that is unused so far may fit in one of them */
};

/* Adds a rule. ERR_USAGE, listing the verbs, if the text is not a rule. */
MUST_CHECK int merge_rule_add(struct merge_rules *rules, struct str text, struct err *err);
/* Adds the rules of the command line, then those of the file at `path` unless that is NULL: one
 * rule a line; blank lines and those that begin with # are skipped. */
MUST_CHECK int merge_rules_take(struct merge_rules *rules, const struct texts *typed,
                                const char *path, struct err *err);
void merge_rules_release(struct merge_rules *rules);
/* The first rule that fits this path; NULL if there is none. */
struct merge_rule *merge_rule_find(const struct merge_rules *rules, const char *path);
/* ERR_USAGE for a rule that was not used; checked only after the last merge that uses the rules. */
MUST_CHECK int merge_rules_check(const struct merge_rules *rules, struct err *err);
const char *merge_verb_name(enum merge_verb verb);
/*
 * The key that the rule adds to the dictionary at `path`, which is the last key of the rule's path;
 * NULL if the rule adds no key there.
 */
const char *merge_rule_added_name(const struct merge_rule *rule, const char *path);
