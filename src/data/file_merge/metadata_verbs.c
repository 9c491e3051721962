/* SPDX-License-Identifier: Apache-2.0
 *
 * One function per verb of a rule: each merges the values of one path. Values are copied as they
 * are written; only sums are computed.
 */
#include <math.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/json_identity.h"
#include "base/xalloc.h"
#include "data/file_merge/metadata_impl.h"

/* The arguments of a verb, and the buffer for the merged value. */
struct ask {
    const struct level *level;
    struct str key;
    const struct str *values; /* n_parts */
    struct buf *out;
    struct err *err;
};

static const char *part_name(const struct ask *ask, size_t part)
{
    return ask->level->parts[part].name;
}

/* ---- arrays and all kinds of values ---- */

static int concat(const struct ask *ask)
{
    size_t n_elements = 0;
    buf_add_char(ask->out, '[');
    for (size_t i = 0; i < ask->level->n_parts; i++) {
        struct str rest = ask->values[i], element;
        bool is_begun = false;
        if (json_kind_of(rest) != JSON_ARRAY)
            return level_fail(ask->level, ask->err,
                              "is no array in %s, so it cannot be put behind the others'",
                              part_name(ask, i));
        while (json_element(&rest, &is_begun, &element)) {
            buf_add_text(ask->out, n_elements++ > 0 ? "," : "");
            buf_add_str(ask->out, element);
        }
    }
    buf_add_char(ask->out, ']');
    return 0;
}

static int cat0(const struct ask *ask)
{
    return fail(ask->err, ERR_USAGE,
                "the rule for '%s': cat0 is about tensors; concat puts arrays behind one another",
                buf_text(ask->level->path));
}

static int same(const struct ask *ask)
{
    for (size_t i = 1; i < ask->level->n_parts; i++)
        if (!metadata_is_same(ask->values[0], ask->values[i]))
            return level_fail(ask->level, ask->err, "differs between %s and %s", part_name(ask, 0),
                              part_name(ask, i));
    buf_add_str(ask->out, ask->values[0]);
    return 0;
}

static int first(const struct ask *ask)
{
    buf_add_str(ask->out, ask->values[0]);
    return 0;
}

static int collect(const struct ask *ask)
{
    metadata_list(ask->values, ask->level->n_parts, ask->out);
    return 0;
}

static int merged_name(const struct ask *ask)
{
    int rc = metadata_batch_name(ask->level, ask->values, ask->out);
    return rc == 1 ? 0
                   : level_fail(ask->level, ask->err, "is not the name of one job in all files");
}

/* ---- numbers ---- */

/* A whole number as long as all numbers are whole, a float from the first float on. */
struct sum {
    int64_t whole;
    double real;
    bool is_real;
};

static bool is_whole_number(struct str number)
{
    for (size_t i = 0; i < number.len; i++)
        if (strchr(".eE", number.at[i])) /* strchr() would find a NUL, but a number has none */
            return false;
    return true;
}

static int sum_add(const struct ask *ask, struct sum *sum, size_t part, struct str value)
{
    int64_t whole = 0;
    double real;
    if (json_kind_of(value) != JSON_NUMBER || !json_to_double(value, &real))
        return level_fail(ask->level, ask->err, "is no number in %s, so it cannot be added",
                          part_name(ask, part));
    bool is_whole = is_whole_number(value);
    bool fits = is_whole && metadata_to_i64(value, &whole) &&
                !__builtin_add_overflow(sum->whole, whole, &sum->whole);
    sum->is_real = sum->is_real || !is_whole;
    sum->real += real;
    if (is_whole && !fits)
        return level_fail(ask->level, ask->err, "adds up to more than 64 bits hold");
    return isfinite(sum->real)
               ? 0
               : level_fail(ask->level, ask->err, "adds up to more than a float holds");
}

static void sum_write(const struct sum *sum, struct buf *out)
{
    if (sum->is_real)
        buf_add_json_double(out, sum->real);
    else
        buf_addf(out, "%ld", sum->whole);
}

static int sum(const struct ask *ask)
{
    struct sum total = {0};
    int rc = 0;
    for (size_t i = 0; i < ask->level->n_parts && rc == 0; i++)
        rc = sum_add(ask, &total, i, ask->values[i]);
    sum_write(&total, ask->out);
    return rc;
}

static int key_sum(const struct ask *ask, const struct members *objects, struct str key)
{
    struct sum total = {0};
    struct str only = {NULL, 0};
    size_t n_found = 0;
    int rc = 0;
    for (size_t i = 0; i < ask->level->n_parts && rc == 0; i++) {
        struct str value = member_like(&objects[i], key);
        rc = value.at ? sum_add(ask, &total, i, value) : 0;
        n_found += value.at != NULL;
        only = value.at ? value : only;
    }
    buf_addf(ask->out, "%s\"%.*s\":", ask->out->len > 1 ? "," : "", (int)key.len, key.at);
    if (n_found == 1)
        buf_add_str(ask->out, only); /* a single number keeps all its digits */
    else
        sum_write(&total, ask->out);
    return rc;
}

static int keys_sum(const struct ask *ask, const struct members *objects)
{
    struct members done = {0};
    int rc = 0;
    for (size_t part = 0; part < ask->level->n_parts; part++) {
        for (size_t i = 0; i < objects[part].len && rc == 0; i++) {
            const struct member *member = &objects[part].at[i];
            if (members_add(&done, member->key, member->value))
                rc = key_sum(ask, objects, member->key);
        }
    }
    members_release(&done);
    return rc;
}

static int no_object(const struct ask *ask, size_t part)
{
    return level_fail(ask->level, ask->err, "is no object in %s", part_name(ask, part));
}

static int sum_by_key(const struct ask *ask)
{
    size_t n_parts = ask->level->n_parts;
    struct members *objects = xcalloc(n_parts, sizeof(*objects));
    int rc = 0;
    for (size_t i = 0; i < n_parts && rc == 0; i++)
        rc = json_kind_of(ask->values[i]) == JSON_OBJECT
                 ? members_read(part_name(ask, i), ask->values[i], &objects[i], ask->err)
                 : no_object(ask, i);
    buf_add_char(ask->out, '{');
    if (rc == 0)
        rc = keys_sum(ask, objects);
    buf_add_char(ask->out, '}');
    for (size_t i = 0; i < n_parts; i++)
        members_release(&objects[i]);
    free(objects);
    return rc;
}

/* Compares numbers by size and texts by their bytes; false if the values are neither. */
static bool is_greater(struct str a, struct str b, bool *out)
{
    bool are_texts = json_kind_of(a) == JSON_STRING && json_kind_of(b) == JSON_STRING;
    double finite;
    if (json_to_double(a, &finite) && json_to_double(b, &finite)) {
        *out = json_number_order(a, b) > 0;
        return true;
    }
    *out = are_texts && metadata_text_order(a, b) > 0;
    return are_texts;
}

static int max(const struct ask *ask)
{
    struct str greatest = ask->values[0];
    /* Begins at 0, so that a value of another kind is found even where there is a single file. */
    for (size_t i = 0; i < ask->level->n_parts; i++) {
        bool is_more;
        if (!is_greater(ask->values[i], greatest, &is_more))
            return level_fail(ask->level, ask->err,
                              "is neither a number nor a text in all files, so none is greatest");
        greatest = is_more ? ask->values[i] : greatest;
    }
    buf_add_str(ask->out, greatest);
    return 0;
}

/* ---- objects ---- */

/* NOLINTBEGIN(misc-no-recursion): at most as deep as a JSON value may be, JSON_DEPTH_MAX */
static int below(const struct ask *ask, enum merge_verb by)
{
    for (size_t i = 0; i < ask->level->n_parts; i++)
        if (json_kind_of(ask->values[i]) != JSON_OBJECT)
            return no_object(ask, i);
    return metadata_below(ask->level, ask->key, ask->values, by, ask->out, ask->err);
}

static int unite(const struct ask *ask)
{
    return below(ask, MERGE_UNION);
}

static int deep(const struct ask *ask)
{
    return below(ask, MERGE_DEEP);
}

int metadata_verb(const struct level *level, enum merge_verb verb, struct str key,
                  const struct str *values, struct buf *out, struct err *err)
{
    /* COUNT and RATIO are missing, because their members are made after all others. */
    static int (*const verbs[])(const struct ask *ask) = {
        [MERGE_CONCAT] = concat,   [MERGE_CAT0] = cat0,
        [MERGE_SUM] = sum,         [MERGE_SUM_BY_KEY] = sum_by_key,
        [MERGE_SAME] = same,       [MERGE_FIRST] = first,
        [MERGE_MAX] = max,         [MERGE_MERGED] = merged_name,
        [MERGE_COLLECT] = collect, [MERGE_UNION] = unite,
        [MERGE_DEEP] = deep,
    };
    const struct ask ask = {level, key, values, out, err};
    size_t has = 0;
    if (verb == MERGE_DROP)
        return 0;
    if (verb >= countof(verbs) || !verbs[verb])
        return level_fail(level, err, "cannot be merged by %s", merge_verb_name(verb));
    while (!values[has].at)
        has++;
    for (size_t i = 0; i < level->n_parts && verb != MERGE_COLLECT; i++)
        if (!values[i].at)
            return level_fail(level, err, "is in %s, and missing in %s", level->parts[has].name,
                              level->parts[i].name);
    int rc = verbs[verb](&ask);
    return rc ? rc : 1;
}

/* NOLINTEND(misc-no-recursion) */
