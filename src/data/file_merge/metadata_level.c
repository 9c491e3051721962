/* SPDX-License-Identifier: Apache-2.0
 *
 * Merges the objects at one place, one of each file, into one object. The user's rule for a member
 * decides how it is merged; without one the rule of the object (DEEP, UNION) does, or else the
 * member's name.
 */
#include <math.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/xalloc.h"
#include "data/file_merge/metadata_impl.h"
#include "rule/names.h"

/* Adds the value once if it is the same in all files, else the list of all files' values. */
static void keep_add(const struct str *values, size_t n_values, struct buf *out)
{
    bool are_same = true;
    for (size_t i = 0; i < n_values && are_same; i++)
        are_same = metadata_is_same(values[0], values[i]);
    if (are_same)
        buf_add_str(out, values[0]);
    else
        metadata_list(values, n_values, out);
}

/* NOLINTBEGIN(misc-no-recursion): at most as deep as a JSON value may be, JSON_DEPTH_MAX */

static bool are_objects(const struct str *values, size_t n_values)
{
    for (size_t i = 0; i < n_values; i++)
        if (values[i].at && json_kind_of(values[i]) != JSON_OBJECT)
            return false;
    return true;
}

int metadata_below(const struct level *level, struct str key, const struct str *values,
                   enum merge_verb by, struct buf *out, struct err *err)
{
    struct members *objects = xcalloc(level->n_parts, sizeof(*objects));
    struct level below = *level;
    int rc = 0;
    below.objects = objects;
    below.texts = values;
    below.is_below = true;
    below.by = by;
    below.is_settings = level->is_settings || is_settings_name(key);
    for (size_t i = 0; rc == 0 && i < level->n_parts; i++)
        if (values[i].at)
            rc = members_read(level->parts[i].name, values[i], &objects[i], err);
    if (rc == 0)
        rc = level_merge(&below, out, err);
    for (size_t i = 0; i < level->n_parts; i++)
        members_release(&objects[i]);
    free(objects);
    return rc;
}

/*
 * Merges one member by the rule for its name, or by RULE_KEEP if that rule does not fit the values.
 */
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
        return metadata_below(level, key, values, MERGE_BY_KIND, out, err);
    keep_add(values, level->n_parts, out);
    return 0;
}

/* RULE_DROP and RULE_WHOLE are about the files themselves, so they apply at the top level only; in
 * a nested object such a member is a value like any other. */
static bool is_written(const struct level *level, struct str key)
{
    enum metadata_rule rule = metadata_rule_of(key);
    return level->is_below || level->by != MERGE_BY_KIND ||
           (rule != RULE_DROP && rule != RULE_WHOLE);
}

/* ---- members of the output ---- */

struct made {
    struct str key;   /* as it is written in a file, without its quotes */
    const char *name; /* the name that a rule gives; NULL: `key` is the name */
    struct buf value;
    const struct merge_rule *ratio; /* not NULL: the value is computed after all other values */
};

struct made_list {
    struct made *at;
    size_t len;
};

static struct made *made_push(struct made_list *list, struct made made)
{
    list->at = xrealloc(list->at, (list->len + 1) * sizeof(*list->at));
    list->at[list->len] = made;
    return &list->at[list->len++];
}

static void made_release(struct made_list *list)
{
    for (size_t i = 0; i < list->len; i++)
        buf_release(&list->at[i].value);
    free(list->at);
}

static const struct made *made_find(const struct made_list *list, const char *name)
{
    for (size_t i = 0; i < list->len; i++)
        if (list->at[i].name ? strcmp(list->at[i].name, name) == 0
                             : json_key_equal(list->at[i].key, str_of(name)))
            return &list->at[i];
    return NULL;
}

static size_t path_push(const struct level *level, struct str key)
{
    size_t before = level->path->len;
    if (!level->is_below)
        buf_reset(level->path);
    else
        buf_add_char(level->path, '.');
    (void)json_key_to_text(key, level->path);
    return before;
}

static void path_pop(const struct level *level, size_t before)
{
    if (level->is_below) {
        level->path->len = before;
        level->path->at[before] = '\0';
        return;
    }
    buf_reset(level->path);
    buf_add_char(level->path, '.');
}

static struct merge_rule *rule_find(const struct level *level)
{
    return level->opts->rules ? merge_rule_find(level->opts->rules, buf_text(level->path)) : NULL;
}

/*
 * Merges a member that no rule of the user is about: by the object's rule, or by its name. 1, or an
 * error.
 */
static int member_unruled(const struct level *level, struct str key, const struct str *values,
                          struct buf *out, struct err *err)
{
    size_t first = 0;
    while (!values[first].at)
        first++;
    for (size_t i = 0; i < level->n_parts; i++) {
        if (level->by == MERGE_DEEP && !values[i].at)
            return level_fail(level, err, "is in %s, and missing in %s", level->parts[first].name,
                              level->parts[i].name);
        if (level->by == MERGE_UNION && values[i].at && !metadata_is_same(values[first], values[i]))
            return level_fail(level, err, "is in %s and in %s, and not the same",
                              level->parts[first].name, level->parts[i].name);
    }
    if (level->by == MERGE_UNION) {
        buf_add_str(out, values[first]);
        return 1;
    }
    int rc = value_merge(level, key, values, out, err);
    return rc ? rc : 1;
}

static int member_add(const struct level *level, struct str key, struct made_list *list,
                      struct err *err)
{
    cleanup_free struct str *values = xcalloc(level->n_parts, sizeof(*values));
    cleanup_buf struct buf value = BUF_INIT;
    size_t before = path_push(level, key);
    const struct merge_rule *rule = rule_find(level);
    int rc = 1;
    for (size_t i = 0; i < level->n_parts; i++)
        values[i] = member_like(&level->objects[i], key);
    if (rule && rule->verb != MERGE_RATIO)
        rc = metadata_verb(level, rule->verb, key, values, &value, err);
    else if (!rule && !is_written(level, key))
        rc = 0;
    else if (!rule)
        rc = member_unruled(level, key, values, &value, err);
    path_pop(level, before);
    if (rc <= 0)
        return rc;
    bool is_ratio = rule && rule->verb == MERGE_RATIO;
    (void)made_push(list, (struct made){key, NULL, value, is_ratio ? rule : NULL});
    value = (struct buf)BUF_INIT;
    return 0;
}

/* Adds the members that rules with a leading + make. */
static int added_push(const struct level *level, struct made_list *list, struct err *err)
{
    const struct merge_rules *rules = level->opts->rules;
    for (size_t i = 0; rules && i < rules->len; i++) {
        struct merge_rule *rule = &rules->at[i];
        const char *name = merge_rule_added_name(rule, buf_text(level->path));
        if (!name)
            continue;
        rule->was_used = true;
        if (made_find(list, name))
            return level_fail(level, err, "has a key '%s' already; --rule '%s=drop' makes room",
                              name, rule->path);
        struct made *made = made_push(
            list, (struct made){.name = name, .ratio = rule->verb == MERGE_RATIO ? rule : NULL});
        if (rule->verb == MERGE_COUNT)
            buf_addf(&made->value, "%zu", level->n_parts);
        else if (rule->verb == MERGE_COLLECT)
            metadata_list(level->texts, level->n_parts, &made->value);
    }
    return 0;
}

static bool made_number(const struct made_list *list, const char *name, double *out)
{
    const struct made *made = made_find(list, name);
    return made && !made->ratio && json_to_double(buf_str(&made->value), out);
}

static int ratios_fill(const struct level *level, struct made_list *list, struct err *err)
{
    for (size_t i = 0; i < list->len; i++) {
        struct made *made = &list->at[i];
        double above, below;
        if (!made->ratio)
            continue;
        if (!made_number(list, made->ratio->above, &above) ||
            !made_number(list, made->ratio->below, &below))
            return level_fail(level, err, "has no numbers '%s' and '%s' for the ratio '%s'",
                              made->ratio->above, made->ratio->below, made->ratio->path);
        if (below != 0 && !isfinite(above / below))
            return level_fail(level, err, "has a ratio '%s' that is more than a float holds",
                              made->ratio->path);
        if (below != 0)
            buf_add_json_double(&made->value, above / below);
        else
            buf_add_text(&made->value, "null"); /* a ratio that cannot be computed */
    }
    return 0;
}

static void made_write(const struct made_list *list, struct buf *out)
{
    buf_add_char(out, '{');
    for (size_t i = 0; i < list->len; i++) {
        const struct made *made = &list->at[i];
        buf_add_text(out, i > 0 ? "," : "");
        if (made->name)
            buf_add_json(out, str_of(made->name));
        else
            buf_addf(out, "\"%.*s\"", (int)made->key.len, made->key.at);
        buf_add_char(out, ':');
        buf_add_str(out, buf_str(&made->value));
    }
    buf_add_char(out, '}');
}

/* ---- a count and what it counts ---- */

static uint64_t elements_count(struct str array)
{
    uint64_t n = 0;
    bool is_begun = false;
    for (struct str element; json_element(&array, &is_begun, &element);)
        n++;
    return n;
}

/* True unless the key is among settings or a rule of the user is about it. */
static bool is_looked_at(const struct level *level, struct str key)
{
    size_t before = path_push(level, key);
    bool is_ruled = rule_find(level) != NULL;
    path_pop(level, before);
    return !is_ruled && !level->is_settings;
}

/* ERR_DATA if num_questions beside an array `questions` is not the length of that array. */
static int count_check(const struct level *level, size_t part, struct err *err)
{
    const struct members *object = &level->objects[part];
    for (size_t i = 0; i < object->len; i++) {
        struct str key = object->at[i].key, counted = counted_by(key);
        uint64_t n_said, n_held;
        if (!counted.at || !json_to_u64(object->at[i].value, &n_said))
            continue;
        struct str list = member_get(object, counted);
        if (!list.at || json_kind_of(list) != JSON_ARRAY || !is_looked_at(level, key))
            continue;
        n_held = elements_count(list);
        if (n_held != n_said)
            return fail(err, ERR_DATA,
                        "%s: '%.*s' says %lu, and '%.*s' holds %lu; a rule for the first, such as "
                        "sum, takes them as they are",
                        level->parts[part].name, (int)key.len, key.at, n_said, (int)counted.len,
                        counted.at, n_held);
    }
    return 0;
}

/* ---- the whole ---- */

int level_merge(const struct level *level, struct buf *out, struct err *err)
{
    struct made_list list = {0};
    struct members done = {0};
    int rc = 0;
    for (size_t part = 0; part < level->n_parts; part++) {
        if (rc == 0)
            rc = count_check(level, part, err);
        for (size_t i = 0; rc == 0 && i < level->objects[part].len; i++) {
            const struct member *member = &level->objects[part].at[i];
            if (members_add(&done, member->key, member->value))
                rc = member_add(level, member->key, &list, err);
        }
    }
    members_release(&done);
    if (rc == 0)
        rc = added_push(level, &list, err);
    if (rc == 0)
        rc = ratios_fill(level, &list, err);
    if (rc == 0)
        made_write(&list, out);
    made_release(&list);
    return rc;
}

/* NOLINTEND(misc-no-recursion) */
