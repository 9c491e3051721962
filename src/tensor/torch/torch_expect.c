/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers that have to agree: a count and the list beside it, the records and what the user was promised.
 */
#include "base/cleanup.h"
#include "rule/names.h"
#include "tensor/torch/torch_mend.h"

enum {
    PATHS_SHOWN_BYTES = 200
};

void tally_add(struct graft *graft, struct tally *tally, uint64_t length)
{
    if (tally->paths.len == 0)
        tally->length = length;
    tally->differs = tally->differs || tally->length != length;
    if (tally->paths.len < PATHS_SHOWN_BYTES)
        buf_addf(&tally->paths, "%s%s", tally->paths.len > 0 ? ", " : "", buf_text(&graft->path));
}

/* One number for all that was put together, from lists if there are any, else from tensors. */
static int records_count(const struct graft *graft, uint64_t *out)
{
    const struct tally *tally = graft->lists.paths.len > 0 ? &graft->lists : &graft->tensors;
    if (graft->opts->id_path) {
        *out = graft->n_ids;
        return 0;
    }
    if (tally->paths.len == 0)
        return fail(graft->err, ERR_USAGE,
                    "--expect: nothing was put behind one another, so there is nothing to count; "
                    "--id says what the records are");
    if (tally->differs)
        return fail(graft->err, ERR_USAGE,
                    "--expect: not all of %s are of one length; --id says what the records are",
                    buf_text(&tally->paths));
    *out = tally->length;
    return 0;
}

int expect_check(struct graft *graft)
{
    uint64_t n_records = 0;
    if (!graft->opts->expect)
        return 0;
    int rc = records_count(graft, &n_records);
    if (rc || n_records == *graft->opts->expect)
        return rc;
    return fail(graft->err, ERR_FAILED, "expected %lu records, found %lu", *graft->opts->expect,
                n_records);
}

/* What a rule is about is nobody else's business. */
static bool is_looked_at(const struct graft *graft, const char *path)
{
    return !path_is_setting(path) && !merge_rule_find(graft->opts->rules, path);
}

static int count_check(struct graft *graft, size_t part, struct str name, int64_t count,
                       struct str listed, uint32_t n_listed)
{
    cleanup_buf struct buf path = BUF_INIT;
    if (graft->depth > 1)
        buf_addf(&path, "%s.", buf_text(&graft->path));
    buf_add_str(&path, name);
    if (count == n_listed || !is_looked_at(graft, buf_text(&path)))
        return 0;
    return fail(graft->err, ERR_DATA,
                "%s: '%s' says %ld, and '%.*s' holds %u; --rule '%s=sum' takes them as they are",
                graft_file_name(graft, part), buf_text(&path), count, (int)listed.len, listed.at,
                n_listed, buf_text(&path));
}

/* Is the value of some part a list, and its length another than the count? */
static int lists_check(struct graft *graft, const struct key_index *keys, uint32_t number,
                       uint32_t listed, struct str name, struct str list_name)
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
        const struct pickle *graph = graft_graph(graft, count->side);
        const struct pickle_node *said = pickle_node(graph, count->value);
        const struct pickle_node *items = pickle_node(graph, list->value);
        if (said->kind == PICKLE_INT && (items->kind == PICKLE_LIST || items->kind == PICKLE_TUPLE))
            rc = count_check(graft, count->side, name, said->integer, list_name, items->count);
        count = key_value_next(keys, count);
        list = key_value_next(keys, list);
    }
    return rc;
}

int counts_check(struct graft *graft, struct key_index *keys)
{
    int rc = 0;
    for (uint32_t i = 0; i < keys->n_entries && rc == 0; i++) {
        struct node_ref ref = keys->entries[i].ref;
        const struct pickle *graph = graft_graph(graft, ref.part);
        const struct pickle_node *key = pickle_node(graph, ref.id);
        if (key->kind != PICKLE_TEXT)
            continue;
        struct str name = pickle_bytes(graph, key), list_name = counted_by(name);
        uint32_t listed = list_name.at ? key_index_find_text(keys, list_name) : UINT32_MAX;
        if (listed != UINT32_MAX)
            rc = lists_check(graft, keys, i, listed, name, list_name);
    }
    return rc;
}
