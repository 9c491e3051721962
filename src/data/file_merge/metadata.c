/* SPDX-License-Identifier: Apache-2.0
 *
 * Merges objects member by member. No tree is built: values are views of the files' texts.
 */
#include "data/file_merge/metadata.h"

#include <stdarg.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/json_identity.h"
#include "base/xalloc.h"
#include "data/file_merge/metadata_impl.h"

void level_note(const struct level *level, const char *fmt, ...)
{
    char text[400];
    va_list args;
    if (!level->opts->note)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    level->opts->note(level->opts->context, text);
}

int level_fail(const struct level *level, struct err *err, const char *fmt, ...)
{
    char text[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    return fail(err, ERR_DATA, "'%s' %s", buf_text(level->path), text);
}

bool metadata_is_same(struct str a, struct str b)
{
    cleanup_buf struct buf left = BUF_INIT, right = BUF_INIT;
    if (!a.at || !b.at)
        return false;
    buf_add_json_identity(&left, a);
    buf_add_json_identity(&right, b);
    return str_equal(buf_str(&left), buf_str(&right));
}

int metadata_text_order(struct str a, struct str b)
{
    cleanup_buf struct buf left = BUF_INIT, right = BUF_INIT;
    (void)json_to_wide_text(a, &left);
    (void)json_to_wide_text(b, &right);
    return str_compare(buf_str(&left), buf_str(&right));
}

void metadata_list(const struct str *values, size_t n_values, struct buf *out)
{
    for (size_t i = 0; i < n_values; i++) {
        buf_add_char(out, i > 0 ? ',' : '[');
        buf_add_str(out, values[i].at ? values[i] : STR("null"));
    }
    buf_add_char(out, ']');
}

/*
 * A part that is itself the output of a merge counts as the parts that it lists, whatever number it
 * states.
 */
static uint64_t gpus_add(const struct level *level, size_t i, bool is_first, struct buf *out)
{
    const struct members *part = &level->objects[i];
    const struct metadata_part *file = &level->parts[i];
    struct str listed = member_get(part, STR("gpu_metadata")), element;
    uint64_t n_gpus = 0, n_listed = 0;
    bool is_begun = false;
    if (listed.at && json_kind_of(listed) == JSON_ARRAY &&
        json_to_u64(member_get(part, STR("num_gpus")), &n_gpus)) {
        while (json_element(&listed, &is_begun, &element)) {
            buf_add_text(out, is_first && n_listed == 0 ? "" : ",");
            buf_add_str(out, element);
            n_listed++;
        }
        if (n_listed != n_gpus)
            level_note(level,
                       "%s says num_gpus %lu and lists %lu in gpu_metadata; it counts as the %lu "
                       "that it lists",
                       file->name, n_gpus, n_listed, n_listed);
        return n_listed;
    }
    buf_add_text(out, is_first ? "" : ",");
    buf_add_str(out, str_trim(file->text));
    return 1;
}

/* Has the user given a rule for the member of this name? */
static bool is_ruled(const struct level *level, const char *name)
{
    const struct merge_rules *rules = level->opts->rules;
    for (size_t i = 0; rules && i < rules->len; i++)
        if (rules->at[i].is_added && strcmp(rules->at[i].path, name) == 0)
            return true;
    bool is_there = false;
    for (size_t i = 0; i < level->n_parts; i++)
        is_there = is_there || member_get(&level->objects[i], str_of(name)).at;
    for (size_t i = 0; rules && !is_there && i < rules->len; i++)
        if (rules->at[i].verb != MERGE_DROP && strcmp(rules->at[i].path, name) == 0)
            return true; /* the rule stays unused, because there is no such value */
    return rules && merge_rule_find(rules, name);
}

static void whole_add(const struct level *level, struct buf *out)
{
    cleanup_buf struct buf list = BUF_INIT;
    uint64_t n_gpus = 0;
    out->len--; /* the bracket */
    for (size_t i = 0; i < level->n_parts; i++)
        n_gpus += gpus_add(level, i, list.len == 0, &list);
    if (!is_ruled(level, "num_gpus"))
        buf_addf(out, "%s\"num_gpus\":%lu", out->len > 1 ? "," : "", n_gpus);
    if (!is_ruled(level, "gpu_metadata"))
        buf_addf(out, "%s\"gpu_metadata\":[%s]", out->len > 1 ? "," : "", buf_text(&list));
    buf_add_char(out, '}');
}

/* Merges by the rule for ".", else member by member. */
static int root_merge(const struct level *level, struct buf *out, struct err *err)
{
    const struct merge_rules *rules = level->opts->rules;
    const struct merge_rule *rule = rules ? merge_rule_find(rules, ".") : NULL;
    int rc;
    if (rule && (rule->verb == MERGE_UNION || rule->verb == MERGE_DEEP)) {
        struct level whole = *level;
        whole.by = rule->verb;
        rc = level_merge(&whole, out, err);
    } else if (rule) {
        rc = metadata_verb(level, rule->verb, (struct str){"", 0}, level->texts, out, err);
        if (rc >= 0)
            rc = rc > 0 ? 0 : fail(err, ERR_USAGE, "the rules drop everything");
    } else {
        rc = level_merge(level, out, err);
        if (rc == 0)
            whole_add(level, out);
    }
    return rc || !rules ? rc : merge_rules_check(rules, err);
}

int metadata_merge(const struct metadata_opts *opts, const struct metadata_part *parts,
                   size_t n_parts, struct buf *out, struct err *err)
{
    struct members *objects = xcalloc(n_parts, sizeof(*objects));
    struct str *texts = xcalloc(n_parts, sizeof(*texts));
    cleanup_buf struct buf text = BUF_INIT, path = BUF_INIT;
    const struct level level = {.opts = opts,
                                .parts = parts,
                                .objects = objects,
                                .texts = texts,
                                .n_parts = n_parts,
                                .path = &path};
    int rc = 0;
    buf_add_char(&path, '.');
    for (size_t i = 0; rc == 0 && i < n_parts; i++) {
        texts[i] = str_trim(parts[i].text);
        rc = members_read(parts[i].name, parts[i].text, &objects[i], err);
    }
    if (rc == 0)
        rc = root_merge(&level, &text, err);
    if (rc == 0) {
        buf_add_json_indented(out, buf_str(&text), 0);
        buf_add_char(out, '\n');
    }
    for (size_t i = 0; i < n_parts; i++)
        members_release(&objects[i]);
    free(objects);
    free(texts);
    return rc;
}
