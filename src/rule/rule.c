/* SPDX-License-Identifier: Apache-2.0 */
#include "rule/rule.h"

#include <fnmatch.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"

enum {
    RULES_BYTES_MAX = 1 << 20
};

static const char *const verb_names[] = {[MERGE_BY_KIND] = "?",
#define X(name, text, help) [MERGE_##name] = (text),
                                         MERGE_VERBS(X)
#undef X
};

const char *merge_verb_name(enum merge_verb verb)
{
    return verb_names[verb];
}

static bool verb_parse(struct str text, struct merge_rule *rule)
{
    const char *slash = memchr(text.at, '/', text.len);
    if (slash) {
        size_t len = (size_t)(slash - text.at);
        if (len == 0 || len + 1 == text.len || memchr(slash + 1, '/', text.len - len - 1))
            return false;
        rule->verb = MERGE_RATIO;
        rule->above = xstrndup(text.at, len);
        rule->below = xstrndup(slash + 1, text.len - len - 1);
        return true;
    }
    for (size_t i = 1; i < countof(verb_names); i++)
        if (i != MERGE_RATIO && str_equal(text, str_of(verb_names[i])))
            rule->verb = (enum merge_verb)i;
    return rule->verb != MERGE_BY_KIND;
}

static void verbs_list(struct buf *out)
{
    for (size_t i = 1; i < countof(verb_names); i++)
        buf_addf(out, "%s%s", i > 1 ? ", " : "", verb_names[i]);
}

/* The last = ends the path, because keys may contain one. */
int merge_rule_add(struct merge_rules *rules, struct str text, struct err *err)
{
    const char *equals = memrchr(text.at, '=', text.len);
    struct merge_rule rule = {0};
    struct str path = {text.at, equals ? (size_t)(equals - text.at) : 0};
    struct str verb = {path.at + path.len + 1, equals ? text.len - path.len - 1 : 0};
    rule.is_added = str_starts_with(path, STR("+"));
    path = str_trim((struct str){path.at + rule.is_added, path.len - rule.is_added});
    if (path.len == 0 || !verb_parse(str_trim(verb), &rule)) {
        cleanup_buf struct buf verbs = BUF_INIT;
        verbs_list(&verbs);
        return fail(err, ERR_USAGE, "'%.*s' is no rule; one is PATH=VERB, and the verbs are %s",
                    (int)MIN(text.len, (size_t)80), text.at, buf_text(&verbs));
    }
    bool is_addable =
        rule.verb == MERGE_COUNT || rule.verb == MERGE_COLLECT || rule.verb == MERGE_RATIO;
    if (rule.is_added ? !is_addable : rule.verb == MERGE_COUNT) {
        free(rule.above);
        free(rule.below);
        return fail(err, ERR_USAGE,
                    rule.is_added ? "'%.*s': a key that is added is count, collect or A/B"
                                  : "'%.*s': what count makes is new, so its path begins with +",
                    (int)MIN(text.len, (size_t)80), text.at);
    }
    rule.path = xstrndup(path.at, path.len);
    rules->at = xrealloc(rules->at, (rules->len + 1) * sizeof(*rules->at));
    rules->at[rules->len++] = rule;
    return 0;
}

static int rules_read(struct merge_rules *rules, const char *path, struct err *err)
{
    cleanup_buf struct buf text = BUF_INIT;
    int rc = file_read(path, RULES_BYTES_MAX, &text, err);
    struct str rest = {text.at ? text.at : "", text.len}, line;
    for (unsigned n = 1; rc == 0 && str_next(&rest, '\n', &line); n++) {
        line = str_trim(line);
        if (line.len > 0 && line.at[0] != '#') {
            rc = merge_rule_add(rules, line, err);
            if (rc)
                wrap(err, rc, "%s: line %u", path, n);
        }
    }
    return rc;
}

int merge_rules_take(struct merge_rules *rules, const struct texts *typed, const char *path,
                     struct err *err)
{
    int rc = 0;
    for (size_t i = 0; i < typed->len && rc == 0; i++)
        rc = merge_rule_add(rules, str_of(typed->at[i]), err);
    return rc || !path ? rc : rules_read(rules, path, err);
}

void merge_rules_release(struct merge_rules *rules)
{
    for (size_t i = 0; i < rules->len; i++) {
        free(rules->at[i].path);
        free(rules->at[i].above);
        free(rules->at[i].below);
    }
    free(rules->at);
    *rules = (struct merge_rules){0};
}

struct merge_rule *merge_rule_find(const struct merge_rules *rules, const char *path)
{
    struct merge_rule *found = NULL;
    for (size_t i = 0; i < rules->len; i++) {
        struct merge_rule *rule = &rules->at[i];
        bool is_known = found && (rule->was_used || rule->before);
        if (rule->is_added || is_known || fnmatch(rule->path, path, 0) != 0)
            continue;
        if (found)
            rule->before = (size_t)(found - rules->at) + 1;
        else
            found = rule;
    }
    if (found)
        found->was_used = true;
    return found;
}

const char *merge_rule_added_name(const struct merge_rule *rule, const char *path)
{
    if (!rule->is_added)
        return NULL;
    const char *dot = strrchr(rule->path, '.');
    if (strcmp(path, ".") == 0)
        return dot ? NULL : rule->path;
    size_t len = dot ? (size_t)(dot - rule->path) : 0;
    return dot && strlen(path) == len && memcmp(path, rule->path, len) == 0 ? dot + 1 : NULL;
}

/* Does the rule decide about all values below its path? */
static bool takes_all(const struct merge_rule *rule)
{
    return !rule->is_added && rule->was_used && rule->verb != MERGE_DEEP &&
           rule->verb != MERGE_UNION && rule->verb != MERGE_RATIO;
}

/*
 * Another rule that decides about all values at and below the path of `rule`, so that `rule` is
 * never used; NULL: there is none.
 */
static const struct merge_rule *rule_above(const struct merge_rules *rules,
                                           const struct merge_rule *rule)
{
    for (size_t i = 0; i < rules->len; i++) {
        const struct merge_rule *other = &rules->at[i];
        size_t len = strlen(other->path);
        bool is_root = fnmatch(other->path, ".", 0) == 0;
        bool is_above = strncmp(rule->path, other->path, len) == 0 && rule->path[len] == '.';
        if (takes_all(other) && (is_root || is_above))
            return other;
    }
    return NULL;
}

static int unused_fail(const struct merge_rules *rules, const struct merge_rule *rule,
                       struct err *err)
{
    const struct merge_rule *before = rule->before ? &rules->at[rule->before - 1] : NULL;
    const struct merge_rule *above = rule_above(rules, rule);
    if (before)
        return fail(err, ERR_USAGE,
                    "the rule '%s=%s' is never asked: '%s=%s' comes before it and fits all that it "
                    "does; leave one of them out, or change their order",
                    rule->path, merge_verb_name(rule->verb), before->path,
                    merge_verb_name(before->verb));
    if (above)
        return fail(
            err, ERR_USAGE,
            "the rule '%s=%s' is never asked: '%s=%s' says what becomes of all that lies in "
            "there",
            rule->path, merge_verb_name(rule->verb), above->path, merge_verb_name(above->verb));
    return fail(err, ERR_USAGE,
                "the rule for '%s' fits nothing in the files (of those of tensors muster "
                "merge --inspect shows the keys)",
                rule->path);
}

int merge_rules_check(const struct merge_rules *rules, struct err *err)
{
    for (size_t i = 0; rules->n_more == 0 && i < rules->len; i++)
        if (!rules->at[i].was_used)
            return unused_fail(rules, &rules->at[i], err);
    return 0;
}
