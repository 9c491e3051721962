/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns numpy's scalars and arrays into plain numbers, texts and tensors, which torch.load of 2.6
 * and newer takes by default. This is done before values are merged, so that they are counted and
 * compared in their new form.
 */
#include "base/cleanup.h"
#include "base/xalloc.h"
#include "tensor/bytes.h"
#include "tensor/crc.h"
#include "tensor/pickle/pickle_impl.h"
#include "tensor/torch/torch_normalise.h"

/* ---- scalars ---- */

static struct pickle_node node_of(struct pickle *pickle, const struct numpy_scalar *scalar)
{
    if (scalar->kind != PICKLE_TEXT && scalar->kind != PICKLE_BYTES && scalar->kind != PICKLE_LONG)
        return scalar->number;
    return *pickle_node(pickle, pickle_add_bytes(pickle, scalar->kind, scalar->bytes));
}

/* Changes the node into the plain value; all references to the node then mean that value. */
static bool scalar_make(struct pickle *pickle, pickle_id id, struct buf *bytes)
{
    struct numpy_scalar scalar;
    if (!numpy_scalar_take(pickle, id, bytes, &scalar))
        return false;
    const struct pickle_node value = node_of(pickle, &scalar);
    pickle->nodes[id] = value;
    return true;
}

/* ---- arrays ---- */

enum {
    DIMS_MAX = 64
};

struct array {
    struct numpy_dtype dtype;
    const char *storage_type;
    uint64_t shape[DIMS_MAX], strides[DIMS_MAX];
    uint32_t n_dims;
    uint64_t n_elements;
};

static const char *storage_type_of(const struct numpy_dtype *dtype)
{
    static const struct {
        char kind;
        unsigned n_bytes;
        const char *type;
    } types[] = {
        {'f', 8, "DoubleStorage"},
        {'f', 4, "FloatStorage"},
        {'f', 2, "HalfStorage"},
        {'i', 8, "LongStorage"},
        {'i', 4, "IntStorage"},
        {'i', 2, "ShortStorage"},
        {'i', 1, "CharStorage"},
        {'u', 1, "ByteStorage"},
        {'b', 1, "BoolStorage"},
        {'c', 8, "ComplexFloatStorage"},
        {'c', 16, "ComplexDoubleStorage"},
    };
    for (size_t i = 0; i < countof(types); i++)
        if (types[i].kind == dtype->kind && types[i].n_bytes == dtype->n_bytes)
            return types[i].type;
    return NULL;
}

static bool shape_take(const struct pickle *pickle, pickle_id id, bool is_fortran,
                       struct array *out)
{
    const struct pickle_node *tuple = pickle_node(pickle, id);
    if (tuple->kind != PICKLE_TUPLE || tuple->count > DIMS_MAX)
        return false;
    struct pickle_walk walk = pickle_items(tuple);
    out->n_dims = tuple->count;
    out->n_elements = 1;
    for (uint32_t i = 0; i < out->n_dims; i++)
        if (!pickle_to_u64(pickle, pickle_next(pickle, &walk), &out->shape[i]) ||
            __builtin_mul_overflow(out->n_elements, out->shape[i], &out->n_elements))
            return false;
    uint64_t step = 1;
    for (uint32_t i = 0; i < out->n_dims; i++) {
        uint32_t dim = is_fortran ? i : out->n_dims - 1 - i;
        out->strides[dim] = step;
        if (__builtin_mul_overflow(step, MAX(out->shape[dim], (uint64_t)1), &step) ||
            step > INT64_MAX)
            return false;
    }
    return true;
}

static bool array_take(const struct torch_file *file, pickle_id id, struct array *out,
                       struct buf *bytes)
{
    const struct pickle *pickle = &file->pickle;
    struct numpy_array of;
    uint64_t n_bytes;
    if (!numpy_array_take(pickle, pickle_node(pickle, id), &of) ||
        !numpy_dtype_take(pickle, of.dtype, &out->dtype))
        return false;
    out->storage_type = storage_type_of(&out->dtype);
    return out->storage_type &&
           (out->dtype.n_bytes == 1 || out->dtype.is_big_endian == file->is_big_endian) &&
           shape_take(pickle, of.shape, of.is_fortran, out) &&
           pickled_bytes_take(pickle, of.bytes, bytes) &&
           !__builtin_mul_overflow(out->n_elements, out->dtype.n_bytes, &n_bytes) &&
           bytes->len == n_bytes;
}

/* Adds a storage that is in no file: its bytes are kept in memory (storage_held). */
static uint32_t storage_hold(struct torch_file *file, const struct array *array, struct buf *bytes)
{
    struct pickle *pickle = &file->pickle;
    size_t i = pickle->n_storages;
    if (!file->storage_held || i == pickle->cap_storages) {
        size_t cap = pickle->cap_storages = MAX(2 * pickle->cap_storages, (size_t)16);
        pickle->storages = xrealloc(pickle->storages, cap * sizeof(*pickle->storages));
        file->storage_at = xrealloc(file->storage_at, cap * sizeof(*file->storage_at));
        file->storage_crc = xrealloc(file->storage_crc, cap * sizeof(*file->storage_crc));
        size_t n_held = file->storage_held ? i : 0;
        file->storage_held = xrealloc(file->storage_held, cap * sizeof(*file->storage_held));
        memset(file->storage_held + n_held, 0, (cap - n_held) * sizeof(*file->storage_held));
    }
    pickle->storages[i] = (struct pickle_storage){.module = STR("torch"),
                                                  .type = str_of(array->storage_type),
                                                  .key = STR("of an array of numpy"),
                                                  .location = STR("cpu"),
                                                  .n_elements = array->n_elements,
                                                  .element_bytes = array->dtype.n_bytes};
    file->storage_at[i] = 0;
    file->storage_crc[i] = crc_of(0, buf_str(bytes));
    size_t len = bytes->len;
    file->storage_held[i] = (struct str){buf_steal(bytes), len};
    pickle->n_storages++;
    return (uint32_t)i;
}

static pickle_id tuple_of(struct pickle *pickle, const pickle_id *ids, size_t n_ids)
{
    pickle_id tuple = pickle_add(pickle, (struct pickle_node){.kind = PICKLE_TUPLE});
    pickle_add_items(pickle, tuple, ids, n_ids);
    return tuple;
}

static pickle_id numbers_node(struct pickle *pickle, const uint64_t *numbers, uint32_t n_numbers)
{
    pickle_id ids[DIMS_MAX];
    for (uint32_t i = 0; i < n_numbers; i++)
        ids[i] = pickle_add(
            pickle, (struct pickle_node){.kind = PICKLE_INT, .integer = (int64_t)numbers[i]});
    return tuple_of(pickle, ids, n_numbers);
}

/* Changes the node into the call that torch would write for torch.from_numpy(). */
static bool array_make(struct torch_file *file, pickle_id id, struct buf *bytes)
{
    struct pickle *pickle = &file->pickle;
    struct array array = {0};
    if (!array_take(file, id, &array, bytes))
        return false;
    uint32_t storage = storage_hold(file, &array, bytes);
    pickle_id no_arguments = tuple_of(pickle, NULL, 0);
    pickle_id hooks = pickle_add_global(pickle, STR("collections"), STR("OrderedDict"));
    const pickle_id args[] = {
        pickle_add(pickle, (struct pickle_node){.kind = PICKLE_STORAGE, .storage = storage}),
        pickle_add(pickle, (struct pickle_node){.kind = PICKLE_INT}),
        numbers_node(pickle, array.shape, array.n_dims),
        numbers_node(pickle, array.strides, array.n_dims),
        pickle_add(pickle, (struct pickle_node){.kind = PICKLE_BOOL}),
        pickle_add(pickle,
                   (struct pickle_node){.kind = PICKLE_CALL, .call = {hooks, no_arguments}}),
    };
    pickle_id callee = pickle_add_global(pickle, STR("torch._utils"), STR("_rebuild_tensor_v2"));
    pickle_id tuple = tuple_of(pickle, args, countof(args));
    pickle->nodes[id] = (struct pickle_node){.kind = PICKLE_CALL, .call = {callee, tuple}};
    return true;
}

/* ---- all of them ---- */

/* Does the file rebuild tensors of a device from numpy arrays? Such arrays must stay as they
 * are. */
static bool has_device_arrays(const struct pickle *pickle)
{
    for (size_t i = 0; i < pickle->n_globals; i++)
        if (str_equal(pickle->globals[i].name, STR("_rebuild_device_tensor_from_numpy")))
            return true;
    return false;
}

void plain_part(struct merge_state *merge, size_t part, struct plain_stats *stats)
{
    struct torch_file *file = &merge->parts[part].file;
    cleanup_buf struct buf bytes = BUF_INIT;
    size_t n_nodes = file->pickle.n_nodes; /* without the nodes that are added below */
    bool keeps_arrays = has_device_arrays(&file->pickle);
    for (pickle_id id = 1; id < n_nodes; id++) {
        const struct pickle_callable *known =
            call_known(&file->pickle, pickle_node(&file->pickle, id));
        if (known && known->result == RESULT_NUMPY_SCALAR)
            stats->n_scalars += scalar_make(&file->pickle, id, &bytes);
        else if (known && known->result == RESULT_NUMPY_ARRAY && !keeps_arrays)
            stats->n_arrays += array_make(file, id, &bytes);
    }
}

/*
 * Does torch.load refuse the node by default? *is_numpy: the node is a value of numpy that should
 * have become plain.
 */
static bool is_refused(const struct pickle *pickle, const struct pickle_node *node, bool *is_numpy)
{
    bool is_call = node->kind == PICKLE_CALL || node->kind == PICKLE_NEW;
    if (node->kind != PICKLE_GLOBAL && !is_call)
        return node->kind == PICKLE_FROZENSET;
    uint32_t index = is_call ? pickle_node(pickle, node->call.callee)->global : node->global;
    const struct pickle_global *global = &pickle->globals[index];
    *is_numpy =
        str_equal(global->module, STR("numpy")) || str_starts_with(global->module, STR("numpy."));
    return !global->known || !global->known->is_loaded_by_default;
}

static int numpy_left(const struct merge_state *merge, const struct walk_frame *frame,
                      const char *path, struct err *err)
{
    bool is_merged = frame->graph == merge->n_parts;
    return fail(err, ERR_DATA,
                "'%s'%s%s is numpy's and has no plain form (a type of its own, another byte "
                "order, or objects): --rule drops it, or save it as numbers, texts or tensors",
                path, is_merged ? "" : " of ",
                is_merged ? "" : torch_merge_file_name(merge, frame->graph));
}

int plain_check(struct merge_state *merge, pickle_id root)
{
    cleanup_buf struct buf path = BUF_INIT, first = BUF_INIT;
    const struct walk_frame *frame;
    struct merge_walk walk;
    uint64_t n_refused = 0;
    int rc = 0;
    walk_begin(&walk, merge, root);
    while (rc == 0 && (frame = walk_next(&walk)) != NULL) {
        const struct pickle *graph = torch_merge_graph(merge, frame->graph);
        bool is_numpy = false;
        if (!is_refused(graph, pickle_node(graph, frame->id), &is_numpy))
            continue;
        walk_path(&walk, n_refused++ == 0 ? &first : &path);
        if (is_numpy)
            rc = numpy_left(merge, frame, buf_text(n_refused == 1 ? &first : &path), merge->err);
    }
    walk_end(&walk);
    if (rc == 0 && n_refused > 0)
        torch_merge_note(merge,
                         "torch.load refuses '%s'%s by default all the same: it is not numpy's",
                         buf_text(&first), n_refused > 1 ? " and others" : "");
    return rc;
}
