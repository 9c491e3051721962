/* SPDX-License-Identifier: Apache-2.0
 *
 * numpy's scalars and arrays as plain numbers, texts and tensors, which torch.load of 2.6 and newer takes
 * by default. Done before values are merged, so that they are counted and compared as what they become.
 */
#include <math.h>

#include "base/cleanup.h"
#include "base/xalloc.h"
#include "tensor/bytes.h"
#include "tensor/crc.h"
#include "tensor/pickle/pickle_impl.h"
#include "tensor/torch/torch_mend.h"

/* ---- scalars ---- */

/* Source: IEEE 754-2019, binary16. */
static double half_to_double(uint64_t bits)
{
    int exponent = (int)(bits >> 10 & 31), mantissa = (int)(bits & 1023);
    double size = exponent == 0    ? ldexp(mantissa, -24)
                  : exponent == 31 ? (mantissa ? (double)NAN : (double)INFINITY)
                                   : ldexp(mantissa | 1024, exponent - 25);
    return bits >> 15 ? -size : size;
}

static bool real_of(uint64_t bits, uint64_t n_bytes, double *out)
{
    if (n_bytes == sizeof(double)) {
        memcpy(out, &bits, sizeof(*out));
    } else if (n_bytes == sizeof(float)) {
        uint32_t low = (uint32_t)bits;
        float real;
        memcpy(&real, &low, sizeof(real));
        *out = (double)real;
    } else if (n_bytes == 2) {
        *out = half_to_double(bits);
    } else {
        return false;
    }
    return true;
}

/* UCS-4, filled up with zeros. */
static bool text_of(struct pickle *pickle, const struct numpy_dtype *dtype, struct str bytes,
                    struct pickle_node *out)
{
    cleanup_buf struct buf text = BUF_INIT;
    while (bytes.len > 0 && le_get(bytes.at + bytes.len - 4, 4) == 0)
        bytes.len -= 4;
    for (size_t i = 0; i < bytes.len; i += 4) {
        uint32_t point = (uint32_t)le_get(bytes.at + i, 4);
        point = dtype->is_big_endian ? __builtin_bswap32(point) : point;
        if (point > 0x10ffff)
            return false;
        text_point_add(&text, point);
    }
    *out = *pickle_node(pickle, pickle_add_bytes(pickle, PICKLE_TEXT, buf_str(&text)));
    return true;
}

static struct pickle_node whole_of(struct pickle *pickle, uint64_t bits, uint64_t n_bytes,
                                   bool is_signed)
{
    unsigned unused = 64 - 8 * (unsigned)n_bytes;
    if (is_signed)
        return (struct pickle_node){.kind = PICKLE_INT,
                                    .integer = (int64_t)(bits << unused) >> unused};
    if (bits <= INT64_MAX)
        return (struct pickle_node){.kind = PICKLE_INT, .integer = (int64_t)bits};
    char digits[9] = {0}; /* two's complement: a zero in front keeps it positive */
    le_put(digits, bits, 8);
    return *pickle_node(
        pickle, pickle_add_bytes(pickle, PICKLE_LONG, (struct str){digits, sizeof(digits)}));
}

static bool value_of(struct pickle *pickle, const struct numpy_dtype *dtype, struct str bytes,
                     struct pickle_node *out)
{
    if (bytes.len != dtype->n_bytes)
        return false;
    if (dtype->kind == 'U')
        return text_of(pickle, dtype, bytes, out);
    if (dtype->kind == 'S') {
        while (bytes.len > 0 && bytes.at[bytes.len - 1] == '\0')
            bytes.len--;
        *out = *pickle_node(pickle, pickle_add_bytes(pickle, PICKLE_BYTES, bytes));
        return true;
    }
    if (bytes.len == 0 || bytes.len > 8)
        return false;
    uint64_t bits = le_get(bytes.at, bytes.len);
    if (dtype->is_big_endian)
        bits = __builtin_bswap64(bits) >> (64 - 8 * bytes.len);
    if (dtype->kind == 'b')
        *out = (struct pickle_node){.kind = PICKLE_BOOL, .truth = bits != 0};
    else if (dtype->kind == 'i' || dtype->kind == 'u')
        *out = whole_of(pickle, bits, bytes.len, dtype->kind == 'i');
    else
        out->kind = PICKLE_FLOAT;
    return out->kind != PICKLE_FLOAT ||
           (dtype->kind == 'f' && real_of(bits, bytes.len, &out->real));
}

/* scalar(dtype, bytes); the node becomes the value, for all who hold it. */
static bool scalar_make(struct pickle *pickle, pickle_id id, struct buf *bytes)
{
    const struct pickle_node *call = pickle_node(pickle, id);
    const struct pickle_node *args = pickle_node(pickle, call->call.args);
    struct numpy_dtype dtype;
    struct pickle_node value = {0};
    if (args->count != 2 || call->count > 0 ||
        !numpy_dtype_take(pickle, pickle_item(pickle, args, 0), &dtype) ||
        !pickled_bytes_take(pickle, pickle_item(pickle, args, 1), bytes) ||
        !value_of(pickle, &dtype, buf_str(bytes), &value))
        return false;
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

/* A storage that is in no file: its bytes are held. */
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

/* What torch would write of torch.from_numpy(). */
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

/* What a device's tensors are made of has to stay numpy's. */
static bool has_device_arrays(const struct pickle *pickle)
{
    for (size_t i = 0; i < pickle->n_globals; i++)
        if (str_equal(pickle->globals[i].name, STR("_rebuild_device_tensor_from_numpy")))
            return true;
    return false;
}

void plain_part(struct graft *graft, size_t part, struct plain_stats *stats)
{
    struct torch_file *file = &graft->parts[part].file;
    cleanup_buf struct buf bytes = BUF_INIT;
    size_t n_nodes = file->pickle.n_nodes; /* without those that are added */
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

/* What torch.load refuses by default, and what of it should be plain. */
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

static int numpy_left(const struct graft *graft, const struct walk_frame *frame, const char *path,
                      struct err *err)
{
    bool is_merged = frame->graph == graft->n_parts;
    return fail(err, ERR_DATA,
                "'%s'%s%s is numpy's and has no plain form (a type of its own, another byte "
                "order, or objects): --rule drops it, or save it as numbers, texts or tensors",
                path, is_merged ? "" : " of ",
                is_merged ? "" : graft_file_name(graft, frame->graph));
}

int plain_check(struct graft *graft, pickle_id root)
{
    cleanup_buf struct buf path = BUF_INIT, first = BUF_INIT;
    const struct walk_frame *frame;
    struct graft_walk walk;
    uint64_t n_refused = 0;
    int rc = 0;
    walk_begin(&walk, graft, root);
    while (rc == 0 && (frame = walk_next(&walk)) != NULL) {
        const struct pickle *graph = graft_graph(graft, frame->graph);
        bool is_numpy = false;
        if (!is_refused(graph, pickle_node(graph, frame->id), &is_numpy))
            continue;
        walk_path(&walk, n_refused++ == 0 ? &first : &path);
        if (is_numpy)
            rc = numpy_left(graft, frame, buf_text(n_refused == 1 ? &first : &path), graft->err);
    }
    walk_end(&walk);
    if (rc == 0 && n_refused > 0)
        graft_note(graft, "torch.load refuses '%s'%s by default all the same: it is not numpy's",
                   buf_text(&first), n_refused > 1 ? " and others" : "");
    return rc;
}
