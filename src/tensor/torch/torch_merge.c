/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/torch/torch_merge.h"

#include <stdarg.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "rule/names.h"
#include "tensor/torch/torch_mend.h"

enum {
    PAIRS_SHARED_MAX = 200 * 1000, /* of dictionaries in many places: a few bytes make 2^64 */
    SPLICE_LEAST_BYTES = 64 * 1024,
    SINGLE_DEPTH_MAX = 60 /* less than graft_deep() goes */
};

int graft_fail(struct graft *graft, const char *fmt, ...)
{
    cleanup_buf struct buf text = BUF_INIT;
    char *what;
    va_list args;
    va_start(args, fmt);
    if (vasprintf(&what, fmt, args) < 0)
        what = NULL;
    va_end(args);
    buf_add_text(&text, what ? what : "");
    free(what);
    return fail(graft->err, ERR_DATA, "'%s' %s", buf_text(&graft->path), buf_text(&text));
}

const char *graft_file_name(const struct graft *graft, size_t part)
{
    return graft->parts[part].file.path;
}

static void made_release(struct graft *graft)
{
    pickle_release(&graft->made);
    for (size_t i = 0; i < graft->n_segments; i++)
        free(graft->segments[i].view);
    graft->n_segments = 0;
    free(steal_ptr(&graft->ties));
    graft->n_ties = graft->cap_ties = 0;
}

void graft_reset(struct graft *graft)
{
    made_release(graft);
    pickle_init(&graft->made);
}

void graft_release(struct graft *graft)
{
    for (size_t i = 0; i < graft->n_parts; i++)
        torch_part_close(&graft->parts[i]);
    free(graft->parts);
    made_release(graft); /* without another allocation: the output is in its place */
    free(graft->segments);
    free(graft->segment_ends);
    free(graft->met);
    node_map_release(&graft->merged.numbers);
    free(graft->merged.at);
    key_pool_release(&graft->pool);
    comparer_free(steal_ptr(&graft->comparer));
    buf_release(&graft->path);
    buf_release(&graft->lists.paths);
    buf_release(&graft->tensors.paths);
}

/* ---- nodes of the new graph ---- */

pickle_id graft_of(struct graft *graft, size_t part, pickle_id id)
{
    return pickle_add(
        &graft->made,
        (struct pickle_node){.kind = PICKLE_OF, .of = {.graph = (uint32_t)part, .id = id}});
}

pickle_id graft_tuple(struct graft *graft, const pickle_id *ids, size_t n_ids)
{
    pickle_id tuple = pickle_add(&graft->made, (struct pickle_node){.kind = PICKLE_TUPLE});
    pickle_add_items(&graft->made, tuple, ids, n_ids);
    return tuple;
}

pickle_id graft_call_like(struct graft *graft, const struct pickle_node *call, pickle_id args)
{
    const struct pickle *first = graft_graph(graft, 0);
    const struct pickle_global *callee =
        &first->globals[pickle_node(first, call->call.callee)->global];
    pickle_id global = pickle_add_global(&graft->made, callee->module, callee->name);
    return pickle_add(&graft->made,
                      (struct pickle_node){.kind = PICKLE_CALL, .call = {global, args}});
}

/* ---- which verb ---- */

static bool all_have(const struct graft *graft, value_ids ids, enum pickle_kind kind)
{
    for (size_t i = 0; i < graft->n_parts; i++)
        if (graft_node(graft, i, ids)->kind != kind)
            return false;
    return true;
}

static bool all_are(const struct graft *graft, value_ids ids,
                    bool (*is)(const struct pickle *pickle, pickle_id id))
{
    for (size_t i = 0; i < graft->n_parts; i++)
        if (!is(graft_graph(graft, i), ids[i]))
            return false;
    return true;
}

static bool is_dict(const struct pickle *pickle, pickle_id id)
{
    return dict_pairs(pickle, id) != NULL;
}

bool is_counter(const struct pickle *pickle, pickle_id id)
{
    const struct pickle_callable *known = call_known(pickle, pickle_node(pickle, id));
    return known && strcmp(known->name, "Counter") == 0;
}

bool path_is_setting(const char *path)
{
    struct str rest = str_of(path), key;
    while (str_next(&rest, '.', &key))
        if (is_settings_name(key))
            return true;
    return false;
}

/* By kind, and for numbers and texts by the last key of the path. */
static enum merge_verb verb_by_kind(const struct graft *graft, value_ids ids)
{
    bool is_setting = path_is_setting(buf_text(&graft->path));
    const char *dot = strrchr(buf_text(&graft->path), '.');
    const char *name = dot && dot[1] ? dot + 1 : buf_text(&graft->path);
    if (all_are(graft, ids, is_counter))
        return MERGE_SUM_BY_KEY;
    if (all_are(graft, ids, is_dict))
        return MERGE_DEEP;
    if (is_setting)
        return MERGE_SAME;
    if (all_have(graft, ids, PICKLE_LIST))
        return MERGE_CONCAT;
    if (all_are(graft, ids, is_tensor))
        return MERGE_CAT0;
    if (all_have(graft, ids, PICKLE_INT) && is_count_name(name))
        return MERGE_SUM;
    if (strcmp(name, "timestamp") == 0)
        return MERGE_MAX;
    if (strcmp(name, "batch_name") == 0 && all_have(graft, ids, PICKLE_TEXT))
        return MERGE_MERGED;
    return MERGE_SAME;
}

static int collect(struct graft *graft, value_ids ids, pickle_id *out)
{
    *out = pickle_add(&graft->made, (struct pickle_node){.kind = PICKLE_LIST});
    for (size_t i = 0; i < graft->n_parts; i++) {
        pickle_id of = graft_of(graft, i, ids[i]);
        pickle_add_items(&graft->made, *out, &of, 1);
    }
    return 0;
}

/* ---- a single file ---- */

/* Without rules nothing is made of it, so what is in several places is looked at once. */
static bool is_looked_into(struct graft *graft, pickle_id id)
{
    if (graft->opts->rules->len > 0)
        return true;
    if (!graft->met)
        graft->met = xcalloc(graft_graph(graft, 0)->n_nodes, 1);
    bool is_new = !graft->met[id] && graft->depth < SINGLE_DEPTH_MAX;
    graft->met[id] = 1;
    return is_new;
}

/* It has nothing to agree with: what no rule is about goes over as it stands, and is counted. */
/* NOLINTNEXTLINE(misc-no-recursion): as deep as graft_deep() lets it */
static int value_carry(struct graft *graft, value_ids ids, pickle_id *out)
{
    const struct pickle *graph = graft_graph(graft, 0);
    enum merge_verb verb = verb_by_kind(graft, ids);
    uint64_t n_rows;
    if (verb == MERGE_DEEP && is_looked_into(graft, ids[0]))
        return graft_deep(graft, ids, false, out);
    if (verb == MERGE_CONCAT)
        tally_add(graft, &graft->lists, pickle_node(graph, ids[0])->count);
    else if (verb == MERGE_CAT0 && tensor_n_rows(graph, ids[0], &n_rows))
        tally_add(graft, &graft->tensors, n_rows);
    else if (verb == MERGE_MERGED && graft->opts->is_of_shares) {
        graft->is_renamed = true;
        return graft_merged_name(graft, ids, out);
    }
    *out = graft_of(graft, 0, ids[0]);
    return 0;
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as graft_deep() lets it */
int graft_value(struct graft *graft, value_ids ids, pickle_id *out)
{
    const struct merge_rule *rule = merge_rule_find(graft->opts->rules, buf_text(&graft->path));
    *out = 0;
    if (!rule && graft->n_parts == 1)
        return value_carry(graft, ids, out);
    enum merge_verb verb = rule ? rule->verb : verb_by_kind(graft, ids);
    switch (verb) {
    case MERGE_CONCAT:
        return graft_concat(graft, ids, out);
    case MERGE_CAT0:
        return graft_cat0(graft, ids, out);
    case MERGE_SUM:
        return graft_sum(graft, ids, out);
    case MERGE_SUM_BY_KEY:
        return graft_sum_by_key(graft, ids, out);
    case MERGE_SAME:
        return graft_same(graft, ids, out);
    case MERGE_FIRST:
        *out = graft_of(graft, 0, ids[0]);
        return 0;
    case MERGE_MAX:
        return graft_max(graft, ids, out);
    case MERGE_MERGED:
        return graft_merged_name(graft, ids, out);
    case MERGE_COLLECT:
        return collect(graft, ids, out);
    case MERGE_UNION:
        return graft_deep(graft, ids, true, out);
    case MERGE_DEEP:
        return graft_deep(graft, ids, false, out);
    case MERGE_DROP:
        return 0;
    case MERGE_RATIO: /* its counts come first: torch_dict.c */
    case MERGE_COUNT:
    case MERGE_BY_KIND:
        break;
    }
    return graft_fail(graft, "cannot be merged by %s", merge_verb_name(verb));
}

/* ---- the whole ---- */

static int root_make(struct graft *graft, pickle_id *root, struct err *err)
{
    cleanup_free pickle_id *ids = xcalloc(graft->n_parts, sizeof(*ids));
    for (size_t i = 0; i < graft->n_parts; i++)
        ids[i] = graft_graph(graft, i)->root;
    graft->max_pairs = PAIRS_SHARED_MAX;
    for (size_t i = 0; i < graft->n_parts; i++)
        graft->max_pairs += graft_graph(graft, i)->n_chunks; /* each once */
    buf_add_char(&graft->path, '.');
    int rc = graft_value(graft, ids, root);
    if (rc == 0 && graft->n_parts == 1 && graft->opts->rules->len == 0 && !graft->is_renamed)
        *root = graft_of(graft, 0, ids[0]); /* what was one object stays one */
    if (rc == 0 && *root == 0)
        rc = fail(err, ERR_USAGE, "the rules drop everything");
    if (rc == 0)
        rc = merge_rules_check(graft->opts->rules, err);
    return rc ? rc : mend_made(graft, *root);
}

static void shared_note(const struct torch_merge_opts *opts, uint64_t shared_bytes)
{
    char size[16];
    size_format(size, shared_bytes);
    cleanup_free char *text =
        shared_bytes > 0
            ? xasprintf("%s are shared with the inputs, unread and unchecked", size)
            : xstrdup("nothing could be shared with the inputs: all bytes were copied");
    opts->note(opts->context, text);
}

static int output_write(struct graft *graft, pickle_id root, const char *out_path,
                        struct torch_merge_stats *stats, struct err *err)
{
    struct outfile out = OUTFILE_INIT;
    const struct torch_new what = {.parts = graft->parts,
                                   .n_parts = graft->n_parts,
                                   .made = &graft->made,
                                   .segments = graft->segments,
                                   .segment_ends = graft->segment_ends,
                                   .root = root,
                                   .are_shared = graft->opts->are_shared};
    if (output_is_direct(out_path))
        return fail(err, ERR_USAGE,
                    "a file of tensors cannot be written to a pipe or a device; "
                    "-o names a file");
    int rc = outfile_open(&out, out_path, graft->opts->force, err);
    if (rc == 0 && graft->opts->dry_run)
        rc = torch_verify(&what, err);
    else if (rc == 0)
        rc = torch_write(&what, out_path, &out, &stats->shared_bytes, err);
    if (rc == 0 && !graft->opts->dry_run && graft->opts->placing)
        rc = outfile_sync(&out, err);
    if (rc == 0 && !graft->opts->dry_run && graft->opts->placing)
        rc = graft->opts->placing(graft->opts->context, out.fd, err);
    if (rc == 0 && !graft->opts->dry_run)
        rc = outfile_commit(&out, err);
    if (rc == 0 && graft->opts->are_shared && !graft->opts->dry_run)
        shared_note(graft->opts, stats->shared_bytes);
    stats->n_bytes = out.bytes;
    outfile_close(&out);
    return rc;
}

/* Long lists are not looked into where nobody asks what is in them. */
static size_t splice_least(const struct torch_merge_opts *opts, size_t n_paths)
{
    bool asks = opts->id_path || opts->pass_through || mends_values(opts);
    if (n_paths == 1 || asks)
        return 0;
    return opts->splice_least_bytes > 0 ? opts->splice_least_bytes : SPLICE_LEAST_BYTES;
}

/* Does some part of the graphs stand for a piece of a pickle? */
static bool has_splices(const struct graft *graft)
{
    for (size_t i = 0; graft->parts && i < graft->n_parts; i++)
        if (graft->parts[i].file.pickle.splices.len > 0)
            return true;
    return false;
}

static int merge_make(struct graft *graft, const char *const *paths, pickle_id *root,
                      struct err *err)
{
    graft->parts = xcalloc(graft->n_parts, sizeof(*graft->parts));
    pickle_init(&graft->made);
    key_pool_init(&graft->pool, graft);
    int rc = graft_open(graft, paths, err);
    return rc ? rc : root_make(graft, root, err);
}

int torch_merge(const struct torch_merge_opts *opts, const char *const *paths, size_t n_paths,
                const char *out_path, struct torch_merge_stats *stats, struct err *err)
{
    bool met_splice = false;
    const struct graft begin = {.opts = opts,
                                .out_path = out_path,
                                .n_parts = n_paths,
                                .met_splice = &met_splice,
                                .err = err};
    struct graft graft = begin;
    pickle_id root = 0;
    *stats = (struct torch_merge_stats){0};
    graft.splice_least_bytes = splice_least(opts, n_paths);
    int rc = merge_make(&graft, paths, &root, err);
    if ((rc || met_splice) && has_splices(&graft)) { /* what is wrong the nodes tell */
        graft_release(&graft);
        graft = begin;
        rc = merge_make(&graft, paths, &root, err);
    }
    if (rc == 0)
        rc = output_write(&graft, root, out_path, stats, err);
    graft_release(&graft);
    return rc;
}
