/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects side by side, member by member. Nothing is read into a tree: values stay views of the
 * files' texts.
 */
#include "data/join/metadata.h"

#include <stdarg.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/xalloc.h"
#include "data/join/metadata_impl.h"

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

struct str member_get(const struct members *members, struct str name)
{
    for (size_t i = 0; i < members->len; i++)
        if (json_key_equal(members->at[i].key, name))
            return members->at[i].value;
    return (struct str){NULL, 0};
}

/* The same by a key of another file, or of this one. */
static struct str member_like(const struct members *members, struct str key)
{
    for (size_t i = 0; i < members->len; i++)
        if (json_keys_equal(members->at[i].key, key))
            return members->at[i].value;
    return (struct str){NULL, 0};
}

static int members_read(const char *name, struct str object, struct members *out, struct err *err)
{
    struct json_members walk = json_members(object);
    struct str key, value;
    while (json_next(&walk, &key, &value)) {
        if (member_like(out, key).at)
            return fail(err, ERR_DATA, "%s has '%.*s' twice", name, (int)MIN(key.len, (size_t)60),
                        key.at);
        out->at = xrealloc(out->at, (out->len + 1) * sizeof(*out->at));
        out->at[out->len++] = (struct member){key, value};
    }
    if (!walk.malformed)
        return 0;
    return fail(err, ERR_DATA,
                "%s is not one JSON object; if it has one value a line, say --format jsonl", name);
}

static bool is_same(struct str a, struct str b)
{
    cleanup_buf struct buf left = BUF_INIT, right = BUF_INIT;
    if (!a.at || !b.at)
        return false;
    buf_add_json_compact(&left, a);
    buf_add_json_compact(&right, b);
    return str_equal(buf_str(&left), buf_str(&right));
}

/* What all have, once; otherwise the list of what each has. */
static void keep_add(const struct str *values, size_t n_values, struct buf *out)
{
    bool are_same = true;
    for (size_t i = 0; i < n_values && are_same; i++)
        are_same = is_same(values[0], values[i]);
    if (are_same) {
        buf_add_str(out, values[0]);
        return;
    }
    for (size_t i = 0; i < n_values; i++) {
        buf_add_char(out, i > 0 ? ',' : '[');
        buf_add_str(out, values[i].at ? values[i] : STR("null"));
    }
    buf_add_char(out, ']');
}

/* NOLINTNEXTLINE(misc-no-recursion) */
static int level_merge(const struct level *level, struct buf *out, struct err *err);

static bool are_objects(const struct str *values, size_t n_values)
{
    for (size_t i = 0; i < n_values; i++)
        if (values[i].at && json_kind_of(values[i]) != JSON_OBJECT)
            return false;
    return true;
}

/* NOLINTBEGIN(misc-no-recursion): at most as deep as a JSON value may be, JSON_DEPTH_MAX */
static int below_merge(const struct level *level, struct str key, const struct str *values,
                       struct buf *out, struct err *err)
{
    struct members *objects = xcalloc(level->n_parts, sizeof(*objects));
    struct level below = *level;
    int rc = 0;
    below.objects = objects;
    below.is_below = true;
    below.is_settings = level->is_settings || metadata_is_settings(key);
    for (size_t i = 0; rc == 0 && i < level->n_parts; i++)
        if (values[i].at)
            rc = members_read(level->parts[i].name, values[i], &objects[i], err);
    buf_add_char(out, '{');
    if (rc == 0)
        rc = level_merge(&below, out, err);
    buf_add_char(out, '}');
    for (size_t i = 0; i < level->n_parts; i++)
        free(objects[i].at);
    free(objects);
    return rc;
}

/* By its rule, or as it is kept where the rule does not fit. */
static int value_merge(const struct level *level, struct str key, const struct str *values,
                       struct buf *out, struct err *err)
{
    int rc = 0;
    switch (level->is_settings ? RULE_KEEP : metadata_rule_of(key)) {
    case RULE_SUM:
        rc = metadata_sum(level, key, values, out, err);
        break;
    case RULE_RATIO:
        rc = metadata_ratio(level, key, values, out, err);
        break;
    case RULE_BATCH_NAME:
        rc = metadata_batch_name(level, values, out);
        break;
    case RULE_LATEST:
        rc = metadata_latest(level, values, out);
        break;
    case RULE_KEEP:
    case RULE_DROP:
    case RULE_WHOLE:
        break;
    }
    if (rc != 0)
        return MIN(rc, 0);
    if (are_objects(values, level->n_parts))
        return below_merge(level, key, values, out, err);
    keep_add(values, level->n_parts, out);
    return 0;
}

/* What is about the files themselves is so at the top only; within an object it is some value. */
static bool is_written(const struct level *level, struct str key)
{
    enum metadata_rule rule = metadata_rule_of(key);
    return level->is_below || (rule != RULE_DROP && rule != RULE_WHOLE);
}

/* Was the key among those of an earlier part? */
static bool is_done(const struct level *level, size_t part, struct str key)
{
    for (size_t i = 0; i < part; i++)
        if (member_like(&level->objects[i], key).at)
            return true;
    return false;
}

static int level_merge(const struct level *level, struct buf *out, struct err *err)
{
    cleanup_free struct str *values = xcalloc(level->n_parts, sizeof(*values));
    size_t n_written = 0;
    int rc = 0;
    for (size_t part = 0; part < level->n_parts; part++) {
        for (size_t i = 0; rc == 0 && i < level->objects[part].len; i++) {
            struct str key = level->objects[part].at[i].key;
            if (!is_written(level, key) || is_done(level, part, key))
                continue;
            for (size_t k = 0; k < level->n_parts; k++)
                values[k] = member_like(&level->objects[k], key);
            buf_addf(out, "%s\"%.*s\":", n_written++ > 0 ? "," : "", (int)key.len, key.at);
            rc = value_merge(level, key, values, out, err);
        }
    }
    return rc;
}

/* NOLINTEND(misc-no-recursion) */

/* A part that is itself a merge stands for those that it lists. */
static uint64_t gpus_add(const struct members *part, struct str text, bool is_first,
                         struct buf *out)
{
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
        return n_gpus;
    }
    buf_add_text(out, is_first ? "" : ",");
    buf_add_str(out, str_trim(text));
    return 1;
}

static void whole_add(const struct level *level, struct buf *out)
{
    cleanup_buf struct buf list = BUF_INIT;
    uint64_t n_gpus = 0;
    for (size_t i = 0; i < level->n_parts; i++)
        n_gpus += gpus_add(&level->objects[i], level->parts[i].text, list.len == 0, &list);
    buf_addf(out, "%s\"num_gpus\":%lu,\"gpu_metadata\":[%s]",
             out->at[out->len - 1] == '{' ? "" : ",", n_gpus, buf_text(&list));
}

int metadata_merge(const struct metadata_opts *opts, const struct metadata_part *parts,
                   size_t n_parts, struct buf *out, struct err *err)
{
    struct members *objects = xcalloc(n_parts, sizeof(*objects));
    const struct level level = {
        .opts = opts, .parts = parts, .objects = objects, .n_parts = n_parts};
    cleanup_buf struct buf text = BUF_INIT;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n_parts; i++)
        rc = members_read(parts[i].name, parts[i].text, &objects[i], err);
    buf_add_char(&text, '{');
    if (rc == 0)
        rc = level_merge(&level, &text, err);
    if (rc == 0) {
        whole_add(&level, &text);
        buf_add_char(&text, '}');
        buf_add_json_indented(out, buf_str(&text), 0);
        buf_add_char(out, '\n');
    }
    for (size_t i = 0; i < n_parts; i++)
        free(objects[i].at);
    free(objects);
    return rc;
}
