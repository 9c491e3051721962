/* SPDX-License-Identifier: Apache-2.0
 *
 * Renumbers ids that begin again in each file, together with the values that refer to them:
 * PATH=REFERENCE,REFERENCE. An id is valid only within its file, so this is done before the files
 * are merged: ids are numbered through all files in order, and the references in the same file are
 * changed to match.
 */
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/xalloc.h"
#include "tensor/torch/torch_id.h"

static const char OPTION[] = "--renumber-path";

/* ---- the option ---- */

struct referred {
    char *text; /* `path` and `references` are views of it */
    struct path_pattern ids;
    struct path_pattern *references; /* [n_references] */
    const char **names;              /* [n_references], as they were typed */
    bool *are_met;                   /* [n_references]: some file has such a reference */
    size_t n_references;
};

static void referred_release(struct referred *r)
{
    free(r->text);
    free(r->references);
    free(r->names);
    free(r->are_met);
}

static int references_parse(struct referred *r, char *text, struct err *err)
{
    size_t most = 1;
    for (const char *at = text; *at; at++)
        most += *at == ',';
    r->references = xcalloc(most, sizeof(*r->references));
    r->names = xcalloc(most, sizeof(*r->names));
    r->are_met = xcalloc(most, sizeof(*r->are_met));
    for (char *next = text; next; r->n_references++) {
        char *comma = strchr(next, ',');
        if (comma)
            *comma = '\0';
        r->names[r->n_references] = next;
        int rc = *next ? path_pattern_parse(next, &r->references[r->n_references], err)
                       : fail(err, ERR_USAGE, "an empty path");
        if (rc)
            return rc;
        next = comma ? comma + 1 : NULL;
    }
    return 0;
}

/* Call referred_release() after a failure too. */
static int referred_parse(const char *text, struct referred *out, struct err *err)
{
    *out = (struct referred){.text = xstrdup(text)};
    char *equals = strchr(out->text, '=');
    if (!equals || equals == out->text)
        return fail(err, ERR_USAGE,
                    "%s '%s' is not PATH=REFERENCE,…, such as "
                    "'items.*.id=items.*.parent_id,items.*.child_ids.*'",
                    OPTION, text);
    *equals = '\0';
    int rc = path_pattern_parse(out->text, &out->ids, err);
    if (rc == 0)
        rc = references_parse(out, equals + 1, err);
    return rc ? wrap(err, rc, "%s '%s'", OPTION, text) : 0;
}

int torch_refer_check(const char *text, struct err *err)
{
    struct referred referred;
    int rc = referred_parse(text, &referred, err);
    referred_release(&referred);
    return rc;
}

/* ---- the ids of a file ---- */

struct renamed {
    int64_t from, to;
    size_t ordinal; /* its position in its file */
};

/*
 * Finds the values of a file at a path. An object that is in several places gives one value for
 * each place.
 */
static int values_find(struct merge_state *merge, size_t part, const struct path_pattern *pattern,
                       bool are_references, struct ids *out)
{
    *out = (struct ids){.merge = merge,
                        .option = OPTION,
                        .pattern = *pattern,
                        .root_graph = part,
                        .are_references = are_references};
    out->max_visits = ids_visits_max(out);
    return ids_find(out, torch_merge_graph(merge, part)->root);
}

static int value_refuse(const struct ids *ids, size_t index, const char *what)
{
    cleanup_buf struct buf place = BUF_INIT;
    ids_place(ids, torch_merge_graph(ids->merge, ids->root_graph)->root, index, &place);
    return fail(ids->merge->err, ERR_DATA, "%s %s", buf_text(&place), what);
}

static bool is_number(const struct ids *ids, size_t index)
{
    const struct pickle_node *node = id_node(ids, &ids->at[index]);
    return node->kind == PICKLE_INT && node->integer >= 0;
}

static int by_from(const void *a, const void *b)
{
    const struct renamed *x = a, *y = b;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return (x->ordinal > y->ordinal) - (x->ordinal < y->ordinal);
}

static const struct renamed *renamed_find(const struct renamed *at, size_t len, int64_t from)
{
    size_t low = 0, high = len;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (at[middle].from < from)
            low = middle + 1;
        else
            high = middle;
    }
    return low < len && at[low].from == from ? &at[low] : NULL;
}

/*
 * The ids of a file, and the sorted list of their different values: an object that is in several
 * places has one id.
 */
struct table {
    struct ids ids;
    struct renamed *at; /* sorted */
    size_t len;
};

static bool is_same_slot(const struct id *a, const struct id *b)
{
    return a->holder == b->holder && a->slot == b->slot;
}

static int table_twice(const struct table *table, const struct renamed *one,
                       const struct renamed *other)
{
    cleanup_buf struct buf before = BUF_INIT, after = BUF_INIT;
    pickle_id root = torch_merge_graph(table->ids.merge, table->ids.root_graph)->root;
    ids_place(&table->ids, root, one->ordinal, &before);
    ids_place(&table->ids, root, other->ordinal, &after);
    return fail(
        table->ids.merge->err, ERR_DATA,
        "the id %ld is at %s, and again at %s, in one file: which of them a reference means "
        "cannot be told (%s)",
        one->from, buf_text(&before), buf_text(&after), OPTION);
}

static int table_make(struct merge_state *merge, size_t part, const struct path_pattern *pattern,
                      struct table *out)
{
    int rc = values_find(merge, part, pattern, false, &out->ids);
    const struct id *ids = out->ids.at;
    out->at = xcalloc(out->ids.len + 1, sizeof(*out->at));
    for (size_t i = 0; rc == 0 && i < out->ids.len; i++) {
        if (!is_number(&out->ids, i))
            return value_refuse(&out->ids, i,
                                "is no whole number from 0 on, as ids that are "
                                "referred to have to be");
        out->at[i] = (struct renamed){.from = id_node(&out->ids, &ids[i])->integer, .ordinal = i};
    }
    if (rc == 0 && out->ids.len > 0)
        qsort(out->at, out->ids.len, sizeof(*out->at), by_from);
    for (size_t i = 0; rc == 0 && i < out->ids.len; i++) {
        const struct renamed *last = out->len > 0 ? &out->at[out->len - 1] : NULL;
        if (!last || last->from != out->at[i].from)
            out->at[out->len++] = out->at[i];
        else if (!is_same_slot(&ids[last->ordinal], &ids[out->at[i].ordinal]))
            rc = table_twice(out, last, &out->at[i]);
    }
    return rc;
}

/* ---- all files ---- */

static int by_ordinal(const void *a, const void *b)
{
    const struct renamed *x = a, *y = b;
    return (x->ordinal > y->ordinal) - (x->ordinal < y->ordinal);
}

/* Gives the new numbers, in the order of the files, and within a file in the order of its ids. */
static uint64_t numbers_give(struct table *tables, size_t n_tables, int64_t *first)
{
    uint64_t n = 0;
    bool is_begun = false;
    for (size_t t = 0; t < n_tables; t++) {
        struct table *table = &tables[t];
        if (table->len > 0)
            qsort(table->at, table->len, sizeof(*table->at), by_ordinal);
        if (table->len > 0 && !is_begun)
            *first = table->at[0].from;
        is_begun = is_begun || table->len > 0;
        for (size_t i = 0; i < table->len; i++)
            table->at[i].to = *first + (int64_t)n++;
        if (table->len > 0)
            qsort(table->at, table->len, sizeof(*table->at), by_from);
    }
    return n;
}

static bool are_unique(const struct table *tables, size_t n_tables)
{
    size_t n = 0, k = 0;
    for (size_t t = 0; t < n_tables; t++)
        n += tables[t].len;
    cleanup_free struct renamed *all = xcalloc(n + 1, sizeof(*all));
    for (size_t t = 0; t < n_tables; t++)
        for (size_t i = 0; i < tables[t].len; i++)
            all[k++] = tables[t].at[i];
    if (n > 0)
        qsort(all, n, sizeof(*all), by_from);
    for (size_t i = 1; i < n; i++)
        if (all[i].from == all[i - 1].from)
            return false;
    return true;
}

/* Puts the new number into the slot of an id or reference of this file, once: `done` has a byte for
 * each slot. */
static void value_set(struct merge_state *merge, const struct id *id, int64_t number, uint8_t *done)
{
    struct pickle *graph = torch_merge_graph_mutable(merge, id->holder);
    if (done[id->slot])
        return;
    done[id->slot] = 1;
    pickle_id node = pickle_add(graph, (struct pickle_node){.kind = PICKLE_INT, .integer = number});
    graph->chunks[id->slot] = node;
}

static int references_set(const struct table *table, struct ids *ids, uint8_t *done,
                          uint64_t *n_set)
{
    for (size_t i = 0; i < ids->len; i++) {
        const struct renamed *to =
            is_number(ids, i)
                ? renamed_find(table->at, table->len, id_node(ids, &ids->at[i])->integer)
                : NULL;
        if (!to)
            return value_refuse(ids, i, "refers to no id of its file (--renumber-path)");
        value_set(ids->merge, &ids->at[i], to->to, done);
        ++*n_set;
    }
    return 0;
}

/*
 * Finds all references before any id is changed, because references are looked up by the old ids.
 */
static int part_set(struct merge_state *merge, size_t part, struct table *table, struct referred *r,
                    uint64_t *n_set)
{
    size_t n_slots = torch_merge_graph(merge, part)->n_chunks;
    cleanup_free uint8_t *done = xcalloc(n_slots + 1, 1);
    struct ids *found = xcalloc(r->n_references, sizeof(*found));
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < r->n_references; i++) {
        rc = values_find(merge, part, &r->references[i], true, &found[i]);
        r->are_met[i] = r->are_met[i] || found[i].len > 0;
    }
    for (size_t i = 0; rc == 0 && i < r->n_references; i++)
        rc = references_set(table, &found[i], done, n_set);
    for (size_t i = 0; rc == 0 && i < table->len; i++)
        value_set(merge, &table->ids.at[table->at[i].ordinal], table->at[i].to, done);
    for (size_t i = 0; i < r->n_references; i++)
        ids_release(&found[i]);
    free(found);
    return rc;
}

static int parts_set(struct merge_state *merge, struct table *tables, struct referred *r)
{
    int64_t first = 0;
    uint64_t n_set = 0, n_ids = numbers_give(tables, merge->n_parts, &first);
    int rc = 0;
    for (size_t part = 0; rc == 0 && part < merge->n_parts; part++)
        rc = part_set(merge, part, &tables[part], r, &n_set);
    for (size_t i = 0; rc == 0 && i < r->n_references; i++)
        if (!r->are_met[i])
            rc = fail(merge->err, ERR_USAGE, "%s: no file has a value at %s", OPTION, r->names[i]);
    if (rc == 0)
        torch_merge_note(
            merge, "%s %s: %lu ids are numbered from %ld to %ld, and %lu references follow", OPTION,
            r->text, n_ids, first, first + (int64_t)n_ids - (n_ids > 0), n_set);
    return rc;
}

static int referred_renumber(struct merge_state *merge, const char *text)
{
    struct referred referred;
    struct table *tables = xcalloc(merge->n_parts, sizeof(*tables));
    int rc = referred_parse(text, &referred, merge->err);
    for (size_t part = 0; rc == 0 && part < merge->n_parts; part++)
        rc = table_make(merge, part, &referred.ids, &tables[part]);
    if (rc == 0 && are_unique(tables, merge->n_parts))
        torch_merge_note(merge, "%s %s: no id is in two files, so none is changed", OPTION,
                         referred.text);
    else if (rc == 0)
        rc = parts_set(merge, tables, &referred);
    for (size_t part = 0; part < merge->n_parts; part++) {
        ids_release(&tables[part].ids);
        free(tables[part].at);
    }
    free(tables);
    referred_release(&referred);
    return rc;
}

int refer_parts(struct merge_state *merge)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < merge->opts->referred->len; i++)
        rc = referred_renumber(merge, merge->opts->referred->at[i]);
    return rc;
}
