/* SPDX-License-Identifier: Apache-2.0
 *
 * Concatenates tensors along their first dimension. The bytes of row-major tensors are copied as
 * they are; the elements of other tensors are gathered. Tensors that are the same view of one
 * storage in every file share a storage in the output too.
 */
#include "base/xalloc.h"
#include "tensor/torch/torch_merge_impl.h"

enum {
    DIMS_MAX = 64,
    REPEATED_BYTES_MAX = INT32_MAX /* most bytes of a tensor that is larger than its storage */
};

/* A plain tensor: _rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks). */
struct plain {
    const struct pickle_storage *storage;
    uint32_t storage_index;
    uint64_t offset, sizes[DIMS_MAX], strides[DIMS_MAX];
    uint32_t n_dims;
    bool requires_grad;
};

static bool numbers_take(const struct pickle *pickle, pickle_id id, uint64_t *numbers,
                         uint32_t *n_numbers)
{
    const struct pickle_node *node = pickle_node(pickle, id);
    if (node->kind == PICKLE_CALL) /* torch.Size((2, 3)) */
        node = pickle_node(pickle, pickle_item(pickle, pickle_node(pickle, node->call.args), 0));
    if (node->kind != PICKLE_TUPLE || node->count > DIMS_MAX)
        return false;
    struct pickle_walk walk = pickle_items(node);
    *n_numbers = node->count;
    for (uint32_t i = 0; i < node->count; i++)
        if (!pickle_to_u64(pickle, pickle_next(pickle, &walk), &numbers[i]))
            return false;
    return true;
}

/*
 * False for a tensor that is more than a view of a storage: a quantized one, one with hooks, or one
 * of a subclass.
 */
static bool plain_take(const struct pickle *pickle, pickle_id id, struct plain *out)
{
    const struct pickle_node *node = pickle_node(pickle, id);
    const struct pickle_callable *known = call_known(pickle, node);
    uint32_t n_strides;
    if (!known || strcmp(known->name, "_rebuild_tensor_v2") != 0)
        return false;
    const struct pickle_node *args = pickle_node(pickle, node->call.args);
    const struct pickle_node *storage = pickle_node(pickle, pickle_item(pickle, args, 0));
    const struct pickle_node *grad = pickle_node(pickle, pickle_item(pickle, args, 4));
    const struct pickle_node *pairs = dict_pairs(pickle, pickle_item(pickle, args, 5));
    out->storage_index = storage->storage;
    out->storage = &pickle->storages[storage->storage];
    out->requires_grad = grad->kind == PICKLE_BOOL && grad->truth;
    return args->count == 6 && pairs && pairs->count == 0 && node->count == 0 &&
           pickle_to_u64(pickle, pickle_item(pickle, args, 1), &out->offset) &&
           numbers_take(pickle, pickle_item(pickle, args, 2), out->sizes, &out->n_dims) &&
           numbers_take(pickle, pickle_item(pickle, args, 3), out->strides, &n_strides);
}

const char *unplain_why(const struct pickle *pickle, pickle_id id)
{
    static const char parameter[] = "is a Parameter: save its .detach(), as state_dict() does";
    static const char sparse[] = "is a sparse tensor: save its to_dense()";
    static const struct {
        const char *name, *why;
    } kinds[] = {
        {"_rebuild_parameter", parameter},
        {"_rebuild_parameter_with_state", parameter},
        {"_rebuild_sparse_tensor", sparse},
        {"_rebuild_sparse_csr_tensor", sparse},
        {"_rebuild_qtensor", "is a quantized tensor: save its dequantize() or its int_repr()"},
        {"_rebuild_tensor_v2", "is a tensor that is conjugated or negated by a flag, or has hooks: "
                               "save its .detach().resolve_conj().resolve_neg()"},
        {"_rebuild_tensor_v3", "is a tensor of a type that has no storages of its own: save its "
                               ".view() as a type of that size, such as int16 or int8"},
        {"_rebuild_from_type_v2", "is a tensor of a class of its own, or with attributes: save its "
                                  ".detach().as_subclass(torch.Tensor)"},
        {"_rebuild_meta_tensor_no_storage", "is a meta tensor, which has no elements"},
    };
    const struct pickle_callable *known = call_known(pickle, pickle_node(pickle, id));
    struct plain plain;
    if (known && plain_take(pickle, id, &plain))
        return NULL;
    for (size_t i = 0; known && i < countof(kinds); i++)
        if (strcmp(known->name, kinds[i].name) == 0)
            return kinds[i].why;
    return NULL;
}

/* The stride of a dimension of size 1 does not matter. */
static bool is_row_major(const struct plain *tensor)
{
    uint64_t expected = 1;
    for (uint32_t i = tensor->n_dims; i > 0; i--) {
        if (tensor->sizes[i - 1] > 1 && tensor->strides[i - 1] != expected)
            return false;
        expected *= tensor->sizes[i - 1];
    }
    return true;
}

/*
 * The number of elements; UINT64_MAX if the number does not fit, which is possible if the tensor
 * repeats its elements.
 */
static uint64_t element_count(const struct plain *tensor)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < tensor->n_dims; i++)
        if (tensor->sizes[i] == 0)
            return 0;
    for (uint32_t i = 0; i < tensor->n_dims; i++)
        if (__builtin_mul_overflow(n, tensor->sizes[i], &n))
            return UINT64_MAX;
    return n;
}

/* Does the tensor repeat a few bytes so often that its elements could fill a disk, by accident or
 * on purpose? */
static bool is_repeated_too_often(const struct plain *tensor)
{
    uint64_t n = element_count(tensor);
    return n > tensor->storage->n_elements &&
           n > REPEATED_BYTES_MAX / tensor->storage->element_bytes;
}

/* Why `tensor` cannot be appended to `first`; NULL if it can be. */
static const char *fit(const struct plain *first, const struct plain *tensor)
{
    if (tensor->n_dims == 0)
        return "is a single number, with no dimension to go along: collect makes a list of them";
    if (!str_equal(tensor->storage->type, first->storage->type))
        return "has elements of another type";
    if (tensor->n_dims != first->n_dims ||
        memcmp(tensor->sizes + 1, first->sizes + 1,
               (first->n_dims - 1) * sizeof(first->sizes[0])) != 0)
        return "has another shape behind its first dimension";
    if (!str_equal(tensor->storage->location, first->storage->location))
        return "is on another device; load and save it with map_location='cpu'";
    if (tensor->requires_grad != first->requires_grad)
        return "differs in requires_grad";
    if (is_repeated_too_often(tensor))
        return "repeats the elements of its storage (expand) over more than 2 GiB";
    return NULL;
}

void torch_merge_segment(struct merge_state *merge, struct torch_segment segment)
{
    if (merge->n_segments == merge->cap_segments) {
        merge->cap_segments = MAX(merge->cap_segments * 2, (size_t)16);
        merge->segments = xrealloc(merge->segments, merge->cap_segments * sizeof(*merge->segments));
    }
    merge->segments[merge->n_segments++] = segment;
}

static void segment_push(struct merge_state *merge, size_t part, const struct plain *tensor)
{
    uint64_t element_bytes = tensor->storage->element_bytes, n = element_count(tensor);
    bool is_plain = n == 0 || is_row_major(tensor);
    torch_merge_segment(
        merge,
        (struct torch_segment){.part = (uint32_t)part,
                               .storage = tensor->storage_index,
                               .offset = tensor->offset * element_bytes,
                               .bytes = n * element_bytes,
                               .view = is_plain ? NULL
                                                : torch_view_new(tensor->sizes, tensor->strides,
                                                                 tensor->n_dims, element_bytes)});
}

uint32_t torch_merge_storage(struct merge_state *merge, const struct pickle_storage *like,
                             uint64_t n_elements)
{
    struct pickle *made = &merge->made;
    ASSERT(like);
    if (made->n_storages == made->cap_storages) {
        made->cap_storages = MAX(made->cap_storages * 2, (size_t)16);
        made->storages = xrealloc(made->storages, made->cap_storages * sizeof(*made->storages));
        merge->segment_ends =
            xrealloc(merge->segment_ends, made->cap_storages * sizeof(*merge->segment_ends));
    }
    struct pickle_storage storage = *like;
    storage.n_elements = n_elements;
    made->storages[made->n_storages] = storage;
    merge->segment_ends[made->n_storages] = merge->n_segments;
    return (uint32_t)made->n_storages++;
}

/* ---- tensors that are one in every file ---- */

static uint64_t mix(uint64_t hash, uint64_t value)
{
    return ((hash ^ value) * 0x9e3779b97f4a7c15) ^ (hash >> 29);
}

static uint64_t segments_hash(const struct torch_segment *segments, size_t n_segments)
{
    uint64_t hash = 1;
    for (size_t i = 0; i < n_segments; i++) {
        hash = mix(mix(hash, segments[i].storage), segments[i].offset);
        hash = mix(hash, segments[i].bytes);
    }
    return hash;
}

static size_t segments_begin(const struct merge_state *merge, uint32_t storage)
{
    return storage > 0 ? merge->segment_ends[storage - 1] : 0;
}

static bool segments_equal(const struct torch_segment *a, const struct torch_segment *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (a[i].part != b[i].part || a[i].storage != b[i].storage || a[i].offset != b[i].offset ||
            a[i].bytes != b[i].bytes || !torch_views_equal(a[i].view, b[i].view))
            return false;
    return true;
}

/*
 * The slot of the storage with these segments, which has the storage's number + 1, or the free slot
 * where it belongs.
 */
static uint32_t *tie_find(const struct merge_state *merge, const struct torch_segment *segments)
{
    size_t mask = merge->cap_ties - 1;
    size_t i = (size_t)segments_hash(segments, merge->n_parts) & mask;
    for (; merge->ties[i] != 0; i = (i + 1) & mask) {
        uint32_t storage = merge->ties[i] - 1;
        if (segments_equal(merge->segments + segments_begin(merge, storage), segments,
                           merge->n_parts))
            break;
    }
    return &merge->ties[i];
}

static void ties_grow(struct merge_state *merge)
{
    uint32_t *old = merge->ties;
    size_t n_old = merge->cap_ties;
    if (merge->n_ties * 2 < merge->cap_ties)
        return;
    merge->cap_ties = MAX(n_old * 2, (size_t)64);
    merge->ties = xcalloc(merge->cap_ties, sizeof(*merge->ties));
    for (size_t i = 0; i < n_old; i++)
        if (old[i] != 0)
            *tie_find(merge, merge->segments + segments_begin(merge, old[i] - 1)) = old[i];
    free(old);
}

/* The storage of the segments that were pushed last: an existing one with the same segments, or a
 * new one. */
static uint32_t storage_tied(struct merge_state *merge, const struct pickle_storage *like,
                             uint64_t n_elements)
{
    size_t begin = merge->n_segments - merge->n_parts;
    ties_grow(merge);
    uint32_t *tie = tie_find(merge, merge->segments + begin);
    if (*tie == 0) {
        uint32_t storage = torch_merge_storage(merge, like, n_elements);
        *tie = storage + 1;
        merge->n_ties++;
        return storage;
    }
    while (merge->n_segments > begin)
        free(merge->segments[--merge->n_segments].view);
    return *tie - 1;
}

/* ---- the tensor ---- */

static pickle_id number(struct merge_state *merge, uint64_t value)
{
    return pickle_add(&merge->made,
                      (struct pickle_node){.kind = PICKLE_INT, .integer = (int64_t)value});
}

static pickle_id shape_node(struct merge_state *merge, const uint64_t *numbers, uint32_t n_numbers)
{
    pickle_id ids[DIMS_MAX];
    for (uint32_t i = 0; i < n_numbers; i++)
        ids[i] = number(merge, numbers[i]);
    return torch_merge_tuple(merge, ids, n_numbers);
}

static pickle_id tensor_node(struct merge_state *merge, value_ids ids, const struct plain *first,
                             uint64_t n_rows)
{
    struct plain whole = *first;
    const struct pickle_node *call = torch_merge_node(merge, 0, ids);
    whole.sizes[0] = n_rows;
    uint64_t step = 1;
    for (uint32_t i = whole.n_dims; i > 0; i--) {
        whole.strides[i - 1] = step;
        step *= MAX(whole.sizes[i - 1], (uint64_t)1);
    }
    uint32_t storage = storage_tied(merge, first->storage, element_count(&whole));
    pickle_id hooks = pickle_item(torch_merge_graph(merge, 0),
                                  pickle_node(torch_merge_graph(merge, 0), call->call.args), 5);
    const pickle_id args[] = {
        pickle_add(&merge->made, (struct pickle_node){.kind = PICKLE_STORAGE, .storage = storage}),
        number(merge, 0),
        shape_node(merge, whole.sizes, whole.n_dims),
        shape_node(merge, whole.strides, whole.n_dims),
        pickle_add(&merge->made,
                   (struct pickle_node){.kind = PICKLE_BOOL, .truth = first->requires_grad}),
        torch_merge_node_of(merge, 0, hooks),
    };
    return torch_merge_call_like(merge, call, torch_merge_tuple(merge, args, countof(args)));
}

int torch_merge_cat0(struct merge_state *merge, value_ids ids, pickle_id *out)
{
    struct plain first = {0}, tensor;
    uint64_t n_rows = 0;
    for (size_t i = 0; i < merge->n_parts; i++) {
        if (!plain_take(torch_merge_graph(merge, i), ids[i], &tensor)) {
            const char *why = unplain_why(torch_merge_graph(merge, i), ids[i]);
            return torch_merge_fail(merge, "in %s %s", torch_merge_file_name(merge, i),
                                    why ? why : "is no tensor");
        }
        if (i == 0)
            first = tensor;
        const char *wrong = fit(&first, &tensor);
        if (wrong)
            return torch_merge_fail(merge, "in %s %s", torch_merge_file_name(merge, i), wrong);
        if (__builtin_add_overflow(n_rows, tensor.sizes[0], &n_rows) || n_rows > INT64_MAX)
            return torch_merge_fail(merge, "would have more rows than there are numbers for");
        segment_push(merge, i, &tensor);
    }
    tally_add(merge, &merge->tensors, n_rows);
    *out = tensor_node(merge, ids, &first, n_rows);
    return 0;
}

bool tensor_n_rows(const struct pickle *pickle, pickle_id id, uint64_t *n_rows)
{
    struct plain tensor;
    if (!is_tensor(pickle, id) || !plain_take(pickle, id, &tensor) || tensor.n_dims == 0)
        return false;
    *n_rows = tensor.sizes[0];
    return true;
}

int torch_merge_rows(struct merge_state *merge, pickle_id id, uint64_t first, uint64_t n_rows,
                     pickle_id *out)
{
    struct plain tensor;
    if (!plain_take(torch_merge_graph(merge, 0), id, &tensor))
        return torch_merge_fail(merge, "is no plain tensor"); /* a split cuts only plain tensors */
    const char *wrong = fit(&tensor, &tensor);
    if (wrong)
        return torch_merge_fail(merge, "%s", wrong);
    struct plain rows = tensor;
    rows.sizes[0] = n_rows;
    if (element_count(&rows) > 0)
        rows.offset += first * tensor.strides[0];
    segment_push(merge, 0, &rows);
    *out = tensor_node(merge, &id, &tensor, n_rows);
    return 0;
}
