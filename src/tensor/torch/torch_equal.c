/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares values of different files. The order of a set is arbitrary in Python, and that of a
 * dictionary only says when its keys were set, so neither order counts. The order of an OrderedDict
 * counts.
 *
 * When two nodes are first compared, they are assumed to be the same and put into one class; then
 * their parts must be the same too. Nodes of one class are not compared again (Hopcroft and Karp,
 * 1971). So the work is bounded by the size of the files, however often a node is shared, and it
 * ends for objects that contain themselves. Classes are kept from one comparison to the next: if a
 * comparison found its values to be the same, all its pairs are the same.
 */
#include "base/cleanup.h"
#include "tensor/grow.h"
#include "tensor/pread.h"
#include "tensor/torch/torch_normalise.h"

enum {
    COMPARED_BYTES = 128 * 1024 /* bytes of storages that are compared at a time */
};

struct pair {
    struct node_ref a, b;
};

struct comparer {
    struct merge_state *merge;
    struct node_map classes, storages; /* number + 1 in `parents` */
    uint32_t *parents;
    struct pair *todo;
    size_t n_parents, cap_parents, n_todo, cap_todo;
    bool is_in_order; /* members whose keys cannot be matched were compared in order */
    struct buf texts[2];
};

void comparer_free(struct comparer *comparer)
{
    if (!comparer)
        return;
    node_map_release(&comparer->classes);
    node_map_release(&comparer->storages);
    free(comparer->parents);
    free(comparer->todo);
    buf_release(&comparer->texts[0]);
    buf_release(&comparer->texts[1]);
    free(comparer);
}

static const struct pickle *graph_of(const struct comparer *c, struct node_ref ref)
{
    return torch_merge_graph(c->merge, ref.part);
}

static const struct pickle_node *node_of(const struct comparer *c, struct node_ref ref)
{
    return pickle_node(graph_of(c, ref), ref.id);
}

/* ---- classes ---- */

static uint32_t class_of(struct comparer *c, struct node_map *map, struct node_ref ref)
{
    uint32_t *number = node_map_at(map, ref.part, ref.id);
    if (*number == 0) {
        uint32_t own = (uint32_t)c->n_parents;
        PUSH(c->parents, c->n_parents, c->cap_parents, own);
        *number = own + 1;
    }
    uint32_t at = *number - 1;
    while (c->parents[at] != at) {
        c->parents[at] = c->parents[c->parents[at]]; /* shortens the path for the next search */
        at = c->parents[at];
    }
    return at;
}

/* False if the two nodes were in one class before. */
static bool classes_join(struct comparer *c, struct node_map *map, struct pair pair)
{
    uint32_t a = class_of(c, map, pair.a), b = class_of(c, map, pair.b);
    c->parents[b] = a;
    return a != b;
}

/* ---- what has no parts ---- */

static bool globals_same(const struct pickle *a, uint32_t global_a, const struct pickle *b,
                         uint32_t global_b)
{
    return str_equal(a->globals[global_a].name, b->globals[global_b].name) &&
           str_equal(a->globals[global_a].module, b->globals[global_b].module);
}

/* Reads a piece of a storage, from its file or from memory; false if it cannot be read. */
static bool piece_read(const struct comparer *c, struct node_ref storage, uint64_t offset,
                       char *out, size_t len)
{
    const struct torch_part *part = &c->merge->parts[storage.part];
    const struct torch_file *file = &part->file;
    struct str held = file->storage_held ? file->storage_held[storage.id] : (struct str){NULL, 0};
    if (held.at) {
        memcpy(out, held.at + offset, len);
        return true;
    }
    return pread_exact(part->fd, out, len, file->storage_at[storage.id] + offset, file->path,
                       NULL) == 0;
}

/* Compares the bytes of two storages, for files without checksums. */
static bool bytes_same(const struct comparer *c, struct node_ref a, struct node_ref b,
                       uint64_t n_bytes)
{
    char *left = xmalloc(2 * (size_t)COMPARED_BYTES), *right = left + COMPARED_BYTES;
    bool are_same = true;
    for (uint64_t at = 0; are_same && at < n_bytes; at += COMPARED_BYTES) {
        size_t len = (size_t)MIN(n_bytes - at, (uint64_t)COMPARED_BYTES);
        are_same = piece_read(c, a, at, left, len) && piece_read(c, b, at, right, len) &&
                   memcmp(left, right, len) == 0;
    }
    free(left);
    return are_same;
}

static bool storages_same(struct comparer *c, struct node_ref a, struct node_ref b)
{
    const struct torch_file *file_a = &c->merge->parts[a.part].file;
    const struct torch_file *file_b = &c->merge->parts[b.part].file;
    struct node_ref left = {a.part, node_of(c, a)->storage},
                    right = {b.part, node_of(c, b)->storage};
    const struct pickle_storage *one = &file_a->pickle.storages[left.id];
    const struct pickle_storage *two = &file_b->pickle.storages[right.id];
    if (!str_equal(one->type, two->type) || one->n_elements != two->n_elements ||
        !str_equal(one->location, two->location))
        return false;
    if (file_a->zip.has_crcs && file_b->zip.has_crcs)
        return file_a->storage_crc[left.id] == file_b->storage_crc[right.id];
    struct pair known = {{left.part, left.id + 1}, {right.part, right.id + 1}};
    return !classes_join(c, &c->storages, known) ||
           bytes_same(c, left, right, one->n_elements * one->element_bytes);
}

/* Compares two nodes of one kind that have no parts. */
static bool scalars_same(struct comparer *c, struct node_ref ref_a, struct node_ref ref_b)
{
    const struct pickle_node *a = node_of(c, ref_a), *b = node_of(c, ref_b);
    switch ((enum pickle_kind)a->kind) {
    case PICKLE_NONE:
        return true;
    case PICKLE_BOOL:
        return a->truth == b->truth;
    case PICKLE_INT:
    case PICKLE_FLOAT: /* compared by its bits, so that NaN equals NaN */
        return a->integer == b->integer;
    case PICKLE_LONG:
    case PICKLE_TEXT:
    case PICKLE_BYTES:
    case PICKLE_BYTEARRAY:
        return str_equal(pickle_bytes(graph_of(c, ref_a), a), pickle_bytes(graph_of(c, ref_b), b));
    case PICKLE_GLOBAL:
        return globals_same(graph_of(c, ref_a), a->global, graph_of(c, ref_b), b->global);
    case PICKLE_STORAGE:
        return storages_same(c, ref_a, ref_b);
    case PICKLE_SPLICE:
        *c->merge->met_splice = true; /* its items are unknown */
        return false;
    case PICKLE_TUPLE:
    case PICKLE_LIST:
    case PICKLE_DICT:
    case PICKLE_SET:
    case PICKLE_FROZENSET:
    case PICKLE_CALL:
    case PICKLE_NEW:
    case PICKLE_OF:
        break;
    }
    BUG("kind %d", a->kind);
}

/* ---- pairs ---- */

static bool has_parts(enum pickle_kind kind)
{
    return (kind >= PICKLE_TUPLE && kind <= PICKLE_FROZENSET) || kind == PICKLE_CALL ||
           kind == PICKLE_NEW;
}

/* Compares bytes if one file has BYTES and the other the call that protocol 2 writes for bytes. */
static bool bytes_are_same(struct comparer *c, struct pair pair)
{
    return pickled_bytes_take(graph_of(c, pair.a), pair.a.id, &c->texts[0]) &&
           pickled_bytes_take(graph_of(c, pair.b), pair.b.id, &c->texts[1]) &&
           str_equal(buf_str(&c->texts[0]), buf_str(&c->texts[1]));
}

/* Compares nodes without parts at once; adds a pair with parts to the list for later. */
static bool pair_add(struct comparer *c, struct node_ref a, struct node_ref b)
{
    const struct pickle *graph_a = graph_of(c, a), *graph_b = graph_of(c, b);
    enum pickle_kind kind_a = value_kind(graph_a, pickle_node(graph_a, a.id));
    enum pickle_kind kind_b = value_kind(graph_b, pickle_node(graph_b, b.id));
    if (kind_a == PICKLE_SPLICE || kind_b == PICKLE_SPLICE)
        *c->merge->met_splice = true;
    if (kind_a != kind_b)
        return (kind_a == PICKLE_BYTES || kind_b == PICKLE_BYTES) &&
               bytes_are_same(c, (struct pair){a, b});
    if (!has_parts(kind_a))
        return scalars_same(c, a, b);
    PUSH(c->todo, c->n_todo, c->cap_todo, (struct pair){a, b});
    return true;
}

static bool ids_add(struct comparer *c, struct pair at, pickle_id a, pickle_id b)
{
    return pair_add(c, (struct node_ref){at.a.part, a}, (struct node_ref){at.b.part, b});
}

/* Adds the items of both as pairs, in their order. */
static bool items_add_pairs(struct comparer *c, struct pair at, const struct pickle_node *a,
                            const struct pickle_node *b)
{
    struct pickle_walk walk_a = pickle_items(a), walk_b = pickle_items(b);
    bool are_same = a->count == b->count;
    for (pickle_id id; are_same && (id = pickle_next(graph_of(c, at.a), &walk_a)) != 0;) {
        pickle_id other = pickle_next(graph_of(c, at.b), &walk_b);
        are_same = other && ids_add(c, at, id, other); /* a splice is one node for several items */
    }
    return are_same;
}

/* The next key on a side that equals only itself, beginning at number `from`. */
static uint32_t lone_next(struct torch_key_index *keys, uint32_t from, uint32_t side)
{
    for (; from < keys->n_entries; from++)
        if (torch_key_index_value(keys, from, side) && torch_key_index_is_itself(keys, from))
            break;
    return from;
}

/* Keys that equal only themselves (NaN, tensors) are paired by their order: the first of one side
 * with the first of the other, and so on. */
static bool lone_add(struct comparer *c, struct pair at, struct torch_key_index *keys)
{
    uint32_t a = lone_next(keys, 0, 0), b = lone_next(keys, 0, 1), n = 0;
    bool are_same = true;
    for (; are_same && a < keys->n_entries && b < keys->n_entries; n++) {
        are_same =
            ids_add(c, at, keys->entries[a].ref.id, keys->entries[b].ref.id) &&
            ids_add(c, at, torch_key_index_value(keys, a, 0), torch_key_index_value(keys, b, 1));
        a = lone_next(keys, a + 1, 0);
        b = lone_next(keys, b + 1, 1);
        c->is_in_order |= n > 0;
    }
    return are_same && (a < keys->n_entries) == (b < keys->n_entries);
}

static bool keys_add(struct comparer *c, struct pair at, struct torch_key_index *keys,
                     bool has_pairs)
{
    bool are_same = true, has_lone = false;
    for (uint32_t i = 0; are_same && i < keys->n_entries; i++) {
        pickle_id a = torch_key_index_value(keys, i, 0), b = torch_key_index_value(keys, i, 1);
        bool is_lone = (!a || !b) && torch_key_index_is_itself(keys, i);
        has_lone = has_lone || is_lone;
        are_same = is_lone || (a && b && (!has_pairs || ids_add(c, at, a, b)));
    }
    return are_same && (!has_lone || lone_add(c, at, keys));
}

/* Adds the members of dictionaries and sets as pairs. */
static bool members_add_pairs(struct comparer *c, struct pair at, const struct pickle_node *a,
                              const struct pickle_node *b)
{
    struct torch_key_index keys;
    bool are_same;
    torch_key_index_init(&keys, &c->merge->pool);
    if (torch_merge_members_take(c->merge, 0, at.a.part, a, &keys) &&
        torch_merge_members_take(c->merge, 1, at.b.part, b, &keys)) {
        are_same = keys_add(c, at, &keys, a->kind == PICKLE_DICT);
    } else {
        c->is_in_order = true;
        are_same = items_add_pairs(c, at, a, b);
    }
    *c->merge->met_splice |= c->merge->pool.met_splice;
    torch_key_index_release(&keys);
    return are_same;
}

/* Adds what was set in the results of two calls as pairs. */
static bool later_add(struct comparer *c, struct pair at)
{
    const struct pickle_node *call = node_of(c, at.a);
    const struct pickle_callable *known = call_known(graph_of(c, at.a), call);
    const struct pickle_later *a = pickle_later(graph_of(c, at.a), call);
    const struct pickle_later *b = pickle_later(graph_of(c, at.b), node_of(c, at.b));
    bool is_ordered = !known || strcmp(known->name, "OrderedDict") == 0;
    return items_add_pairs(c, at, &a->items, &b->items) &&
           items_add_pairs(c, at, &a->states, &b->states) &&
           (is_ordered ? items_add_pairs : members_add_pairs)(c, at, &a->pairs, &b->pairs);
}

/* Adds the parts of a pair as pairs. */
static bool parts_add(struct comparer *c, struct pair at)
{
    const struct pickle *graph_a = graph_of(c, at.a), *graph_b = graph_of(c, at.b);
    const struct pickle_node *a = node_of(c, at.a), *b = node_of(c, at.b);
    const struct pickle_node *set_a = set_items(graph_a, a), *set_b = set_items(graph_b, b);
    if (set_a || set_b || a->kind == PICKLE_DICT || a->kind == PICKLE_SET ||
        a->kind == PICKLE_FROZENSET)
        return members_add_pairs(c, at, set_a ? set_a : a, set_b ? set_b : b);
    if (a->kind == PICKLE_TUPLE && b->kind == PICKLE_TUPLE)
        return items_add_pairs(c, at, a, b);
    if (a->kind == PICKLE_LIST)
        return items_add_pairs(c, at, a, b);
    if (a->kind != b->kind) /* a torch.Size and a tuple, for example */
        return false;
    return ids_add(c, at, a->call.callee, b->call.callee) &&
           ids_add(c, at, a->call.args, b->call.args) && later_add(c, at);
}

static struct comparer *comparer_of(struct merge_state *merge)
{
    if (!merge->comparer) {
        merge->comparer = xcalloc(1, sizeof(*merge->comparer));
        merge->comparer->merge = merge;
    }
    merge->comparer->n_todo = 0;
    merge->comparer->is_in_order = false;
    return merge->comparer;
}

/* A comparison joins classes before it has proved the nodes equal, so all classes are dropped after
 * a difference. */
static enum sameness told(struct merge_state *merge, bool are_same)
{
    bool is_in_order = merge->comparer->is_in_order;
    if (are_same)
        return SAME;
    comparer_free(steal_ptr(&merge->comparer));
    return is_in_order ? UNTOLD : DIFFERENT;
}

static bool todo_work(struct comparer *c)
{
    bool are_same = true;
    while (are_same && c->n_todo > 0) {
        struct pair at = c->todo[--c->n_todo];
        are_same = !classes_join(c, &c->classes, at) || parts_add(c, at);
    }
    return are_same;
}

enum sameness values_same(struct merge_state *merge, size_t part_a, pickle_id a, size_t part_b,
                          pickle_id b)
{
    struct comparer *c = comparer_of(merge);
    bool are_same =
        pair_add(c, (struct node_ref){(uint32_t)part_a, a}, (struct node_ref){(uint32_t)part_b, b});
    return told(merge, are_same && todo_work(c));
}

enum sameness dicts_alike(struct merge_state *merge, size_t part_a, pickle_id a, size_t part_b,
                          pickle_id b)
{
    struct comparer *c = comparer_of(merge);
    struct pair at = {{(uint32_t)part_a, a}, {(uint32_t)part_b, b}};
    const struct pickle_node *left = node_of(c, at.a), *right = node_of(c, at.b);
    if (left->kind != right->kind || left->kind != PICKLE_CALL)
        return told(merge, left->kind == right->kind);
    bool are_alike = ids_add(c, at, left->call.callee, right->call.callee) &&
                     items_add_pairs(c, at, &pickle_later(graph_of(c, at.a), left)->states,
                                     &pickle_later(graph_of(c, at.b), right)->states);
    return told(merge, are_alike && todo_work(c));
}
