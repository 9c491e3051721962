/* SPDX-License-Identifier: Apache-2.0 */
#include <fnmatch.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/xalloc.h"
#include "tensor/array/array_merge.h"

static const char root[] = "__metadata__";

struct entry {
    struct buf key, value;
    size_t file;
};

struct metadata {
    struct array_plan *plan;
    const struct merge_rules *rules;
    struct entry *entries;
    size_t n_entries;
    struct err *err;
};

static void entry_add(struct metadata *m, size_t file, struct str key, struct str value)
{
    struct entry entry = {.file = file};
    json_key_to_text(key, &entry.key);
    json_to_text(value, &entry.value);
    m->entries = xrealloc(m->entries, (m->n_entries + 1) * sizeof(*m->entries));
    m->entries[m->n_entries++] = entry;
}

static int key_order(const void *a, const void *b)
{
    const struct entry *left = a, *right = b;
    int order = str_compare(buf_str(&left->key), buf_str(&right->key));
    return order ? order : (left->file > right->file) - (left->file < right->file);
}

static bool bufs_equal(const struct buf *a, const struct buf *b)
{
    return str_equal(buf_str(a), buf_str(b));
}

static void entries_take(struct metadata *m)
{
    const struct array_set *set = m->plan->set;
    for (size_t i = 0; i < set->n_files; i++) {
        struct json_members walk = json_members(set->files[i].tensors.metadata);
        struct str key, value;
        while (set->files[i].tensors.metadata.len > 0 && json_next(&walk, &key, &value))
            entry_add(m, i, key, value);
    }
    if (m->n_entries > 0)
        qsort(m->entries, m->n_entries, sizeof(*m->entries), key_order);
}

static void member_put(struct metadata *m, const struct entry *entry)
{
    struct buf *out = &m->plan->metadata;
    if (out->len > 1)
        buf_add_char(out, ',');
    buf_add_json(out, buf_str(&entry->key));
    buf_add_char(out, ':');
    buf_add_json(out, buf_str(&entry->value));
}

/* Only rules that name it: what is said of * is said of tensors. */
static const struct merge_rule *rule_find(const struct merge_rules *rules, const char *path)
{
    for (size_t i = 0; i < rules->len; i++) {
        struct merge_rule *rule = &rules->at[i];
        if (!rule->is_added && str_starts_with(str_of(rule->path), str_of(root)) &&
            fnmatch(rule->path, path, 0) == 0) {
            rule->was_used = true;
            return rule;
        }
    }
    return NULL;
}

/* Entries of one key, [first, end). */
static int key_merge(struct metadata *m, size_t first, size_t end)
{
    const struct entry *entries = m->entries;
    const struct array_file *files = m->plan->set->files;
    cleanup_free char *path = xasprintf("%s.%s", root, buf_text(&entries[first].key));
    const struct merge_rule *rule = rule_find(m->rules, path);
    enum merge_verb verb = rule ? rule->verb : MERGE_SAME;
    if (verb == MERGE_DROP)
        return 0;
    if (verb != MERGE_FIRST && verb != MERGE_SAME && verb != MERGE_UNION)
        return fail(m->err, ERR_USAGE,
                    "'%s' is a text, which does not go by %s; first, same and "
                    "drop do",
                    path, merge_verb_name(verb));
    for (size_t i = first + 1; i < end && verb != MERGE_FIRST; i++)
        if (!bufs_equal(&entries[i].value, &entries[first].value))
            return fail(m->err, ERR_DATA,
                        "'%s' is '%.60s' in %s and '%.60s' in %s; --rule '%s=first' keeps the "
                        "first file's, drop leaves it out",
                        path, buf_text(&entries[first].value), files[entries[first].file].path,
                        buf_text(&entries[i].value), files[entries[i].file].path, path);
    member_put(m, &entries[first]);
    return 0;
}

static bool has_any(const struct array_set *set)
{
    for (size_t i = 0; i < set->n_files; i++)
        if (set->files[i].tensors.metadata.len > 0)
            return true;
    return false;
}

int array_metadata_merge(struct array_plan *plan, const struct merge_rules *rules, struct err *err)
{
    struct metadata m = {.plan = plan, .rules = rules, .err = err};
    int rc = 0;
    if (!has_any(plan->set))
        return 0;
    const struct merge_rule *rule = rule_find(rules, root);
    if (rule && rule->verb == MERGE_DROP)
        return 0;
    entries_take(&m);
    buf_add_char(&plan->metadata, '{');
    for (size_t first = 0, end; first < m.n_entries && rc == 0; first = end) {
        end = first + 1;
        while (end < m.n_entries && bufs_equal(&m.entries[end].key, &m.entries[first].key))
            end++;
        rc = key_merge(&m, first, end);
    }
    buf_add_char(&plan->metadata, '}');
    for (size_t i = 0; i < m.n_entries; i++) {
        buf_release(&m.entries[i].key);
        buf_release(&m.entries[i].value);
    }
    free(m.entries);
    return rc;
}
