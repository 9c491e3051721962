/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers that must agree: a count and the list beside it, the number of records and the one that
 * the user expects.
 */
#include "base/cleanup.h"
#include "rule/names.h"
#include "tensor/torch/torch_normalise.h"

enum {
    PATHS_SHOWN_BYTES = 200
};

void tally_add(struct merge_state *merge, struct tally *tally, uint64_t length)
{
    if (tally->paths.len == 0)
        tally->length = length;
    tally->differs = tally->differs || tally->length != length;
    if (tally->paths.len < PATHS_SHOWN_BYTES)
        buf_addf(&tally->paths, "%s%s", tally->paths.len > 0 ? ", " : "", buf_text(&merge->path));
}

/*
 * Finds the number of records: that of the ids if ids are checked, else the length of the
 * concatenated lists, or of the tensors if no lists were concatenated. ERR_USAGE if the lengths
 * differ.
 */
static int records_count(const struct merge_state *merge, uint64_t *out)
{
    const struct tally *tally = merge->lists.paths.len > 0 ? &merge->lists : &merge->tensors;
    if (merge->opts->id_path) {
        *out = merge->n_ids;
        return 0;
    }
    if (tally->paths.len == 0)
        return fail(merge->err, ERR_USAGE,
                    "--expect: nothing was put behind one another, so there is nothing to count; "
                    "--id says what the records are");
    if (tally->differs)
        return fail(merge->err, ERR_USAGE,
                    "--expect: not all of %s are of one length; --id says what the records are",
                    buf_text(&tally->paths));
    *out = tally->length;
    return 0;
}

int expect_check(struct merge_state *merge)
{
    uint64_t n_records = 0;
    if (!merge->opts->expect)
        return 0;
    int rc = records_count(merge, &n_records);
    if (rc || n_records == *merge->opts->expect)
        return rc;
    return fail(merge->err, ERR_FAILED, "expected %lu records, found %lu", *merge->opts->expect,
                n_records);
}

/* True unless the path is within settings or a rule of the user is about it. */
static bool is_looked_at(const struct merge_state *merge, const char *path)
{
    return !path_is_setting(path) && !merge_rule_find(merge->opts->rules, path);
}

static int count_check(struct merge_state *merge, size_t part, struct str name, int64_t count,
                       struct str listed, uint32_t n_listed)
{
    cleanup_buf struct buf path = BUF_INIT;
    if (merge->depth > 1)
        buf_addf(&path, "%s.", buf_text(&merge->path));
    buf_add_str(&path, name);
    if (count == n_listed || !is_looked_at(merge, buf_text(&path)))
        return 0;
    return fail(merge->err, ERR_DATA,
                "%s: '%s' says %ld, and '%.*s' holds %u; --rule '%s=sum' takes them as they are",
                torch_merge_file_name(merge, part), buf_text(&path), count, (int)listed.len,
                listed.at, n_listed, buf_text(&path));
}

/* Compares the count with the length of the list, in each part where the value is a list. */
static int lists_check(struct merge_state *merge, const struct torch_key_index *keys,
                       uint32_t number, uint32_t listed, struct str name, struct str list_name)
{
    const struct key_value *count = key_value_first(keys, number);
    const struct key_value *list = key_value_first(keys, listed);
    int rc = 0;
    while (rc == 0 && count && list) {
        if (count->side != list->side) {
            if (count->side < list->side)
                count = key_value_next(keys, count);
            else
                list = key_value_next(keys, list);
            continue;
        }
        const struct pickle *graph = torch_merge_graph(merge, count->side);
        const struct pickle_node *said = pickle_node(graph, count->value);
        const struct pickle_node *items = pickle_node(graph, list->value);
        if (said->kind == PICKLE_INT && (items->kind == PICKLE_LIST || items->kind == PICKLE_TUPLE))
            rc = count_check(merge, count->side, name, said->integer, list_name, items->count);
        count = key_value_next(keys, count);
        list = key_value_next(keys, list);
    }
    return rc;
}

int counts_check(struct merge_state *merge, struct torch_key_index *keys)
{
    int rc = 0;
    for (uint32_t i = 0; i < keys->n_entries && rc == 0; i++) {
        struct node_ref ref = keys->entries[i].ref;
        const struct pickle *graph = torch_merge_graph(merge, ref.part);
        const struct pickle_node *key = pickle_node(graph, ref.id);
        if (key->kind != PICKLE_TEXT)
            continue;
        struct str name = pickle_bytes(graph, key), list_name = counted_by(name);
        uint32_t listed = list_name.at ? torch_key_index_find_text(keys, list_name) : UINT32_MAX;
        if (listed != UINT32_MAX)
            rc = lists_check(merge, keys, i, listed, name, list_name);
    }
    return rc;
}
