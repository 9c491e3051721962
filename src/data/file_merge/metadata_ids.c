/* SPDX-License-Identifier: Apache-2.0
 *
 * Ids within objects of metadata, by their path.
 */
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/json_identity.h"
#include "base/xalloc.h"
#include "data/file_merge/metadata_impl.h"
#include "rule/path_pattern.h"

/* The decoded value of an id, [at, at+len) in `values`; equal ids have equal bytes. */
struct id {
    size_t at, len;
    size_t ordinal;
};

struct search {
    struct path_pattern pattern;
    const char *file; /* being searched */
    struct buf here;  /* keys and indices of the current value */
    struct buf values;
    struct id *ids;
    size_t n_ids, cap_ids;
    struct buf *wanted_place; /* gets the place of the id with ordinal `wanted`; NULL: not filled */
    size_t wanted;
    struct err *err;
};

static int refuse(const struct search *s, size_t level, const char *what)
{
    const char *place = s->here.len > 0 ? buf_text(&s->here) : ".";
    if (level == s->pattern.len)
        return fail(s->err, ERR_DATA, "%s: %s %s, so it is no id", s->file, place, what);
    return fail(s->err, ERR_DATA, "%s: %s %s '%.*s', which --id asks for", s->file, place, what,
                (int)s->pattern.at[level].len, s->pattern.at[level].at);
}

/*
 * Adds a letter for the value's kind, then the text, or the number in a form in which 1 and 1.0 are
 * equal.
 */
static bool value_add(struct str value, struct buf *out)
{
    bool is_text = json_kind_of(value) == JSON_STRING;
    buf_add_char(out, is_text ? 's' : 'n');
    return is_text ? json_to_wide_text(value, out) : buf_add_number_identity(out, value);
}

static int id_add(struct search *s, struct str value)
{
    size_t before = s->values.len;
    if (!value_add(value, &s->values))
        return refuse(s, s->pattern.len, "is no text and no number");
    if (s->wanted_place && s->wanted == s->n_ids)
        buf_addf(s->wanted_place, "%s: %s", s->file, buf_text(&s->here));
    if (s->n_ids == s->cap_ids) {
        s->cap_ids = MAX(s->cap_ids * 2, (size_t)64);
        s->ids = xrealloc(s->ids, s->cap_ids * sizeof(*s->ids));
    }
    s->ids[s->n_ids] = (struct id){before, s->values.len - before, s->n_ids};
    s->n_ids++;
    return 0;
}

/* NOLINTBEGIN(misc-no-recursion): PATH_KEYS_MAX deep */

static int value_look(struct search *s, struct str value, size_t level);

/*
 * Looks at a member or an element. Its name was added to `here`, which had `before` bytes until
 * then.
 */
static int child_look(struct search *s, struct str value, size_t before, size_t level, bool *is_met)
{
    size_t begin = before + (before > 0);
    struct str name = {s->here.at + begin, s->here.len - begin};
    int rc = 0;
    if (path_key_matches(s->pattern.at[level], name)) {
        *is_met = true;
        rc = value_look(s, value, level + 1);
    }
    s->here.len = before;
    s->here.at[before] = '\0';
    return rc;
}

static int value_look(struct search *s, struct str value, size_t level)
{
    enum json_kind kind = json_kind_of(value);
    struct json_members members = json_members(value);
    struct str key, child;
    size_t before = s->here.len;
    bool is_met = false, is_begun = false;
    uint64_t index = 0;
    int rc = 0;
    if (level == s->pattern.len)
        return id_add(s, value);
    while (rc == 0 && kind == JSON_OBJECT && json_next(&members, &key, &child)) {
        buf_add_text(&s->here, before > 0 ? "." : "");
        (void)json_key_to_text(key, &s->here);
        rc = child_look(s, child, before, level, &is_met);
    }
    while (rc == 0 && kind == JSON_ARRAY && json_element(&value, &is_begun, &child)) {
        buf_addf(&s->here, "%s%lu", before > 0 ? "." : "", index++);
        rc = child_look(s, child, before, level, &is_met);
    }
    bool is_open = path_key_is_wildcard(s->pattern.at[level]);
    if (rc || is_met || (is_open && (kind == JSON_OBJECT || kind == JSON_ARRAY)))
        return rc;
    return refuse(s, level,
                  kind == JSON_OBJECT  ? "has no"
                  : kind == JSON_ARRAY ? "is an array (* stands for each of its elements) without"
                                       : "is neither an object nor an array, and has no");
}

/* NOLINTEND(misc-no-recursion) */

static int parts_look(struct search *s, const struct metadata_part *parts, size_t n_parts)
{
    int rc = 0;
    for (size_t i = 0; i < n_parts && rc == 0; i++) {
        s->file = parts[i].name;
        rc = value_look(s, str_trim(parts[i].text), 0);
    }
    return rc;
}

static int id_compare(const struct search *s, const struct id *a, const struct id *b)
{
    return str_compare((struct str){s->values.at + a->at, a->len},
                       (struct str){s->values.at + b->at, b->len});
}

static int id_order(const void *a, const void *b, void *context)
{
    const struct id *left = a, *right = b;
    int order = id_compare(context, left, right);
    return order ? order : (left->ordinal > right->ordinal) - (left->ordinal < right->ordinal);
}

static void place_of(const struct search *s, size_t ordinal, const struct metadata_part *parts,
                     size_t n_parts, struct buf *out)
{
    struct search again = {.pattern = s->pattern, .wanted_place = out, .wanted = ordinal};
    (void)parts_look(&again, parts, n_parts);
    buf_release(&again.here);
    buf_release(&again.values);
    free(again.ids);
}

/* ERR_DATA if two ids are equal; of several duplicates the first one is reported. */
static int ids_compare(struct search *s, const struct metadata_part *parts, size_t n_parts)
{
    cleanup_buf struct buf place = BUF_INIT, other = BUF_INIT;
    const struct id *second = NULL, *first = NULL;
    if (s->n_ids > 0)
        qsort_r(s->ids, s->n_ids, sizeof(*s->ids), id_order, s);
    for (size_t i = 1; i < s->n_ids; i++) {
        bool is_same = id_compare(s, &s->ids[i - 1], &s->ids[i]) == 0;
        if (!is_same || (second && second->ordinal < s->ids[i].ordinal))
            continue;
        second = &s->ids[i];
        first = &s->ids[i - 1];
    }
    if (!second)
        return 0;
    place_of(s, first->ordinal, parts, n_parts, &other);
    place_of(s, second->ordinal, parts, n_parts, &place);
    return fail(s->err, ERR_DATA, "the id '%.*s' is at %s, and again at %s",
                (int)MIN(second->len - 1, (size_t)80), s->values.at + second->at + 1,
                buf_text(&other), buf_text(&place));
}

int metadata_ids(const char *path, const struct metadata_part *parts, size_t n_parts,
                 struct err *err)
{
    struct search s = {.err = err};
    int rc = path_pattern_parse(path, &s.pattern, err);
    if (rc == 0)
        rc = parts_look(&s, parts, n_parts);
    if (rc == 0)
        rc = ids_compare(&s, parts, n_parts);
    buf_release(&s.here);
    buf_release(&s.values);
    free(s.ids);
    return rc;
}
