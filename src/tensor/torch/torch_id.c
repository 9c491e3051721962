/* SPDX-License-Identifier: Apache-2.0
 *
 * Ids, found by their path in the output: each record must have an id, and no two ids may be equal,
 * as Python compares them.
 */
#include <math.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "tensor/torch/torch_id.h"

enum {
    ID_SHOWN_BYTES = 80
};

/* ---- values as Python compares them ---- */

static bool is_id(const struct pickle_node *node)
{
    return node->kind == PICKLE_TEXT || node->kind == PICKLE_INT || node->kind == PICKLE_LONG ||
           node->kind == PICKLE_FLOAT;
}

static uint64_t id_hash(struct ids *ids, const struct id *id)
{
    struct key_pool *pool = &ids->merge->pool;
    struct key_scalar scalar;
    key_scalar_take(torch_merge_graph(ids->merge, id->graph), id->value, &pool->rooms[0], &scalar);
    return key_scalar_hash(&scalar, pool->seed);
}

/* Orders ids that have one hash: by number, else by kind and bytes. */
static int id_compare(const struct ids *ids, const struct id *a, const struct id *b)
{
    const struct pickle_node *left = id_node(ids, a), *right = id_node(ids, b);
    int64_t m = 0, n = 0;
    bool is_m = key_to_integer(left, &m), is_n = key_to_integer(right, &n);
    if (is_m && is_n)
        return (m > n) - (m < n);
    char m_room[WIDE_BYTES_MAX], n_room[WIDE_BYTES_MAX];
    struct str x, y;
    bool is_x = key_to_digits(torch_merge_graph(ids->merge, a->graph), left, m_room, &x);
    bool is_y = key_to_digits(torch_merge_graph(ids->merge, b->graph), right, n_room, &y);
    if (is_x && is_y)
        return str_compare(x, y);
    if (is_x != is_y)
        return is_x - is_y;
    if (is_m != is_n || left->kind != right->kind)
        return is_m != is_n ? is_m - is_n : left->kind - right->kind;
    if (left->kind == PICKLE_FLOAT)
        return (left->integer > right->integer) - (left->integer < right->integer);
    return str_compare(id_bytes(ids, a), id_bytes(ids, b));
}

static int id_order(const void *left, const void *right, void *context)
{
    const struct id *a = left, *b = right;
    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    int order = id_compare(context, a, b);
    return order ? order : (a->ordinal > b->ordinal) - (a->ordinal < b->ordinal);
}

static void value_show(const struct ids *ids, const struct id *id, struct buf *out)
{
    const struct pickle_node *node = id_node(ids, id);
    if (node->kind == PICKLE_TEXT) {
        struct str text = id_bytes(ids, id);
        buf_addf(out, "'%.*s'", (int)MIN(text.len, (size_t)ID_SHOWN_BYTES), text.at);
    } else if (node->kind == PICKLE_INT) {
        buf_addf(out, "%ld", node->integer);
    } else if (node->kind == PICKLE_FLOAT) {
        buf_addf(out, "%.17g", node->real);
    } else {
        buf_add_text(out, "beyond 64 bits");
    }
}

/* ---- finding them ---- */

static void place_add(const struct ids *ids, struct buf *out)
{
    if (ids->last_graph < ids->merge->n_parts)
        buf_addf(out, "%s: ", torch_merge_file_name(ids->merge, ids->last_graph));
    buf_add_text(out, ids->here.len > 0 ? buf_text(&ids->here) : ".");
}

/* Fails with ERR_DATA: `what` says why the current value has no such key or is no id. */
static int lacks(const struct ids *ids, size_t level, const char *what)
{
    cleanup_buf struct buf place = BUF_INIT;
    place_add(ids, &place);
    if (level == ids->pattern.len)
        return fail(ids->merge->err, ERR_DATA, "%s %s, so it is no id", buf_text(&place), what);
    if (ids->are_references)
        return 0;
    return fail(ids->merge->err, ERR_DATA, "%s %s '%.*s', which %s asks for", buf_text(&place),
                what, (int)ids->pattern.at[level].len, ids->pattern.at[level].at, ids->option);
}

static uint32_t slot_next(const struct pickle *graph, struct pickle_walk *walk, pickle_id *id)
{
    *id = pickle_next(graph, walk);
    return walk->at - 1;
}

/* Adds a key, or an index, to the current place. The returned view of its name is valid until it is
 * popped. */
static struct str here_push_key(struct ids *ids, uint32_t graph, pickle_id key, size_t *before)
{
    *before = ids->here.len;
    buf_add_text(&ids->here, *before > 0 ? "." : "");
    size_t begin = ids->here.len;
    torch_merge_key_add(ids->merge, graph, key, &ids->here);
    return (struct str){ids->here.at + begin, ids->here.len - begin};
}

static struct str here_push_index(struct ids *ids, uint64_t index, size_t *before)
{
    *before = ids->here.len;
    buf_addf(&ids->here, "%s%lu", *before > 0 ? "." : "", index);
    size_t begin = *before + (*before > 0);
    return (struct str){ids->here.at + begin, ids->here.len - begin};
}

static void here_pop(struct ids *ids, size_t before)
{
    ids->here.len = before;
    if (ids->here.at)
        ids->here.at[before] = '\0';
}

static int id_found(struct ids *ids, struct id id)
{
    const struct pickle_node *node = id_node(ids, &id);
    const struct pickle_callable *known = call_known(torch_merge_graph(ids->merge, id.graph), node);
    if (ids->are_references && node->kind == PICKLE_NONE)
        return 0;
    if (!is_id(node))
        return lacks(ids, ids->pattern.len,
                     known && known->result == RESULT_NUMPY_SCALAR
                         ? "is no number and no text (--plain makes such of numpy's)"
                         : "is no number and no text");
    if (node->kind == PICKLE_FLOAT && isnan(node->real))
        return lacks(ids, ids->pattern.len, "is NaN, which equals nothing, not even itself");
    if (ids->wanted_place) {
        if (ids->wanted == ids->len)
            place_add(ids, ids->wanted_place);
        ids->len++;
        return 0;
    }
    if (ids->len == ids->cap) {
        ids->cap = MAX(ids->cap * 2, (size_t)256);
        ids->at = xrealloc(ids->at, ids->cap * sizeof(*ids->at));
    }
    id.ordinal = ids->len;
    id.hash = id_hash(ids, &id);
    ids->at[ids->len++] = id;
    return 0;
}

/* NOLINTBEGIN(misc-no-recursion): PATH_KEYS_MAX deep */

static int value_look(struct ids *ids, struct id at, size_t level);

static int pairs_look(struct ids *ids, struct id at, const struct pickle_node *pairs, size_t level)
{
    const struct pickle *graph = torch_merge_graph(ids->merge, at.graph);
    struct pickle_walk walk = pickle_items(pairs);
    struct id child = {.holder = at.graph, .graph = at.graph}, last = {0};
    bool is_open = path_key_is_wildcard(ids->pattern.at[level]);
    pickle_id key, last_key = 0;
    size_t before;
    int rc = 0;
    while (rc == 0 && (key = pickle_next(graph, &walk)) != 0) {
        child.slot = slot_next(graph, &walk, &child.value);
        bool fits =
            path_key_matches(ids->pattern.at[level], here_push_key(ids, at.graph, key, &before));
        if (fits && is_open)
            rc = value_look(ids, child, level + 1);
        here_pop(ids, before);
        ids->last_graph = at.graph;
        last = fits ? child : last; /* if keys are equal, the last one counts */
        last_key = fits ? key : last_key;
    }
    if (rc || is_open)
        return rc;
    if (!last_key)
        return lacks(ids, level, "has no");
    (void)here_push_key(ids, at.graph, last_key, &before);
    rc = value_look(ids, last, level + 1);
    here_pop(ids, before);
    return rc;
}

/*
 * Looks at the items of a list. If the list was concatenated from several files, an item's index is
 * counted within its own file.
 */
static int items_look(struct ids *ids, struct id at, size_t level)
{
    const struct pickle *graph = torch_merge_graph(ids->merge, at.graph);
    struct pickle_walk walk = pickle_items(pickle_node(graph, at.value));
    struct id child = {.holder = at.graph, .graph = at.graph};
    uint32_t last_part = UINT32_MAX;
    uint64_t index = 0;
    bool is_met = false;
    size_t before;
    int rc = 0;
    while (rc == 0 && (child.slot = slot_next(graph, &walk, &child.value), child.value != 0)) {
        const struct pickle_node *node = pickle_node(graph, child.value);
        uint32_t part = node->kind == PICKLE_OF ? node->of.graph : at.graph;
        index = part == last_part ? index + 1 : 0;
        last_part = part;
        if (path_key_matches(ids->pattern.at[level], here_push_index(ids, index, &before))) {
            is_met = true;
            rc = value_look(ids, child, level + 1);
        }
        here_pop(ids, before);
    }
    ids->last_graph = at.graph;
    return rc == 0 && !is_met && !path_key_is_wildcard(ids->pattern.at[level])
               ? lacks(ids, level, "is a list (* stands for each of its items) without")
               : rc;
}

static int value_look(struct ids *ids, struct id at, size_t level)
{
    const struct pickle_node *node = torch_merge_resolve(ids->merge, &at.graph, &at.value);
    ids->last_graph = at.graph;
    if (++ids->n_visits > ids->max_visits)
        return fail(ids->merge->err, ERR_DATA,
                    "%s: one object is in more places than can be looked at, so its ids are not "
                    "unique",
                    ids->option);
    if (level == ids->pattern.len)
        return id_found(ids, at);
    const struct pickle *graph = torch_merge_graph(ids->merge, at.graph);
    const struct pickle_node *pairs = dict_pairs(graph, at.value);
    if (pairs)
        return pairs_look(ids, at, pairs, level);
    if (node->kind == PICKLE_LIST || node->kind == PICKLE_TUPLE)
        return items_look(ids, at, level);
    return lacks(ids, level, "is neither a dictionary nor a list, and has no");
}

/* NOLINTEND(misc-no-recursion) */

int ids_find(struct ids *ids, pickle_id root)
{
    const struct id whole = {.graph = (uint32_t)ids->root_graph, .value = root};
    ids->len = ids->n_visits = 0;
    return value_look(ids, whole, 0);
}

void ids_place(const struct ids *ids, pickle_id root, uint64_t ordinal, struct buf *out)
{
    struct ids again = *ids;
    again.here = (struct buf)BUF_INIT;
    again.wanted = ordinal;
    again.wanted_place = out;
    (void)ids_find(&again, root);
    buf_release(&again.here);
}

/* ---- once each ---- */

static int twice_fail(const struct ids *ids, pickle_id root, const struct id *id, uint64_t before)
{
    cleanup_buf struct buf value = BUF_INIT, place = BUF_INIT, other = BUF_INIT;
    value_show(ids, id, &value);
    ids_place(ids, root, before, &other);
    ids_place(ids, root, id->ordinal, &place);
    return fail(ids->merge->err, ERR_DATA,
                "the id %s is at %s, and again at %s; --renumber numbers all of them anew",
                buf_text(&value), buf_text(&other), buf_text(&place));
}

static int ids_compare(struct ids *ids, pickle_id root)
{
    uint64_t n_twice = 0, before = 0;
    const struct id *second = NULL;
    if (ids->len > 0)
        qsort_r(ids->at, ids->len, sizeof(*ids->at), id_order, ids);
    for (size_t i = 1; i < ids->len; i++) {
        const struct id *id = &ids->at[i], *last = id - 1;
        if (id->hash != last->hash || id_compare(ids, last, id) != 0)
            continue;
        n_twice++;
        if (!second || id->ordinal < second->ordinal) {
            second = id;
            before = last->ordinal;
        }
    }
    if (n_twice > 0)
        return ids->merge->opts->is_renumbered ? ids_renumber(ids, root, n_twice)
                                               : twice_fail(ids, root, second, before);
    if (ids->merge->opts->is_renumbered)
        torch_merge_note(ids->merge, "--renumber: all %zu ids are there once, so none is changed",
                         ids->len);
    return 0;
}

uint64_t ids_visits_max(const struct ids *ids)
{
    uint64_t n = 0;
    for (size_t i = 0; i <= ids->merge->n_parts; i++)
        n += (torch_merge_graph(ids->merge, i)->n_chunks + 1) * (ids->pattern.len + 1);
    return n;
}

void ids_release(struct ids *ids)
{
    buf_release(&ids->here);
    free(ids->at);
}

int ids_look(struct merge_state *merge, pickle_id root)
{
    struct ids ids = {.merge = merge, .option = "--id", .root_graph = merge->n_parts};
    int rc = path_pattern_parse(merge->opts->id_path, &ids.pattern, merge->err);
    ids.max_visits = ids_visits_max(&ids);
    if (rc == 0)
        rc = ids_find(&ids, root);
    merge->n_ids = ids.len;
    if (rc == 0)
        rc = ids_compare(&ids, root);
    ids_release(&ids);
    return rc;
}
