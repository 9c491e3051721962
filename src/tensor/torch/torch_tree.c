/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints the graph of a torch file as a tree: the values that Python would have, without building
 * them.
 */
#include "base/cleanup.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "tensor/inspect.h"
#include "tensor/pickle/pickle_callable.h"
#include "tensor/torch/torch.h"
#include "tensor/torch/torch_value.h"

enum {
    DIMS_MAX = 64,
    TEXT_SHOWN_BYTES = 200
};

struct shower {
    struct tree *tree;
    const struct torch_file *file;
    const struct pickle *pickle;
};

/* A value, and the memory that it borrows from. */
struct shown {
    struct tree_value value;
    uint64_t shape[DIMS_MAX];
    struct buf scalar, type, note;
};

#define SHOWN_INIT               \
    {                            \
        .value = TREE_VALUE_INIT \
    }

static void shown_release(struct shown *shown)
{
    buf_release(&shown->scalar);
    buf_release(&shown->type);
    buf_release(&shown->note);
}

static const char *const kind_names[] = {
    [PICKLE_NONE] = "None",   [PICKLE_BOOL] = "bool",           [PICKLE_INT] = "int",
    [PICKLE_LONG] = "int",    [PICKLE_FLOAT] = "float",         [PICKLE_TEXT] = "str",
    [PICKLE_BYTES] = "bytes", [PICKLE_BYTEARRAY] = "bytearray", [PICKLE_GLOBAL] = "class",
    [PICKLE_TUPLE] = "tuple", [PICKLE_LIST] = "list",           [PICKLE_DICT] = "dict",
    [PICKLE_SET] = "set",     [PICKLE_FROZENSET] = "frozenset", [PICKLE_STORAGE] = "storage",
};

static void name_add(struct buf *out, const struct pickle_global *global)
{
    buf_add_str(out, global->module);
    buf_add_char(out, '.');
    buf_add_str(out, global->name);
}

static const struct pickle_global *callee_of(const struct pickle *pickle,
                                             const struct pickle_node *call)
{
    return &pickle->globals[pickle_node(pickle, call->call.callee)->global];
}

static pickle_id argument(const struct pickle *pickle, const struct pickle_node *call,
                          uint32_t index)
{
    return pickle_item(pickle, pickle_node(pickle, call->call.args), index);
}

/* ---- numbers in tuples ---- */

static bool shape_get(const struct pickle *pickle, pickle_id id, struct shown *shown)
{
    const struct pickle_node *node = pickle_node(pickle, id);
    if (id && node->kind == PICKLE_CALL) /* torch.Size((2, 3)) */
        node = pickle_node(pickle, argument(pickle, node, 0));
    if (node->kind != PICKLE_TUPLE || node->count > DIMS_MAX)
        return false;
    struct pickle_walk walk = pickle_items(node);
    for (uint32_t i = 0; i < node->count; i++)
        if (!pickle_to_u64(pickle, pickle_next(pickle, &walk), &shown->shape[i]))
            return false;
    shown->value.shape = shown->shape;
    shown->value.n_dims = node->count;
    return true;
}

static uint64_t n_elements(const struct shown *shown)
{
    uint64_t n = 1;
    for (size_t i = 0; i < shown->value.n_dims; i++)
        if (__builtin_mul_overflow(n, shown->shape[i], &n))
            return TREE_UNSAID;
    return n;
}

/* ---- kinds of values ---- */

static void text_show(struct shown *shown, struct str text)
{
    struct str head = {text.at, MIN(text.len, (size_t)TEXT_SHOWN_BYTES)};
    while (head.len < text.len && head.len > 0 && ((unsigned char)head.at[head.len] & 0xc0) == 0x80)
        head.len--;
    buf_add_json(&shown->scalar, head);
    shown->value.count = head.len < text.len ? text.len : TREE_UNSAID;
}

/* Shows a tensor: type of elements, shape, bytes, and how much of its storage it does not use. */
static void tensor_show(const struct shower *s, const struct pickle_node *call, struct shown *shown)
{
    const struct pickle *pickle = s->pickle;
    const struct pickle_storage *storage =
        &pickle->storages[pickle_node(pickle, argument(pickle, call, 0))->storage];
    const struct pickle_node *dtype = pickle_node(pickle, argument(pickle, call, 6));
    uint64_t element_bytes = storage->element_bytes, offset = 0;
    if (dtype->kind == PICKLE_GLOBAL) {
        buf_add_str(&shown->type, pickle->globals[dtype->global].name);
        element_bytes = dtype_bytes(pickle->globals[dtype->global].name);
    } else {
        buf_add_text(&shown->type, storage_dtype(storage->type));
    }
    if (!shape_get(pickle, argument(pickle, call, 2), shown))
        return;
    uint64_t n = n_elements(shown);
    if (n > UINT64_MAX / 16) /* expanded: more elements than bytes */
        return;
    shown->value.bytes = n * element_bytes;
    uint64_t held = storage->n_elements * storage->element_bytes;
    pickle_to_u64(pickle, argument(pickle, call, 1), &offset);
    if (shown->value.bytes != held) {
        char size[16];
        size_format(size, held);
        buf_addf(&shown->note, "view of a storage of %s", size);
    }
    if (!str_equal(storage->location, STR("cpu"))) {
        buf_addf(&shown->note, "%son ", shown->note.len ? ", " : "");
        buf_add_str(&shown->note, storage->location);
    }
}

/* numpy.core.multiarray.scalar(dtype, bytes); dtype is numpy.dtype("f8", …). */
static void dtype_show(const struct pickle *pickle, pickle_id id, struct shown *shown)
{
    const struct pickle_node *dtype = pickle_node(pickle, id);
    buf_add_text(&shown->type, "numpy.");
    if (id && dtype->kind == PICKLE_CALL) {
        const struct pickle_node *name = pickle_node(pickle, argument(pickle, dtype, 0));
        if (name->kind == PICKLE_TEXT) {
            buf_add_str(&shown->type, pickle_bytes(pickle, name));
            return;
        }
    }
    buf_add_text(&shown->type, "?");
}

static void array_show(const struct pickle *pickle, const struct pickle_node *call,
                       struct shown *shown)
{
    struct numpy_array array;
    if (!numpy_array_take(pickle, call, &array)) {
        buf_add_text(&shown->type, "numpy.ndarray");
        return;
    }
    dtype_show(pickle, array.dtype, shown);
    shape_get(pickle, array.shape, shown);
}

/* _rebuild_parameter(tensor, requires_grad, hooks): shown in one line, as its tensor. */
static void parameter_show(const struct shower *s, const struct pickle_node *call,
                           struct shown *shown)
{
    const struct pickle_node *inner = pickle_node(s->pickle, argument(s->pickle, call, 0));
    bool is_tensor = false;
    if (inner->kind == PICKLE_CALL) {
        const struct pickle_callable *known = callee_of(s->pickle, inner)->known;
        is_tensor = known && known->result == RESULT_TENSOR;
    }
    if (is_tensor)
        tensor_show(s, inner, shown);
    else
        name_add(&shown->type, callee_of(s->pickle, call));
    buf_addf(&shown->note, "%sparameter", shown->note.len ? ", " : "");
}

static void call_show(const struct shower *s, const struct pickle_node *call, struct shown *shown)
{
    const struct pickle_global *callee = callee_of(s->pickle, call);
    enum callable_result result = callee->known ? callee->known->result : RESULT_OBJECT;
    const struct pickle_later *later = pickle_later(s->pickle, call);
    switch (result) {
    case RESULT_TENSOR:
        tensor_show(s, call, shown);
        return;
    case RESULT_NUMPY_SCALAR:
        dtype_show(s->pickle, argument(s->pickle, call, 0), shown);
        return;
    case RESULT_NUMPY_ARRAY:
        array_show(s->pickle, call, shown);
        return;
    case RESULT_SIZE:
        buf_add_text(&shown->type, "torch.Size");
        shape_get(s->pickle, argument(s->pickle, call, 0), shown);
        return;
    case RESULT_TEXT_AS_BYTES:
        buf_add_text(&shown->type, "bytes");
        return;
    case RESULT_DICT:
        buf_add_str(&shown->type, callee->name);
        shown->value.count = later->pairs.count;
        return;
    case RESULT_PARAMETER:
        parameter_show(s, call, shown);
        return;
    case RESULT_OBJECT:
        name_add(&shown->type, callee);
        if (!callee->known)
            buf_add_text(&shown->note, "not data: nothing calls it here");
        return;
    }
    BUG("result %d", result);
}

static void storage_show(const struct pickle_storage *storage, struct shown *shown)
{
    buf_add_text(&shown->type, storage_dtype(storage->type));
    buf_add_text(&shown->type, ".storage");
    shown->shape[0] = storage->n_elements;
    shown->value.shape = shown->shape;
    shown->value.n_dims = 1;
    shown->value.bytes = storage->n_elements * storage->element_bytes;
}

static void node_show(const struct shower *s, const struct pickle_node *node, struct shown *shown)
{
    enum pickle_kind kind = node->kind;
    if (kind == PICKLE_CALL || kind == PICKLE_NEW)
        call_show(s, node, shown);
    else if (kind == PICKLE_STORAGE)
        storage_show(&s->pickle->storages[node->storage], shown);
    else
        buf_add_text(&shown->type, kind_names[kind]);
    if (kind == PICKLE_BOOL)
        buf_add_text(&shown->scalar, node->truth ? "true" : "false");
    else if (kind == PICKLE_INT)
        buf_addf(&shown->scalar, "%ld", node->integer);
    else if (kind == PICKLE_FLOAT && __builtin_isfinite(node->real))
        buf_add_json_double(&shown->scalar, node->real);
    else if (kind == PICKLE_FLOAT)
        buf_addf(&shown->scalar, "\"%f\"", node->real);
    else if (kind == PICKLE_TEXT)
        text_show(shown, pickle_bytes(s->pickle, node));
    else if (kind == PICKLE_GLOBAL)
        name_add(&shown->note, &s->pickle->globals[node->global]);
    else if (kind == PICKLE_BYTES || kind == PICKLE_BYTEARRAY || kind == PICKLE_LONG)
        shown->value.bytes = node->count;
    else if (kind >= PICKLE_TUPLE && kind <= PICKLE_FROZENSET)
        shown->value.count = node->count;
    shown->value.type = buf_str(&shown->type);
    shown->value.scalar = buf_str(&shown->scalar);
    shown->value.note = buf_str(&shown->note);
}

/* ---- parts ---- */

/* NOLINTBEGIN(misc-no-recursion): at most TREE_DEPTH_MAX deep */
static void show(const struct shower *s, struct str key, pickle_id id);

static void key_format(const struct pickle *pickle, pickle_id id, struct buf *out)
{
    const struct pickle_node *node = pickle_node(pickle, id);
    if (node->kind == PICKLE_TEXT)
        buf_add_str(out, pickle_bytes(pickle, node));
    else if (node->kind == PICKLE_INT)
        buf_addf(out, "%ld", node->integer);
    else if (node->kind == PICKLE_FLOAT)
        buf_add_json_double(out, node->real);
    else
        buf_addf(out, "(%s)",
                 node->kind < countof(kind_names) && kind_names[node->kind] ? kind_names[node->kind]
                                                                            : "object");
}

static void pairs_show(const struct shower *s, const struct pickle_node *pairs)
{
    struct pickle_walk walk = pickle_items(pairs);
    cleanup_buf struct buf key = BUF_INIT;
    uint32_t i = 0;
    for (; i < pairs->count && s->tree->n_lines < TREE_LINES_MAX; i++) {
        pickle_id name = pickle_next(s->pickle, &walk), value = pickle_next(s->pickle, &walk);
        buf_reset(&key);
        key_format(s->pickle, name, &key);
        show(s, buf_str(&key), value);
    }
    tree_more(s->tree, pairs->count - i);
}

static void items_show(const struct shower *s, const struct pickle_node *items)
{
    struct pickle_walk walk = pickle_items(items);
    uint32_t max = items->count > TREE_LIST_MAX ? TREE_LIST_HEAD : items->count, i = 0;
    for (; i < max && s->tree->n_lines < TREE_LINES_MAX; i++) {
        char key[16];
        snprintf(key, sizeof(key), "[%u]", i);
        show(s, str_of(key), pickle_next(s->pickle, &walk));
    }
    tree_more(s->tree, items->count - i);
}

/* The arguments of a call are shown unless its result is a known one, such as a tensor or an
 * array. */
static bool is_opaque(const struct shower *s, const struct pickle_node *node)
{
    const struct pickle_callable *known = callee_of(s->pickle, node)->known;
    return known && known->result != RESULT_DICT && known->result != RESULT_OBJECT;
}

static bool has_parts(const struct shower *s, const struct pickle_node *node)
{
    if (node->kind == PICKLE_CALL || node->kind == PICKLE_NEW)
        return !is_opaque(s, node);
    return node->kind >= PICKLE_TUPLE && node->kind <= PICKLE_FROZENSET && node->count > 0;
}

static void parts_show(const struct shower *s, const struct pickle_node *node)
{
    if (node->kind == PICKLE_DICT) {
        pairs_show(s, node);
    } else if (node->kind == PICKLE_CALL || node->kind == PICKLE_NEW) {
        const struct pickle_later *later = pickle_later(s->pickle, node);
        items_show(s, pickle_node(s->pickle, node->call.args));
        items_show(s, &later->items);
        pairs_show(s, &later->pairs);
        struct pickle_walk walk = pickle_items(&later->states);
        for (pickle_id state; (state = pickle_next(s->pickle, &walk)) != 0;)
            show(s, STR("state"), state);
    } else {
        items_show(s, node);
    }
}

static void show(const struct shower *s, struct str key, pickle_id id)
{
    struct shown shown = SHOWN_INIT;
    const struct pickle_node *node = pickle_node(s->pickle, id);
    node_show(s, node, &shown);
    if (!has_parts(s, node)) {
        tree_leaf(s->tree, key, &shown.value);
    } else if (tree_open(s->tree, key, &shown.value)) {
        parts_show(s, node);
        tree_close(s->tree);
    }
    shown_release(&shown);
}

/* NOLINTEND(misc-no-recursion) */

void torch_tree(const struct torch_file *file, struct tree *tree)
{
    struct shower shower = {.tree = tree, .file = file, .pickle = &file->pickle};
    show(&shower, (struct str){"", 0}, file->pickle.root);
}
