/* SPDX-License-Identifier: Apache-2.0 */
#include <fnmatch.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "tensor/array/array_merge.h"
#include "tensor/grow.h"

static const char root[] = "__metadata__";

/* 24 bytes: a header of 100 MB has some six million of them. */
struct entry {
    const char *key; /* without escapes; points into the header, or into `unescaped` */
    uint32_t key_bytes, value_bytes;
    uint32_t value_at; /* offset in the header; the value is as it is written there */
    uint32_t file;
};

struct metadata {
    struct array_plan *plan;
    const struct merge_rules *rules;
    struct entry *entries;
    char **unescaped;
    size_t n_entries, cap_entries, n_unescaped, cap_unescaped;
    struct err *err;
};

static struct str key_of(const struct entry *entry)
{
    return (struct str){entry->key, entry->key_bytes};
}

static struct str value_of(const struct metadata *m, const struct entry *entry)
{
    const struct buf *header = &m->plan->set->files[entry->file].tensors.header;
    return (struct str){header->at + entry->value_at, entry->value_bytes};
}

static void entry_add(struct metadata *m, uint32_t file, struct str key, struct str value)
{
    const struct buf *header = &m->plan->set->files[file].tensors.header;
    if (memchr(key.at, '\\', key.len)) {
        struct buf text = BUF_INIT;
        json_key_to_text(key, &text);
        key.len = text.len;
        key.at = buf_steal(&text);
        PUSH(m->unescaped, m->n_unescaped, m->cap_unescaped, (char *)(uintptr_t)key.at);
    }
    PUSH(m->entries, m->n_entries, m->cap_entries,
         (struct entry){.key = key.at,
                        .key_bytes = (uint32_t)key.len,
                        .value_bytes = (uint32_t)value.len,
                        .value_at = (uint32_t)(value.at - header->at),
                        .file = file});
}

static int key_order(const void *a, const void *b)
{
    const struct entry *left = a, *right = b;
    int order = str_compare(key_of(left), key_of(right));
    return order ? order : (left->file > right->file) - (left->file < right->file);
}

static void entries_take(struct metadata *m)
{
    const struct array_set *set = m->plan->set;
    for (uint32_t i = 0; i < set->n_files; i++) {
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
    cleanup_buf struct buf value = BUF_INIT;
    json_to_text(value_of(m, entry), &value);
    if (out->len > 1)
        buf_add_char(out, ',');
    buf_add_json(out, key_of(entry));
    buf_add_char(out, ':');
    buf_add_json(out, buf_str(&value));
}

/* Compares the decoded texts, however they are written. */
static bool values_equal(const struct metadata *m, const struct entry *a, const struct entry *b)
{
    struct str left = value_of(m, a), right = value_of(m, b);
    cleanup_buf struct buf one = BUF_INIT, two = BUF_INIT;
    if (str_equal(left, right))
        return true;
    json_to_text(left, &one);
    json_to_text(right, &two);
    return str_equal(buf_str(&one), buf_str(&two));
}

/* Finds a rule whose path begins with __metadata__; a rule for * is about tensors only. */
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

static int differ_fail(const struct metadata *m, const char *path, const struct entry *a,
                       const struct entry *b)
{
    const struct array_file *files = m->plan->set->files;
    cleanup_buf struct buf left = BUF_INIT, right = BUF_INIT;
    json_to_text(value_of(m, a), &left);
    json_to_text(value_of(m, b), &right);
    return fail(m->err, ERR_DATA,
                "'%s' is '%.60s' in %s and '%.60s' in %s; --rule '%s=first' keeps the first "
                "file's, drop leaves it out",
                path, buf_text(&left), files[a->file].path, buf_text(&right), files[b->file].path,
                path);
}

/* Merges the entries [first, end), which have one key. */
static int key_merge(struct metadata *m, size_t first, size_t end)
{
    const struct entry *entries = m->entries;
    struct str key = key_of(&entries[first]);
    cleanup_free char *path = xasprintf("%s.%.*s", root, (int)key.len, key.at);
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
        if (!values_equal(m, &entries[i], &entries[first]))
            return differ_fail(m, path, &entries[first], &entries[i]);
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
        while (end < m.n_entries && str_equal(key_of(&m.entries[end]), key_of(&m.entries[first])))
            end++;
        rc = key_merge(&m, first, end);
    }
    buf_add_char(&plan->metadata, '}');
    for (size_t i = 0; i < m.n_unescaped; i++)
        free(m.unescaped[i]);
    free(m.unescaped);
    free(m.entries);
    return rc;
}
