/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/torch/torch_split.h"

#include <fcntl.h>

#include "base/cleanup.h"
#include "base/share.h"
#include "base/xalloc.h"
#include "rule/names.h"
#include "tensor/torch/torch_merge_impl.h"

enum {
    DEPTH_MAX = 1000, /* nested dictionaries; a file with more is refused */
    KEPT_SHOWN = 3
};

/* Does a dictionary differ from part to part? */
enum {
    LOOK_NOT_YET,
    LOOK_NOW,     /* being looked at: a dictionary that contains itself counts as changing */
    LOOK_NOTHING, /* the dictionary is the same in all parts */
    LOOK_CHANGES  /* a value within it is split, or is a count that changes */
};

struct target {
    pickle_id id;
    char *name;
};

struct torch_split {
    struct torch_split_opts opts;
    struct torch_merge_opts merge_opts;
    struct merge_state merge;  /* of one file; `made` is the graph of a part */
    struct target *targets;    /* the values that are split */
    struct node_map target_at; /* by node: index + 1 in `targets` */
    size_t n_targets;
    uint64_t n_records;
    uint8_t *looks;  /* by node: LOOK_… */
    struct buf kept; /* merge rules for values that a merge of the parts would otherwise change */
    size_t n_kept;
    bool is_too_deep; /* a dictionary was not looked at */
    struct torch_range *ranges;
    size_t n_ranges;
};

/* A part that is being made. */
struct part_making {
    struct torch_split *split;
    struct torch_range range;
    pickle_id *made; /* by node of the file: the node that stands for it, if that is another one */
};

static const struct pickle *graph_of(const struct torch_split *split)
{
    return torch_merge_graph(&split->merge, 0);
}

static const char *file_name(const struct torch_split *split)
{
    return torch_merge_file_name(&split->merge, 0);
}

/* ---- what is split ---- */

/* The number of items of a list or tuple, or of rows of a tensor. False for other values. */
static bool length_of(const struct torch_split *split, pickle_id id, uint64_t *length)
{
    const struct pickle_node *node = pickle_node(graph_of(split), id);
    *length = node->count;
    return node->kind == PICKLE_LIST || node->kind == PICKLE_TUPLE ||
           tensor_n_rows(graph_of(split), id, length);
}

/* The target of this node; NULL: the node is not split. */
static const struct target *target_of(const struct torch_split *split, pickle_id id)
{
    uint32_t index = node_map_find(&split->target_at, 0, id);
    return index > 0 ? &split->targets[index - 1] : NULL;
}

/* Adds a value to be split. `name` is its path, for messages. */
static int target_add(struct torch_split *split, pickle_id id, const char *name, struct err *err)
{
    uint64_t length;
    if (!length_of(split, id, &length)) {
        const char *why = unplain_why(graph_of(split), id);
        return fail(err, ERR_DATA, "%s: '%s' %s", file_name(split), name,
                    why ? why : "is no list and no tensor with rows");
    }
    if (split->n_targets > 0 && length != split->n_records)
        return fail(err, ERR_DATA,
                    "%s: '%s' has %lu of what others that would be cut have %lu; --key PATH says "
                    "which is cut",
                    file_name(split), name, length, split->n_records);
    if (!target_of(split, id))
        *node_map_at(&split->target_at, 0, id) = (uint32_t)split->n_targets + 1;
    split->targets = xrealloc(split->targets, (split->n_targets + 1) * sizeof(*split->targets));
    split->targets[split->n_targets++] = (struct target){id, xstrdup(name)};
    split->n_records = length;
    return 0;
}

/* The value at a path below `id`; 0 if there is none. A key may contain dots. */
/* NOLINTNEXTLINE(misc-no-recursion): a path has as many keys as dots */
static pickle_id path_find(const struct torch_split *split, pickle_id id, const char *path)
{
    const struct pickle *graph = graph_of(split);
    const struct pickle_node *pairs = dict_pairs(graph, id);
    if (!pairs)
        return 0;
    pickle_id found = pickle_get(graph, pairs, str_of(path));
    for (const char *dot = strchr(path, '.'); dot && !found; dot = strchr(dot + 1, '.')) {
        pickle_id inner = pickle_get(graph, pairs, (struct str){path, (size_t)(dot - path)});
        found = inner ? path_find(split, inner, dot + 1) : 0;
    }
    return found;
}

static int targets_of_keys(struct torch_split *split, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; i < split->opts.n_keys && rc == 0; i++) {
        const char *key = split->opts.keys[i];
        pickle_id root = graph_of(split)->root;
        pickle_id id = strcmp(key, ".") == 0 ? root : path_find(split, root, key);
        if (!id)
            return fail(err, ERR_USAGE, "%s has no '%s'; muster merge --inspect shows its keys",
                        file_name(split), key);
        rc = target_add(split, id, key, err);
    }
    return rc;
}

/* A value that looks like a tensor and cannot be split. */
struct unplain {
    char *name; /* NULL: there is no such value */
    const char *why;
};

static int none_found(const struct torch_split *split, const struct unplain *unplain,
                      struct err *err)
{
    if (unplain->name)
        return fail(err, ERR_DATA,
                    "%s has no list and no plain tensor at its root: '%s' there %s; or --key PATH "
                    "says what is cut",
                    file_name(split), unplain->name, unplain->why);
    return fail(err, ERR_DATA,
                "%s has no list and no tensor at its root; --key PATH says what is cut, and "
                "muster merge --inspect shows its keys",
                file_name(split));
}

/* The key in the form in which paths have it, a new string. */
static char *key_text_new(struct str key)
{
    struct buf text = BUF_INIT;
    buf_reserve(&text, key.len);
    path_add_key(key, &text);
    return buf_steal(&text);
}

static void unplain_note(const struct torch_split *split, const struct unplain *unplain)
{
    if (!unplain->name || !split->opts.note)
        return;
    cleanup_free char *text = xasprintf(
        "'%s' is not cut, and in every part as a whole, since it %s", unplain->name, unplain->why);
    split->opts.note(split->opts.context, text);
}

/*
 * Adds the lists and tensors in the dictionary at the root. Tuples in it are left out, because they
 * are shapes and the like.
 */
static int targets_of_root(struct torch_split *split, struct err *err)
{
    const struct pickle *graph = graph_of(split);
    const struct pickle_node *pairs = dict_pairs(graph, graph->root);
    struct unplain unplain = {0};
    uint64_t length;
    int rc = 0;
    if (!pairs)
        return target_add(split, graph->root, ".", err);
    struct pickle_walk walk = pickle_items(pairs);
    for (pickle_id key; rc == 0 && (key = pickle_next(graph, &walk)) != 0;) {
        pickle_id value = pickle_next(graph, &walk);
        const struct pickle_node *node = pickle_node(graph, key);
        struct str name = node->kind == PICKLE_TEXT ? pickle_bytes(graph, node) : STR("(key)");
        cleanup_free char *text = key_text_new(name);
        bool is_tuple = pickle_node(graph, value)->kind == PICKLE_TUPLE;
        const char *why = unplain_why(graph, value);
        if (!is_settings_name(name) && !is_tuple && length_of(split, value, &length))
            rc = target_add(split, value, text, err);
        else if (why && !unplain.name)
            unplain = (struct unplain){steal_ptr(&text), why};
    }
    if (rc == 0 && split->n_targets == 0)
        rc = none_found(split, &unplain, err);
    else if (rc == 0)
        unplain_note(split, &unplain);
    free(unplain.name);
    return rc;
}

/* ---- what changes with the split, and what does not ---- */

static bool is_count(const struct torch_split *split, struct str name, pickle_id value)
{
    const struct pickle_node *node = pickle_node(graph_of(split), value);
    cleanup_free char *text = key_text_new(name);
    return node->kind == PICKLE_INT && is_count_name(text) &&
           node->integer == (int64_t)split->n_records;
}

/*
 * Adds the rule PATH=same for a value that is in every part, if a merge of the parts would
 * otherwise concatenate it, add it up or rename it.
 */
static void kept_add(struct torch_split *split, struct str name, pickle_id value)
{
    const struct pickle_node *node = pickle_node(graph_of(split), value);
    cleanup_free char *text = key_text_new(name);
    uint64_t length;
    bool is_put = is_counter(graph_of(split), value) ||
                  (node->kind != PICKLE_TUPLE && length_of(split, value, &length));
    bool is_summed = node->kind == PICKLE_INT && is_count_name(text) && node->integer != 0;
    bool is_renamed = node->kind == PICKLE_TEXT && strcmp(text, "batch_name") == 0;
    if (!is_put && !is_summed && !is_renamed)
        return;
    struct buf *path = &split->merge.path;
    if (split->n_kept++ < KEPT_SHOWN)
        buf_addf(&split->kept, " --rule '%.*s%s%s=same'", (int)path->len, path->len ? path->at : "",
                 path->len > 0 ? "." : "", text);
}

/* NOLINTNEXTLINE(misc-no-recursion): at most DEPTH_MAX dictionaries deep */
static bool look(struct torch_split *split, pickle_id id, unsigned depth)
{
    const struct pickle *graph = graph_of(split);
    const struct pickle_node *pairs = dict_pairs(graph, id);
    if (target_of(split, id))
        return true;
    if (!pairs || is_counter(graph, id) || split->looks[id] != LOOK_NOT_YET)
        return split->looks[id] == LOOK_CHANGES || split->looks[id] == LOOK_NOW;
    if (depth > DEPTH_MAX) {
        split->is_too_deep = true;
        return false;
    }
    split->looks[id] = LOOK_NOW;
    bool is_changed = false;
    struct pickle_walk walk = pickle_items(pairs);
    for (pickle_id key; (key = pickle_next(graph, &walk)) != 0;) {
        pickle_id value = pickle_next(graph, &walk);
        const struct pickle_node *node = pickle_node(graph, key);
        struct str name = node->kind == PICKLE_TEXT ? pickle_bytes(graph, node) : STR("");
        if (is_settings_name(name))
            continue;
        size_t before = split->merge.path.len;
        if (is_count(split, name, value)) {
            is_changed = true;
            continue;
        }
        if (before > 0)
            buf_add_char(&split->merge.path, '.');
        path_add_key(name, &split->merge.path);
        bool changes = look(split, value, depth + 1);
        split->merge.path.len = before;
        is_changed = is_changed || changes;
        if (!changes)
            kept_add(split, name, value);
    }
    split->looks[id] = is_changed ? LOOK_CHANGES : LOOK_NOTHING;
    return is_changed;
}

/* ---- a part ---- */

static pickle_id items_cut(struct part_making *p, pickle_id id)
{
    struct merge_state *merge = &p->split->merge;
    const struct pickle *graph = graph_of(p->split);
    const struct pickle_node *node = pickle_node(graph, id);
    pickle_id made = pickle_add(&merge->made, (struct pickle_node){.kind = node->kind});
    struct pickle_walk walk = pickle_items(node);
    uint64_t end = p->range.first + p->range.n_records, i = 0;
    for (pickle_id item; i < end && (item = pickle_next(graph, &walk)) != 0; i++) {
        if (i < p->range.first)
            continue;
        pickle_id of = torch_merge_node_of(merge, 0, item);
        pickle_add_items(&merge->made, made, &of, 1);
    }
    return made;
}

static int target_cut(struct part_making *p, const struct target *target, pickle_id *out)
{
    struct merge_state *merge = &p->split->merge;
    if (!is_tensor(graph_of(p->split), target->id)) {
        *out = items_cut(p, target->id);
        return 0;
    }
    buf_reset(&merge->path);
    buf_add_text(&merge->path, target->name);
    return torch_merge_rows(merge, target->id, p->range.first, p->range.n_records, out);
}

static int value_make(struct part_making *p, pickle_id id, pickle_id *out);

/* NOLINTNEXTLINE(misc-no-recursion): as deep as look() went */
static int dict_make(struct part_making *p, pickle_id id, pickle_id *out)
{
    struct torch_split *split = p->split;
    const struct pickle *graph = graph_of(split);
    const struct pickle_node *pairs = dict_pairs(graph, id);
    pickle_id *made = xcalloc(2 * (size_t)pairs->count + 2, sizeof(*made));
    p->made[id] = *out =
        torch_merge_dict_begin(&split->merge, pickle_node(graph, id)); /* it may contain itself */
    struct pickle_walk walk = pickle_items(pairs);
    size_t n = 0;
    int rc = 0;
    for (pickle_id key; rc == 0 && (key = pickle_next(graph, &walk)) != 0; n += 2) {
        pickle_id value = pickle_next(graph, &walk);
        const struct pickle_node *node = pickle_node(graph, key);
        struct str name = node->kind == PICKLE_TEXT ? pickle_bytes(graph, node) : STR("");
        made[n] = torch_merge_node_of(&split->merge, 0, key);
        if (is_settings_name(name))
            made[n + 1] = torch_merge_node_of(&split->merge, 0, value);
        else if (is_count(split, name, value))
            made[n + 1] = pickle_add(
                &split->merge.made,
                (struct pickle_node){.kind = PICKLE_INT, .integer = (int64_t)p->range.n_records});
        else
            rc = value_make(p, value, &made[n + 1]);
    }
    if (rc == 0)
        torch_merge_dict_fill(&split->merge, pickle_node(graph, id), *out, made, n / 2);
    free(made);
    return rc;
}

/* The new node for a value. An object that is in several places stays one object. */
/* NOLINTNEXTLINE(misc-no-recursion): as deep as look() went */
static int value_make(struct part_making *p, pickle_id id, pickle_id *out)
{
    struct torch_split *split = p->split;
    const struct target *target = target_of(split, id);
    int rc = 0;
    if (p->made[id])
        *out = p->made[id];
    else if (target)
        rc = target_cut(p, target, out);
    else if (split->looks[id] == LOOK_CHANGES)
        rc = dict_make(p, id, out);
    else
        *out = torch_merge_node_of(&split->merge, 0, id);
    if (rc == 0)
        p->made[id] = *out;
    return rc;
}

int torch_split_fill(struct torch_split *split, size_t part, const char *name, struct outfile *out,
                     struct err *err)
{
    struct part_making p = {.split = split, .range = split->ranges[part]};
    struct merge_state *merge = &split->merge;
    pickle_id root = 0;
    torch_merge_reset(merge);
    merge->err = err;
    p.made = xcalloc(graph_of(split)->n_nodes, sizeof(*p.made));
    int rc = value_make(&p, graph_of(split)->root, &root);
    free(p.made);
    const struct torch_new what = {.parts = merge->parts,
                                   .n_parts = 1,
                                   .made = &merge->made,
                                   .segments = merge->segments,
                                   .segment_ends = merge->segment_ends,
                                   .root = root,
                                   .stop = split->opts.stop};
    return rc ? rc : torch_write(&what, name, out, NULL, err);
}

/* ---- the whole ---- */

static int file_open(struct torch_split *split, const char *path, struct err *err)
{
    struct stat st;
    struct torch_part *part = split->merge.parts;
    part->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (part->fd < 0 || fstat(part->fd, &st) != 0)
        return fail_errno_as(err, ERR_USAGE, "open %s", path);
    int rc = torch_read(&part->file, path, part->fd, (uint64_t)st.st_size, err);
    return rc ? rc : torch_merge_callables_check(&split->merge, err);
}

static int ranges_make(struct torch_split *split, struct err *err)
{
    const struct torch_split_opts *opts = &split->opts;
    uint64_t n = split->n_records, n_parts = opts->n_parts;
    if (n_parts == 0)
        n_parts = MAX(n / opts->records_max + (n % opts->records_max != 0), (uint64_t)1);
    if (n_parts > TORCH_PARTS_MAX)
        return fail(err, ERR_USAGE, "that would make more than %d parts", TORCH_PARTS_MAX);
    split->ranges = xcalloc(n_parts, sizeof(*split->ranges));
    split->n_ranges = n_parts;
    for (uint64_t i = 0; i < n_parts; i++) {
        struct share share = share_of(n, n_parts, i);
        uint64_t first = i * opts->records_max;
        split->ranges[i] = opts->n_parts
                               ? (struct torch_range){share.start, share.count}
                               : (struct torch_range){first, MIN(opts->records_max, n - first)};
    }
    return 0;
}

static void kept_say(const struct torch_split *split)
{
    if (split->n_kept == 0 || !split->opts.note)
        return;
    cleanup_free char *text =
        xasprintf("what is not cut is in every part; to merge them again:%s%s", split->kept.at,
                  split->n_kept > KEPT_SHOWN ? " and so on" : "");
    split->opts.note(split->opts.context, text);
}

int torch_split_open(struct torch_split **out, const char *path,
                     const struct torch_split_opts *opts, struct err *err)
{
    struct torch_split *split = xcalloc(1, sizeof(*split));
    split->opts = *opts;
    split->merge_opts = (struct torch_merge_opts){
        .pass_through = opts->pass_through, .note = opts->note, .context = opts->context};
    struct torch_part *part = xcalloc(1, sizeof(*part));
    part->fd = -1;
    split->merge =
        (struct merge_state){.opts = &split->merge_opts, .parts = part, .n_parts = 1, .err = err};
    int rc = file_open(split, path, err);
    if (rc == 0)
        rc = (opts->n_keys > 0 ? targets_of_keys : targets_of_root)(split, err);
    if (rc == 0)
        rc = ranges_make(split, err);
    if (rc) {
        torch_split_close(split);
        return rc;
    }
    split->looks = xcalloc(graph_of(split)->n_nodes, 1);
    look(split, graph_of(split)->root, 0);
    if (split->is_too_deep) {
        rc =
            fail(err, ERR_DATA,
                 "%s: dictionaries are nested more than %d deep; values below that would be copied "
                 "into every part",
                 file_name(split), DEPTH_MAX);
        torch_split_close(split);
        return rc;
    }
    kept_say(split);
    *out = split;
    return 0;
}

void torch_split_close(struct torch_split *split)
{
    if (!split)
        return;
    torch_merge_release(&split->merge);
    buf_release(&split->kept);
    for (size_t i = 0; i < split->n_targets; i++)
        free(split->targets[i].name);
    free(split->targets);
    node_map_release(&split->target_at);
    free(split->looks);
    free(split->ranges);
    free(split);
}

const struct torch_range *torch_split_parts(const struct torch_split *split, size_t *n_parts)
{
    *n_parts = split->n_ranges;
    return split->ranges;
}

bool torch_split_is_input(const struct torch_split *split, const struct stat *st)
{
    struct stat own;
    return fstat(split->merge.parts->fd, &own) == 0 && own.st_ino == st->st_ino &&
           own.st_dev == st->st_dev;
}
