/* SPDX-License-Identifier: Apache-2.0
 *
 * The objects that torch puts into a pickle: storages by persistent id, and tensors as views of
 * them. The sizes are those that the pickle states; tensor/torch/torch.h checks them against the
 * storages in the file.
 */
#include "base/parse.h"
#include "base/xalloc.h"
#include "tensor/pickle/pickle_impl.h"

static bool text_get(const struct pickle *pickle, pickle_id id, struct str *out)
{
    const struct pickle_node *node = pickle_node(pickle, id);
    if (id == 0 || node->kind != PICKLE_TEXT)
        return false;
    *out = pickle_bytes(pickle, node);
    return true;
}

static const char *storage_parse(const struct pickle *pickle, const struct pickle_node *tuple,
                                 struct pickle_storage *out)
{
    struct str word;
    pickle_id type = pickle_item(pickle, tuple, 1);
    if (!text_get(pickle, pickle_item(pickle, tuple, 0), &word) || !str_equal(word, STR("storage")))
        return "a persistent id that is no storage";
    if (type == 0 || pickle_node(pickle, type)->kind != PICKLE_GLOBAL)
        return "a storage without a type";
    out->module = pickle->globals[pickle_node(pickle, type)->global].module;
    out->type = pickle->globals[pickle_node(pickle, type)->global].name;
    out->element_bytes = storage_element_bytes(out->type);
    if (out->element_bytes == 0)
        return "a storage of an unknown type";
    if (!text_get(pickle, pickle_item(pickle, tuple, 2), &out->key) ||
        u64_parse(out->key, 0, UINT64_MAX, &out->number, NULL) != 0)
        return "a storage whose key is no number";
    if (!text_get(pickle, pickle_item(pickle, tuple, 3), &out->location))
        return "a storage without a location";
    if (!pickle_to_u64(pickle, pickle_item(pickle, tuple, 4), &out->n_elements) ||
        out->n_elements > INT64_MAX / out->element_bytes)
        return "a storage whose number of elements is none";
    if (tuple->count == 6 &&
        pickle_node(pickle, pickle_item(pickle, tuple, 5))->kind != PICKLE_NONE)
        return "a storage that is a view of another, as torch wrote long ago";
    return NULL;
}

/*
 * The slot of the storage with this number: its index plus one, or 0 where it would go. torch
 * numbers storages from 0; older versions used addresses.
 */
static uint32_t *slot_find(struct pickle_vm *vm, uint64_t number)
{
    size_t mask = vm->cap_slots - 1;
    size_t i = number <= mask ? (size_t)number : (size_t)(number * 0x9e3779b97f4a7c15 >> 20) & mask;
    while (vm->slots[i] != 0 && vm->pickle->storages[vm->slots[i] - 1].number != number)
        i = (i + 1) & mask;
    return &vm->slots[i];
}

static void slots_grow(struct pickle_vm *vm)
{
    const struct pickle *pickle = vm->pickle;
    if (pickle->n_storages * 2 < vm->cap_slots)
        return;
    free(vm->slots);
    vm->cap_slots = MAX(vm->cap_slots * 2, (size_t)64);
    vm->slots = xcalloc(vm->cap_slots, sizeof(*vm->slots));
    for (size_t i = 0; i < pickle->n_storages; i++)
        *slot_find(vm, pickle->storages[i].number) = (uint32_t)(i + 1);
}

static int storage_index(struct pickle_vm *vm, const struct pickle_storage *storage,
                         uint32_t *index)
{
    struct pickle *pickle = vm->pickle;
    slots_grow(vm);
    uint32_t *slot = slot_find(vm, storage->number);
    if (*slot != 0) {
        const struct pickle_storage *other = &pickle->storages[*slot - 1];
        *index = *slot - 1;
        bool is_same = str_equal(other->key, storage->key) &&
                       str_equal(other->type, storage->type) &&
                       other->n_elements == storage->n_elements;
        return is_same ? 0 : vm_fail(vm, "a storage has two types or sizes");
    }
    if (pickle->n_storages == pickle->cap_storages) {
        pickle->cap_storages = MAX(pickle->cap_storages * 2, (size_t)16);
        pickle->storages =
            xrealloc(pickle->storages, pickle->cap_storages * sizeof(*pickle->storages));
    }
    *index = (uint32_t)pickle->n_storages;
    pickle->storages[pickle->n_storages++] = *storage;
    *slot = (uint32_t)pickle->n_storages;
    return 0;
}

pickle_id vm_storage(struct pickle_vm *vm, pickle_id tuple)
{
    struct pickle_storage storage = {0};
    const struct pickle_node *node = pickle_node(vm->pickle, tuple);
    uint32_t n_parts = vm->opts->is_legacy ? 6 : 5, index;
    if (node->kind != PICKLE_TUPLE || node->count != n_parts) {
        vm_fail(vm, "a persistent id that is no storage");
        return 0;
    }
    const char *wrong = storage_parse(vm->pickle, node, &storage);
    if (wrong) {
        vm_fail(vm, wrong);
        return 0;
    }
    if (storage_index(vm, &storage, &index) != 0)
        return 0;
    return vm_node(vm, (struct pickle_node){.kind = PICKLE_STORAGE, .storage = index});
}

/* ---- views ---- */

static const struct pickle_node *tuple_of(const struct pickle *pickle, pickle_id id)
{
    const struct pickle_node *node = pickle_node(pickle, id);
    if (id == 0 || (node->kind != PICKLE_TUPLE && node->kind != PICKLE_CALL))
        return NULL;
    if (node->kind == PICKLE_CALL) /* torch.Size((2, 3)) */
        node = pickle_node(pickle, pickle_item(pickle, pickle_node(pickle, node->call.args), 0));
    return node->kind == PICKLE_TUPLE ? node : NULL;
}

/* Index of the last element that the view reaches, plus one; 0 for an empty view. False if it does
 * not fit into 64 bits. */
static bool view_end(const struct pickle *pickle, const struct pickle_node *sizes,
                     const struct pickle_node *strides, uint64_t offset, uint64_t *end)
{
    struct pickle_walk size_walk = pickle_items(sizes), stride_walk = pickle_items(strides);
    uint64_t last = offset, size, stride, step;
    bool is_empty = false;
    for (uint32_t i = 0; i < sizes->count; i++) {
        if (!pickle_to_u64(pickle, pickle_next(pickle, &size_walk), &size) ||
            !pickle_to_u64(pickle, pickle_next(pickle, &stride_walk), &stride))
            return false;
        is_empty = is_empty || size == 0;
        if (size > 1 && (__builtin_mul_overflow(size - 1, stride, &step) ||
                         __builtin_add_overflow(last, step, &last)))
            return false;
    }
    *end = is_empty ? 0 : last + 1;
    return is_empty || last < UINT64_MAX;
}

static const char *view_check(const struct pickle *pickle, const struct pickle_node *args,
                              uint64_t element_bytes)
{
    const struct pickle_node *storage = pickle_node(pickle, pickle_item(pickle, args, 0));
    const struct pickle_node *sizes = tuple_of(pickle, pickle_item(pickle, args, 2));
    const struct pickle_node *strides = tuple_of(pickle, pickle_item(pickle, args, 3));
    uint64_t offset, end;
    if (storage->kind != PICKLE_STORAGE)
        return "a tensor without a storage";
    if (!pickle_to_u64(pickle, pickle_item(pickle, args, 1), &offset) || !sizes || !strides)
        return "a tensor without a shape";
    if (sizes->count != strides->count)
        return "a tensor whose sizes and strides differ in number";
    const struct pickle_storage *in = &pickle->storages[storage->storage];
    uint64_t n_elements = in->n_elements * in->element_bytes / element_bytes;
    if (!view_end(pickle, sizes, strides, offset, &end) || end > n_elements)
        return "a tensor that is not within its storage";
    return NULL;
}

/* _rebuild_tensor_v3 names the type of the elements itself, because its storage is untyped. */
static uint64_t element_bytes_of(const struct pickle *pickle,
                                 const struct pickle_callable *callable,
                                 const struct pickle_node *args)
{
    const struct pickle_node *storage = pickle_node(pickle, pickle_item(pickle, args, 0));
    if (strcmp(callable->name, "_rebuild_tensor_v3") == 0) {
        const struct pickle_node *dtype = pickle_node(pickle, pickle_item(pickle, args, 6));
        return dtype->kind == PICKLE_GLOBAL ? dtype_bytes(pickle->globals[dtype->global].name) : 0;
    }
    return storage->kind == PICKLE_STORAGE ? pickle->storages[storage->storage].element_bytes : 1;
}

bool pickle_view_take(const struct pickle *pickle, const struct pickle_node *node,
                      struct pickle_view *out)
{
    if (node->kind != PICKLE_CALL)
        return false;
    const struct pickle_callable *known =
        pickle->globals[pickle_node(pickle, node->call.callee)->global].known;
    const struct pickle_node *args = pickle_node(pickle, node->call.args);
    const struct pickle_node *storage = pickle_node(pickle, pickle_item(pickle, args, 0));
    const struct pickle_node *sizes = tuple_of(pickle, pickle_item(pickle, args, 2));
    const struct pickle_node *strides = tuple_of(pickle, pickle_item(pickle, args, 3));
    if (!known || known->result != RESULT_TENSOR || storage->kind != PICKLE_STORAGE || !sizes ||
        !strides || !pickle_to_u64(pickle, pickle_item(pickle, args, 1), &out->begin) ||
        !view_end(pickle, sizes, strides, out->begin, &out->end))
        return false;
    out->storage = storage->storage;
    out->element_bytes = element_bytes_of(pickle, known, args);
    if (out->end == 0)
        out->end = out->begin;
    return true;
}

int vm_tensor_check(struct pickle_vm *vm, const struct pickle_callable *callable, pickle_id args)
{
    if (!callable || callable->result != RESULT_TENSOR)
        return 0;
    const struct pickle *pickle = vm->pickle;
    const struct pickle_node *tuple = pickle_node(pickle, args);
    if (tuple->kind != PICKLE_TUPLE || tuple->count < 4)
        return vm_fail(vm, "a tensor without a shape");
    uint64_t element_bytes = element_bytes_of(pickle, callable, tuple);
    if (element_bytes == 0)
        return vm_fail(vm, "a tensor of an unknown type");
    const char *wrong = view_check(pickle, tuple, element_bytes);
    return wrong ? vm_fail(vm, wrong) : 0;
}
