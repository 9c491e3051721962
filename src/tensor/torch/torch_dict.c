/* SPDX-License-Identifier: Apache-2.0
 *
 * Merges dictionaries key by key, adds the keys that rules add, and computes ratios after their
 * counts.
 */
#include "base/cleanup.h"
#include "base/xalloc.h"
#include "tensor/torch/torch_normalise.h"

enum {
    DEPTH_MAX = 64
};

/* A key of the output. For a ratio, `value` is 0 until its counts are known. */
struct member {
    pickle_id key, value;
    const struct merge_rule *ratio;
    size_t key_part; /* the part that has the key; n_parts: `name` is the key */
    pickle_id key_id;
    const char *name;
};

struct dict_merge {
    struct merge_state *merge;
    value_ids ids;
    struct torch_key_index keys; /* the keys of all files; a side is a file */
    pickle_id *values;           /* of the current key, by file; 0 where a file lacks it */
    struct member *members;
    size_t n_members, cap_members;
    bool is_union;
    const struct dict_merge *outer;
    size_t path_len; /* length of merge->path at this dictionary */
};

static void member_push(struct dict_merge *d, struct member member)
{
    if (d->n_members == d->cap_members) {
        d->cap_members = MAX(d->cap_members * 2, (size_t)16);
        d->members = xrealloc(d->members, d->cap_members * sizeof(*d->members));
    }
    d->members[d->n_members++] = member;
}

/* ---- paths ---- */

void path_add_key(struct str key, struct buf *path)
{
    for (size_t i = 0; i < key.len; i++)
        buf_add_char(path, key.at[i] ? key.at[i] : ' ');
}

static size_t path_push(struct merge_state *merge, const struct pickle *graph,
                        const struct pickle_node *key)
{
    size_t before = merge->path.len;
    if (merge->depth == 1) /* the path "." of the root is no prefix */
        buf_reset(&merge->path);
    else
        buf_add_char(&merge->path, '.');
    if (key->kind == PICKLE_TEXT)
        path_add_key(pickle_bytes(graph, key), &merge->path);
    else if (key->kind == PICKLE_INT)
        buf_addf(&merge->path, "%ld", key->integer);
    else
        buf_add_text(&merge->path, "(key)");
    return before;
}

static void path_pop(struct merge_state *merge, size_t before)
{
    if (merge->depth == 1) {
        buf_reset(&merge->path);
        buf_add_char(&merge->path, '.');
        return;
    }
    merge->path.len = before;
    merge->path.at[before] = '\0';
}

/* ---- keys of the files ---- */

/* Sets d->values to the values of this key, by file; returns how many files have it. */
static size_t values_take(struct dict_merge *d, uint32_t number)
{
    size_t n = 0;
    const struct key_value *value = key_value_first(&d->keys, number);
    for (; value; value = key_value_next(&d->keys, value), n++)
        d->values[value->side] = value->value;
    return n;
}

static void values_forget(struct dict_merge *d, uint32_t number)
{
    const struct key_value *value = key_value_first(&d->keys, number);
    for (; value; value = key_value_next(&d->keys, value))
        d->values[value->side] = 0;
}

static size_t first_lacking(const struct dict_merge *d)
{
    size_t i = 0;
    while (i + 1 < d->merge->n_parts && d->values[i])
        i++;
    return i;
}

/* Merges a key that only some files have: its values must be the same in all of them. */
static int member_of_some(struct dict_merge *d, uint32_t number, pickle_id *out)
{
    struct merge_state *merge = d->merge;
    const struct key_value *first = key_value_first(&d->keys, number), *other = first;
    while ((other = key_value_next(&d->keys, other)) != NULL) {
        enum sameness sameness =
            values_same(merge, first->side, first->value, other->side, other->value);
        if (sameness != SAME)
            return torch_merge_fail(merge, "is in %s and in %s, and %s",
                                    torch_merge_file_name(merge, first->side),
                                    torch_merge_file_name(merge, other->side),
                                    sameness == UNTOLD ? UNTOLD_WHY : "not the same");
    }
    *out = torch_merge_node_of(merge, first->side, first->value);
    return 0;
}

static int pairs_count(struct merge_state *merge)
{
    if (++merge->n_pairs <= merge->max_pairs)
        return 0;
    return torch_merge_fail(
        merge,
        "exceeds the limit of %lu keys: shared dictionaries occur in too many places "
        "to be merged place by place; a rule such as same or first on the value that "
        "holds them copies it unchanged",
        merge->max_pairs);
}

/* NOLINTBEGIN(misc-no-recursion): at most DEPTH_MAX dictionaries deep */
static int value_make(struct dict_merge *d, uint32_t number, const struct merge_rule *rule,
                      struct member *member)
{
    struct merge_state *merge = d->merge;
    size_t n_found = values_take(d, number);
    if (rule && rule->verb == MERGE_RATIO)
        member->ratio = rule;
    else if (rule && rule->verb == MERGE_DROP)
        return 0;
    else if (d->is_union && !rule)
        return member_of_some(d, number, &member->value);
    else if (n_found < merge->n_parts)
        return torch_merge_fail(
            merge, "is in %s, and missing in %s; --rule '%s=drop' leaves it out",
            torch_merge_file_name(merge, member->key_part),
            torch_merge_file_name(merge, first_lacking(d)), buf_text(&merge->path));
    else
        return torch_merge_value(merge, d->values, &member->value);
    return 0;
}

static int member_add(struct dict_merge *d, uint32_t number)
{
    struct merge_state *merge = d->merge;
    struct node_ref key = d->keys.entries[number].ref;
    const struct pickle *graph = torch_merge_graph(merge, key.part);
    size_t before = path_push(merge, graph, pickle_node(graph, key.id));
    const struct merge_rule *rule = merge_rule_find(merge->opts->rules, buf_text(&merge->path));
    struct member member = {.key_part = key.part, .key_id = key.id};
    int rc = stop_check(merge->opts->stop, merge->err);
    if (rc == 0)
        rc = pairs_count(merge);
    if (rc == 0)
        rc = value_make(d, number, rule, &member);
    values_forget(d, number);
    path_pop(merge, before);
    if (rc == 0 && (member.value || member.ratio)) {
        member.key = torch_merge_node_of(merge, key.part, key.id);
        member_push(d, member);
    }
    return rc;
}

/* Adds the keys of the first file, in its order, and then those that only later files have. */
static int members_add(struct dict_merge *d)
{
    int rc = 0;
    for (uint32_t i = 0; i < d->keys.n_entries && rc == 0; i++)
        rc = member_add(d, i);
    return rc;
}

/* NOLINTEND(misc-no-recursion) */

/* ---- keys that rules add ---- */

static pickle_id added_value(struct dict_merge *d, const struct merge_rule *rule)
{
    struct merge_state *merge = d->merge;
    if (rule->verb == MERGE_COUNT)
        return pickle_add(&merge->made, (struct pickle_node){.kind = PICKLE_INT,
                                                             .integer = (int64_t)merge->n_parts});
    pickle_id list = pickle_add(&merge->made, (struct pickle_node){.kind = PICKLE_LIST});
    for (size_t i = 0; i < merge->n_parts; i++) {
        pickle_id of = torch_merge_node_of(merge, i, d->ids[i]);
        pickle_add_items(&merge->made, list, &of, 1);
    }
    return list;
}

static bool has_member(const struct dict_merge *d, const char *name);

static int added_push(struct dict_merge *d)
{
    struct merge_rules rules = *d->merge->opts->rules;
    for (size_t i = 0; i < rules.len; i++) {
        struct merge_rule *rule = &rules.at[i];
        const char *name = merge_rule_added_name(rule, buf_text(&d->merge->path));
        if (!name)
            continue;
        struct member member = {.key_part = d->merge->n_parts, .name = name};
        rule->was_used = true;
        if (has_member(d, name))
            return torch_merge_fail(d->merge, "has a key '%s' already; --rule '%s=drop' makes room",
                                    name, rule->path);
        member.key = pickle_add_bytes(&d->merge->made, PICKLE_TEXT, str_of(name));
        if (rule->verb == MERGE_RATIO)
            member.ratio = rule;
        else
            member.value = added_value(d, rule);
        member_push(d, member);
    }
    return 0;
}

/* ---- ratios ---- */

static struct str member_name(const struct dict_merge *d, const struct member *member)
{
    if (member->key_part == d->merge->n_parts)
        return str_of(member->name);
    const struct pickle *graph = torch_merge_graph(d->merge, member->key_part);
    const struct pickle_node *key = pickle_node(graph, member->key_id);
    return key->kind == PICKLE_TEXT ? pickle_bytes(graph, key) : (struct str){"", 0};
}

static bool has_member(const struct dict_merge *d, const char *name)
{
    for (size_t i = 0; i < d->n_members; i++)
        if (str_equal(member_name(d, &d->members[i]), str_of(name)))
            return true;
    return false;
}

static bool member_number(const struct dict_merge *d, const char *name, double *out)
{
    for (size_t i = 0; i < d->n_members; i++) {
        const struct member *member = &d->members[i];
        if (!member->value || !str_equal(member_name(d, member), str_of(name)))
            continue;
        const struct pickle_node *node = pickle_node(&d->merge->made, member->value);
        if (node->kind == PICKLE_OF)
            node = pickle_node(torch_merge_graph(d->merge, node->of.graph), node->of.id);
        *out = node->kind == PICKLE_INT ? (double)node->integer : node->real;
        return node->kind == PICKLE_INT || node->kind == PICKLE_FLOAT;
    }
    return false;
}

static int ratios_fill(struct dict_merge *d)
{
    for (size_t i = 0; i < d->n_members; i++) {
        struct member *member = &d->members[i];
        double above, below;
        if (!member->ratio)
            continue;
        if (!member_number(d, member->ratio->above, &above) ||
            !member_number(d, member->ratio->below, &below))
            return torch_merge_fail(d->merge, "has no numbers '%s' and '%s' for the ratio '%s'",
                                    member->ratio->above, member->ratio->below,
                                    member->ratio->path);
        const struct pickle_node ratio = {.kind = PICKLE_FLOAT,
                                          .real = below != 0 ? above / below : 0};
        const struct pickle_node none = {.kind = PICKLE_NONE}; /* the ratio is unknown */
        member->value = pickle_add(&d->merge->made, below != 0 ? ratio : none);
    }
    return 0;
}

/* ---- the whole ---- */

/*
 * ERR_DATA unless the dictionaries have the same class and the same states (a model's _metadata).
 */
static int states_same(struct dict_merge *d)
{
    struct merge_state *merge = d->merge;
    for (size_t i = 0; i < merge->n_parts; i++) {
        enum sameness sameness = dicts_alike(merge, 0, d->ids[0], i, d->ids[i]);
        if (sameness != SAME)
            return torch_merge_fail(
                merge, "is another kind of dictionary in %s than in %s%s%s",
                torch_merge_file_name(merge, i), torch_merge_file_name(merge, 0),
                sameness == UNTOLD ? ", or it " : "", sameness == UNTOLD ? UNTOLD_WHY : "");
    }
    return 0;
}

pickle_id torch_merge_dict_begin(struct merge_state *merge, const struct pickle_node *first)
{
    if (first->kind == PICKLE_DICT)
        return pickle_add(&merge->made, (struct pickle_node){.kind = PICKLE_DICT});
    return torch_merge_call_like(merge, first, torch_merge_tuple(merge, NULL, 0));
}

void torch_merge_dict_fill(struct merge_state *merge, const struct pickle_node *first,
                           pickle_id dict, const pickle_id *pairs, size_t n_pairs)
{
    if (first->kind == PICKLE_DICT) {
        for (size_t i = 0; i < n_pairs; i++)
            pickle_add_items(&merge->made, dict, pairs + 2 * i, 2);
        return;
    }
    struct pickle_later *later = pickle_add_later(&merge->made, dict);
    size_t at = (size_t)(later - merge->made.later);
    for (size_t i = 0; i < n_pairs; i++)
        pickle_add_pair(&merge->made, &merge->made.later[at].pairs, pairs[2 * i], pairs[2 * i + 1]);
    const struct pickle_later *kept = pickle_later(torch_merge_graph(merge, 0), first);
    struct pickle_walk walk = pickle_items(&kept->states);
    for (pickle_id id; (id = pickle_next(torch_merge_graph(merge, 0), &walk)) != 0;)
        pickle_add_state(&merge->made, &merge->made.later[at].states,
                         torch_merge_node_of(merge, 0, id));
}

pickle_id torch_merge_dict_like(struct merge_state *merge, const struct pickle_node *first,
                                const pickle_id *pairs, size_t n_pairs)
{
    pickle_id dict = torch_merge_dict_begin(merge, first);
    torch_merge_dict_fill(merge, first, dict, pairs, n_pairs);
    return dict;
}

static pickle_id dict_node(struct dict_merge *d)
{
    cleanup_free pickle_id *pairs = xcalloc(2 * d->n_members + 1, sizeof(*pairs));
    for (size_t i = 0; i < d->n_members; i++) {
        pairs[2 * i] = d->members[i].key;
        pairs[2 * i + 1] = d->members[i].value;
    }
    return torch_merge_dict_like(d->merge, torch_merge_node(d->merge, 0, d->ids), pairs,
                                 d->n_members);
}

/* Are both the same dictionary in some file? *part is that file. */
static bool is_again(const struct dict_merge *d, const struct dict_merge *outer, size_t *part)
{
    for (*part = 0; *part < d->merge->n_parts; ++*part)
        if (d->ids[*part] == outer->ids[*part])
            return true;
    return false;
}

/*
 * Fails because dictionaries are nested too deep. If a dictionary contains itself, the error names
 * the outermost place where that is so.
 */
static int too_deep(struct merge_state *merge)
{
    const struct dict_merge *again = NULL, *first = NULL;
    size_t part, found = 0;
    for (const struct dict_merge *d = merge->innermost; d; d = d->outer)
        for (const struct dict_merge *outer = d->outer; outer; outer = outer->outer)
            if (is_again(d, outer, &part)) {
                again = d;
                first = outer;
                found = part;
            }
    if (!again)
        return torch_merge_fail(merge, "lies deeper than %d dictionaries", DEPTH_MAX);
    cleanup_free char *inner = xstrndup(merge->path.at, again->path_len);
    merge->path.len = first->outer ? first->path_len : 0;
    buf_add_text(&merge->path, first->outer ? "" : ".");
    return torch_merge_fail(
        merge,
        "holds itself in %s, at '%s', and would be gone through for ever; --rule "
        "'%s=first' takes what is there as it is",
        torch_merge_file_name(merge, found), inner, inner);
}

/* NOLINTNEXTLINE(misc-no-recursion): see above */
static int dict_merge(struct dict_merge *d, pickle_id *out)
{
    struct merge_state *merge = d->merge;
    int rc = 0;
    for (size_t i = 0; i < merge->n_parts && rc == 0; i++)
        rc = torch_merge_keys_take(merge, i, d->ids[i], &d->keys);
    if (rc == 0)
        rc = states_same(d);
    if (rc == 0)
        rc = counts_check(merge, &d->keys);
    if (rc == 0)
        rc = members_add(d);
    if (rc == 0)
        rc = added_push(d);
    if (rc == 0)
        rc = ratios_fill(d);
    if (rc == 0)
        *out = dict_node(d);
    return rc;
}

/* NOLINTNEXTLINE(misc-no-recursion): see above */
static int dicts_go_through(struct merge_state *merge, value_ids ids, bool is_union, pickle_id *out)
{
    struct dict_merge d = {.merge = merge,
                           .ids = ids,
                           .is_union = is_union,
                           .outer = merge->innermost,
                           .path_len = merge->path.len};
    if (++merge->depth > DEPTH_MAX)
        return too_deep(merge);
    merge->innermost = &d;
    torch_key_index_init(&d.keys, &merge->pool);
    d.values = xcalloc(merge->n_parts, sizeof(*d.values));
    int rc = dict_merge(&d, out);
    torch_key_index_release(&d.keys);
    free(d.values);
    free(d.members);
    merge->innermost = d.outer;
    merge->depth--;
    return rc;
}

/*
 * Where the merged node of these dictionaries is stored; the node is 0 if they were not merged yet.
 * NULL if other dictionaries have the entry. A dictionary that is one object in several places of
 * every file is merged once, and is one object in the output. Only for merges without rules: the
 * result then depends on the place only in whether a setting's name is above it.
 */
static pickle_id *merged_before(struct merge_state *merge, value_ids ids)
{
    struct merged_dicts *merged = &merge->merged;
    uint32_t is_setting = path_is_setting(buf_text(&merge->path));
    uint32_t *number = node_map_at(&merged->numbers, is_setting, ids[0]);
    size_t n = merge->n_parts + 1; /* the files' nodes, and the new one */
    if (*number == 0) {
        *number = (uint32_t)merged->len + 1;
        if (merged->len == merged->cap) {
            merged->cap = MAX(merged->cap + merged->cap / 2, (size_t)16);
            merged->at = xrealloc(merged->at, merged->cap * n * sizeof(*merged->at));
        }
        memcpy(merged->at + merged->len * n, ids, (n - 1) * sizeof(*ids));
        merged->at[merged->len++ * n + n - 1] = 0;
    }
    pickle_id *known = merged->at + (*number - 1) * n;
    return memcmp(known, ids, (n - 1) * sizeof(*ids)) == 0 ? &known[n - 1] : NULL;
}

/* NOLINTNEXTLINE(misc-no-recursion): see above */
int torch_merge_deep(struct merge_state *merge, value_ids ids, bool is_union, pickle_id *out)
{
    bool can_be_known = merge->opts->rules->len == 0 && !is_union;
    pickle_id *known = can_be_known ? merged_before(merge, ids) : NULL;
    *out = known ? *known : 0;
    if (*out)
        return 0;
    int rc = dicts_go_through(merge, ids, is_union, out);
    known = rc == 0 && can_be_known ? merged_before(merge, ids) : NULL;
    if (known)
        *known = *out;
    return rc;
}
