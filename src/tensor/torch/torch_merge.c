/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/torch/torch_merge.h"

#include <stdarg.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "rule/names.h"
#include "tensor/torch/torch_normalise.h"

enum {
    PAIRS_SHARED_MAX = 200 * 1000, /* limits shared dictionaries: a few bytes can make 2^64 pairs */
    SPLICE_LEAST_BYTES = 64 * 1024,
    SINGLE_DEPTH_MAX = 60 /* less than torch_merge_deep() goes */
};

int torch_merge_fail(struct merge_state *merge, const char *fmt, ...)
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
    return fail(merge->err, ERR_DATA, "'%s' %s", buf_text(&merge->path), buf_text(&text));
}

const char *torch_merge_file_name(const struct merge_state *merge, size_t part)
{
    return merge->parts[part].file.path;
}

static void made_release(struct merge_state *merge)
{
    pickle_release(&merge->made);
    for (size_t i = 0; i < merge->n_segments; i++)
        free(merge->segments[i].view);
    merge->n_segments = 0;
    free(steal_ptr(&merge->ties));
    merge->n_ties = merge->cap_ties = 0;
}

void torch_merge_reset(struct merge_state *merge)
{
    made_release(merge);
    pickle_init(&merge->made);
}

void torch_merge_release(struct merge_state *merge)
{
    for (size_t i = 0; i < merge->n_parts; i++)
        torch_part_close(&merge->parts[i]);
    free(merge->parts);
    made_release(merge); /* must not allocate, because the output is in place already */
    free(merge->segments);
    free(merge->segment_ends);
    free(merge->met);
    node_map_release(&merge->merged.numbers);
    free(merge->merged.at);
    key_pool_release(&merge->pool);
    comparer_free(steal_ptr(&merge->comparer));
    buf_release(&merge->path);
    buf_release(&merge->lists.paths);
    buf_release(&merge->tensors.paths);
}

/* ---- nodes of the new graph ---- */

pickle_id torch_merge_node_of(struct merge_state *merge, size_t part, pickle_id id)
{
    return pickle_add(
        &merge->made,
        (struct pickle_node){.kind = PICKLE_OF, .of = {.graph = (uint32_t)part, .id = id}});
}

pickle_id torch_merge_tuple(struct merge_state *merge, const pickle_id *ids, size_t n_ids)
{
    pickle_id tuple = pickle_add(&merge->made, (struct pickle_node){.kind = PICKLE_TUPLE});
    pickle_add_items(&merge->made, tuple, ids, n_ids);
    return tuple;
}

pickle_id torch_merge_call_like(struct merge_state *merge, const struct pickle_node *call,
                                pickle_id args)
{
    const struct pickle *first = torch_merge_graph(merge, 0);
    const struct pickle_global *callee =
        &first->globals[pickle_node(first, call->call.callee)->global];
    pickle_id global = pickle_add_global(&merge->made, callee->module, callee->name);
    return pickle_add(&merge->made,
                      (struct pickle_node){.kind = PICKLE_CALL, .call = {global, args}});
}

/* ---- which verb ---- */

static bool all_have(const struct merge_state *merge, value_ids ids, enum pickle_kind kind)
{
    for (size_t i = 0; i < merge->n_parts; i++)
        if (torch_merge_node(merge, i, ids)->kind != kind)
            return false;
    return true;
}

static bool all_are(const struct merge_state *merge, value_ids ids,
                    bool (*is)(const struct pickle *pickle, pickle_id id))
{
    for (size_t i = 0; i < merge->n_parts; i++)
        if (!is(torch_merge_graph(merge, i), ids[i]))
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

/*
 * The verb that follows from the kind of the values; for numbers and texts it also depends on the
 * last key of the path.
 */
static enum merge_verb verb_by_kind(const struct merge_state *merge, value_ids ids)
{
    bool is_setting = path_is_setting(buf_text(&merge->path));
    const char *dot = strrchr(buf_text(&merge->path), '.');
    const char *name = dot && dot[1] ? dot + 1 : buf_text(&merge->path);
    if (all_are(merge, ids, is_counter))
        return MERGE_SUM_BY_KEY;
    if (all_are(merge, ids, is_dict))
        return MERGE_DEEP;
    if (is_setting)
        return MERGE_SAME;
    if (all_have(merge, ids, PICKLE_LIST))
        return MERGE_CONCAT;
    if (all_are(merge, ids, is_tensor))
        return MERGE_CAT0;
    if (all_have(merge, ids, PICKLE_INT) && is_count_name(name))
        return MERGE_SUM;
    if (strcmp(name, "timestamp") == 0)
        return MERGE_MAX;
    if (strcmp(name, "batch_name") == 0 && all_have(merge, ids, PICKLE_TEXT))
        return MERGE_MERGED;
    return MERGE_SAME;
}

static int collect(struct merge_state *merge, value_ids ids, pickle_id *out)
{
    *out = pickle_add(&merge->made, (struct pickle_node){.kind = PICKLE_LIST});
    for (size_t i = 0; i < merge->n_parts; i++) {
        pickle_id of = torch_merge_node_of(merge, i, ids[i]);
        pickle_add_items(&merge->made, *out, &of, 1);
    }
    return 0;
}

/* ---- a single file ---- */

/*
 * Without rules a single file's dictionary is only checked and counted, so once is enough even if
 * it is in several places.
 */
static bool is_looked_into(struct merge_state *merge, pickle_id id)
{
    if (merge->opts->rules->len > 0)
        return true;
    if (!merge->met)
        merge->met = xcalloc(torch_merge_graph(merge, 0)->n_nodes, 1);
    bool is_new = !merge->met[id] && merge->depth < SINGLE_DEPTH_MAX;
    merge->met[id] = 1;
    return is_new;
}

/*
 * Takes a value of a single file that no rule is about. There is nothing to merge it with, so it is
 * copied as it is, and counted.
 */
/* NOLINTNEXTLINE(misc-no-recursion): as deep as torch_merge_deep() lets it */
static int value_carry(struct merge_state *merge, value_ids ids, pickle_id *out)
{
    const struct pickle *graph = torch_merge_graph(merge, 0);
    enum merge_verb verb = verb_by_kind(merge, ids);
    uint64_t n_rows;
    if (verb == MERGE_DEEP && is_looked_into(merge, ids[0]))
        return torch_merge_deep(merge, ids, false, out);
    if (verb == MERGE_CONCAT)
        tally_add(merge, &merge->lists, pickle_node(graph, ids[0])->count);
    else if (verb == MERGE_CAT0 && tensor_n_rows(graph, ids[0], &n_rows))
        tally_add(merge, &merge->tensors, n_rows);
    else if (verb == MERGE_MERGED && merge->opts->is_of_shares) {
        merge->is_renamed = true;
        return torch_merge_merged_name(merge, ids, out);
    }
    *out = torch_merge_node_of(merge, 0, ids[0]);
    return 0;
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as torch_merge_deep() lets it */
int torch_merge_value(struct merge_state *merge, value_ids ids, pickle_id *out)
{
    const struct merge_rule *rule = merge_rule_find(merge->opts->rules, buf_text(&merge->path));
    *out = 0;
    if (!rule && merge->n_parts == 1)
        return value_carry(merge, ids, out);
    enum merge_verb verb = rule ? rule->verb : verb_by_kind(merge, ids);
    switch (verb) {
    case MERGE_CONCAT:
        return torch_merge_concat(merge, ids, out);
    case MERGE_CAT0:
        return torch_merge_cat0(merge, ids, out);
    case MERGE_SUM:
        return torch_merge_sum(merge, ids, out);
    case MERGE_SUM_BY_KEY:
        return torch_merge_sum_by_key(merge, ids, out);
    case MERGE_SAME:
        return torch_merge_same(merge, ids, out);
    case MERGE_FIRST:
        *out = torch_merge_node_of(merge, 0, ids[0]);
        return 0;
    case MERGE_MAX:
        return torch_merge_max(merge, ids, out);
    case MERGE_MERGED:
        return torch_merge_merged_name(merge, ids, out);
    case MERGE_COLLECT:
        return collect(merge, ids, out);
    case MERGE_UNION:
        return torch_merge_deep(merge, ids, true, out);
    case MERGE_DEEP:
        return torch_merge_deep(merge, ids, false, out);
    case MERGE_DROP:
        return 0;
    case MERGE_RATIO: /* computed after its counts: torch_dict.c */
    case MERGE_COUNT:
    case MERGE_BY_KIND:
        break;
    }
    return torch_merge_fail(merge, "cannot be merged by %s", merge_verb_name(verb));
}

/* ---- the whole ---- */

static int root_make(struct merge_state *merge, pickle_id *root, struct err *err)
{
    cleanup_free pickle_id *ids = xcalloc(merge->n_parts, sizeof(*ids));
    for (size_t i = 0; i < merge->n_parts; i++)
        ids[i] = torch_merge_graph(merge, i)->root;
    merge->max_pairs = PAIRS_SHARED_MAX;
    for (size_t i = 0; i < merge->n_parts; i++)
        merge->max_pairs += torch_merge_graph(merge, i)->n_chunks; /* each counted once */
    buf_add_char(&merge->path, '.');
    int rc = torch_merge_value(merge, ids, root);
    if (rc == 0 && merge->n_parts == 1 && merge->opts->rules->len == 0 && !merge->is_renamed)
        *root = torch_merge_node_of(merge, 0, ids[0]); /* shared objects stay shared */
    if (rc == 0 && *root == 0)
        rc = fail(err, ERR_USAGE, "the rules drop everything");
    if (rc == 0)
        rc = merge_rules_check(merge->opts->rules, err);
    return rc ? rc : torch_normalise_output(merge, *root);
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

static int output_write(struct merge_state *merge, pickle_id root, const char *out_path,
                        struct torch_merge_stats *stats, struct err *err)
{
    struct outfile out = OUTFILE_INIT;
    const struct torch_new what = {.parts = merge->parts,
                                   .n_parts = merge->n_parts,
                                   .made = &merge->made,
                                   .segments = merge->segments,
                                   .segment_ends = merge->segment_ends,
                                   .root = root,
                                   .are_shared = merge->opts->are_shared,
                                   .stop = merge->opts->stop};
    if (output_is_direct(out_path))
        return fail(err, ERR_USAGE,
                    "a file of tensors cannot be written to a pipe or a device; "
                    "-o names a file");
    int rc = outfile_open(&out, out_path, merge->opts->force, err);
    if (rc == 0 && merge->opts->dry_run)
        rc = torch_verify(&what, err);
    else if (rc == 0)
        rc = torch_write(&what, out_path, &out, &stats->shared_bytes, err);
    if (rc == 0 && !merge->opts->dry_run && merge->opts->placing)
        rc = outfile_sync(&out, err);
    if (rc == 0 && !merge->opts->dry_run && merge->opts->placing)
        rc = merge->opts->placing(merge->opts->context, out.fd, err);
    if (rc == 0 && !merge->opts->dry_run)
        rc = outfile_commit(&out, err);
    if (rc == 0 && merge->opts->are_shared && !merge->opts->dry_run)
        shared_note(merge->opts, stats->shared_bytes);
    stats->n_bytes = out.bytes;
    outfile_close(&out);
    return rc;
}

/* The fewest bytes of a list that becomes a splice; 0 if an option needs the items of lists. */
static size_t splice_least(const struct torch_merge_opts *opts, size_t n_paths)
{
    bool asks = opts->id_path || opts->pass_through || torch_normalises(opts);
    if (n_paths == 1 || asks)
        return 0;
    return opts->splice_least_bytes > 0 ? opts->splice_least_bytes : SPLICE_LEAST_BYTES;
}

/* Does any graph have splices? */
static bool has_splices(const struct merge_state *merge)
{
    for (size_t i = 0; merge->parts && i < merge->n_parts; i++)
        if (merge->parts[i].file.pickle.splices.len > 0)
            return true;
    return false;
}

static int merge_make(struct merge_state *merge, const char *const *paths, pickle_id *root,
                      struct err *err)
{
    merge->parts = xcalloc(merge->n_parts, sizeof(*merge->parts));
    pickle_init(&merge->made);
    key_pool_init(&merge->pool, merge);
    int rc = torch_merge_open(merge, paths, err);
    return rc ? rc : root_make(merge, root, err);
}

int torch_merge(const struct torch_merge_opts *opts, const char *const *paths, size_t n_paths,
                const char *out_path, struct torch_merge_stats *stats, struct err *err)
{
    bool met_splice = false;
    const struct merge_state begin = {.opts = opts,
                                      .out_path = out_path,
                                      .n_parts = n_paths,
                                      .met_splice = &met_splice,
                                      .err = err};
    struct merge_state merge = begin;
    pickle_id root = 0;
    *stats = (struct torch_merge_stats){0};
    merge.splice_least_bytes = splice_least(opts, n_paths);
    int rc = merge_make(&merge, paths, &root, err);
    if ((rc || met_splice) && has_splices(&merge)) { /* again without splices */
        torch_merge_release(&merge);
        merge = begin;
        rc = merge_make(&merge, paths, &root, err);
    }
    if (rc == 0)
        rc = output_write(&merge, root, out_path, stats, err);
    torch_merge_release(&merge);
    return rc;
}

struct torch_merge_opts torch_merge_opts_of(const struct merge_options *options,
                                            const struct merge_rules *rules)
{
    return (struct torch_merge_opts){.rules = rules,
                                     .id_path = options->id_field,
                                     .referred = &options->referred,
                                     .is_renumbered = options->is_renumbered,
                                     .is_plain = options->is_plain,
                                     .is_compact = options->is_compact,
                                     .pass_through = options->pass_through};
}
