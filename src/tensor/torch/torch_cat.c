/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors one behind the other along their first dimension: where they lie in row-major order their
 * bytes follow one another as they are.
 */
#include "base/xalloc.h"
#include "tensor/torch/torch_merge_impl.h"

enum {
    DIMS_MAX = 64
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

/* False for what is more than a view of a storage: quantized, with hooks, of a class of its own. */
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

/* Of dimensions of size 1 the stride does not matter. */
static bool is_row_major(const struct plain *tensor)
{
    uint64_t expected = 1;
    for (uint32_t i = tensor->n_dims; i > 0; i--) {
        if (tensor->sizes[i - 1] > 1 && tensor->strides[i - 1] != expected)
            return false;
        expected *= tensor->sizes[i - 1]; /* within the storage, or 0 */
    }
    return true;
}

static uint64_t element_count(const struct plain *tensor)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < tensor->n_dims; i++)
        n = tensor->sizes[i] == 0 ? 0 : n * tensor->sizes[i];
    return n;
}

/* What is wrong with putting `tensor` behind `first`, or NULL. */
static const char *fit(const struct plain *first, const struct plain *tensor)
{
    if (tensor->n_dims == 0)
        return "has no dimension to go along";
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
    if (element_count(tensor) > 0 && !is_row_major(tensor))
        return "is not in row-major order; save it with .contiguous()";
    return NULL;
}

void graft_segment(struct graft *graft, struct torch_segment segment)
{
    if (graft->n_segments == graft->cap_segments) {
        graft->cap_segments = MAX(graft->cap_segments * 2, (size_t)16);
        graft->segments = xrealloc(graft->segments, graft->cap_segments * sizeof(*graft->segments));
    }
    graft->segments[graft->n_segments++] = segment;
}

static void segment_push(struct graft *graft, size_t part, const struct plain *tensor)
{
    uint64_t element_bytes = tensor->storage->element_bytes;
    graft_segment(graft, (struct torch_segment){.part = (uint32_t)part,
                                                .storage = tensor->storage_index,
                                                .offset = tensor->offset * element_bytes,
                                                .bytes = element_count(tensor) * element_bytes});
}

uint32_t graft_storage(struct graft *graft, const struct pickle_storage *like, uint64_t n_elements)
{
    struct pickle *made = &graft->made;
    ASSERT(like);
    if (made->n_storages == made->cap_storages) {
        made->cap_storages = MAX(made->cap_storages * 2, (size_t)16);
        made->storages = xrealloc(made->storages, made->cap_storages * sizeof(*made->storages));
        graft->segment_ends =
            xrealloc(graft->segment_ends, made->cap_storages * sizeof(*graft->segment_ends));
    }
    struct pickle_storage storage = *like;
    storage.n_elements = n_elements;
    made->storages[made->n_storages] = storage;
    graft->segment_ends[made->n_storages] = graft->n_segments;
    return (uint32_t)made->n_storages++;
}

static pickle_id number(struct graft *graft, uint64_t value)
{
    return pickle_add(&graft->made,
                      (struct pickle_node){.kind = PICKLE_INT, .integer = (int64_t)value});
}

static pickle_id shape_node(struct graft *graft, const uint64_t *numbers, uint32_t n_numbers)
{
    pickle_id ids[DIMS_MAX];
    for (uint32_t i = 0; i < n_numbers; i++)
        ids[i] = number(graft, numbers[i]);
    return graft_tuple(graft, ids, n_numbers);
}

static pickle_id tensor_node(struct graft *graft, value_ids ids, const struct plain *first,
                             uint64_t n_rows)
{
    struct plain whole = *first;
    const struct pickle_node *call = graft_node(graft, 0, ids);
    whole.sizes[0] = n_rows;
    uint64_t step = 1;
    for (uint32_t i = whole.n_dims; i > 0; i--) {
        whole.strides[i - 1] = step;
        step *= MAX(whole.sizes[i - 1], (uint64_t)1);
    }
    uint32_t storage = graft_storage(graft, first->storage, element_count(&whole));
    pickle_id hooks =
        pickle_item(graft_graph(graft, 0), pickle_node(graft_graph(graft, 0), call->call.args), 5);
    const pickle_id args[] = {
        pickle_add(&graft->made, (struct pickle_node){.kind = PICKLE_STORAGE, .storage = storage}),
        number(graft, 0),
        shape_node(graft, whole.sizes, whole.n_dims),
        shape_node(graft, whole.strides, whole.n_dims),
        pickle_add(&graft->made,
                   (struct pickle_node){.kind = PICKLE_BOOL, .truth = first->requires_grad}),
        graft_of(graft, 0, hooks),
    };
    return graft_call_like(graft, call, graft_tuple(graft, args, countof(args)));
}

int graft_cat0(struct graft *graft, value_ids ids, pickle_id *out)
{
    struct plain first = {0}, tensor;
    uint64_t n_rows = 0;
    for (size_t i = 0; i < graft->n_parts; i++) {
        if (!plain_take(graft_graph(graft, i), ids[i], &tensor))
            return graft_fail(graft, "is no plain tensor in %s", graft_file_name(graft, i));
        if (i == 0)
            first = tensor;
        const char *wrong = fit(&first, &tensor);
        if (wrong)
            return graft_fail(graft, "in %s %s", graft_file_name(graft, i), wrong);
        if (__builtin_add_overflow(n_rows, tensor.sizes[0], &n_rows) || n_rows > INT64_MAX)
            return graft_fail(graft, "would be too long");
        segment_push(graft, i, &tensor);
    }
    tally_add(graft, &graft->tensors, n_rows);
    *out = tensor_node(graft, ids, &first, n_rows);
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

int graft_rows(struct graft *graft, pickle_id id, uint64_t first, uint64_t n_rows, pickle_id *out)
{
    struct plain tensor;
    if (!plain_take(graft_graph(graft, 0), id, &tensor))
        return graft_fail(graft, "is no plain tensor");
    const char *wrong = fit(&tensor, &tensor);
    if (wrong)
        return graft_fail(graft, "%s", wrong);
    struct plain rows = tensor;
    uint64_t row_elements = tensor.sizes[0] > 0 ? element_count(&tensor) / tensor.sizes[0] : 0;
    rows.sizes[0] = n_rows;
    rows.offset += first * row_elements;
    segment_push(graft, 0, &rows);
    *out = tensor_node(graft, &id, &tensor, n_rows);
    return 0;
}
