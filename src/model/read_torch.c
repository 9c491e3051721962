/* SPDX-License-Identifier: Apache-2.0
 *
 * The state dict of a file of torch.save. The pickle is only read as data, and no storage is read.
 */
#include "base/xalloc.h"
#include "model/model_impl.h"
#include "tensor/torch/torch.h"
#include "tensor/torch/torch_value.h"

enum {
    DEPTH_MAX = 4
};

/* Types of torch and their names in safetensors, which the rest of the program knows. Other types keep their names. */
static const struct {
    const char *torch, *safetensors;
} dtypes[] = {
    {"float64", "F64"},
    {"float32", "F32"},
    {"float16", "F16"},
    {"bfloat16", "BF16"},
    {"int64", "I64"},
    {"int32", "I32"},
    {"int16", "I16"},
    {"int8", "I8"},
    {"uint8", "U8"},
    {"bool", "BOOL"},
    {"float8_e4m3fn", "F8_E4M3"},
    {"float8_e5m2", "F8_E5M2"},
};

struct walk {
    struct model *model;
    const struct model_file *in;
    const struct pickle *pickle;
    struct err *err;
};

static pickle_id argument(const struct pickle *pickle, const struct pickle_node *call,
                          uint32_t index)
{
    return pickle_item(pickle, pickle_node(pickle, call->call.args), index);
}

static struct str dtype_of(const struct pickle *pickle, const struct pickle_node *call,
                           const struct pickle_storage *storage)
{
    const struct pickle_node *dtype = pickle_node(pickle, argument(pickle, call, 6));
    struct str name = dtype->kind == PICKLE_GLOBAL ? pickle->globals[dtype->global].name
                                                   : str_of(storage_dtype(storage->type));
    for (size_t i = 0; i < countof(dtypes); i++)
        if (str_equal(name, str_of(dtypes[i].torch)))
            return str_of(dtypes[i].safetensors);
    return name;
}

static bool n_elements_take(const struct pickle *pickle, pickle_id id, uint64_t *out)
{
    const struct pickle_node *node = pickle_node(pickle, id);
    if (id && node->kind == PICKLE_CALL) /* torch.Size((2, 3)) */
        node = pickle_node(pickle, argument(pickle, node, 0));
    if (node->kind != PICKLE_TUPLE)
        return false;
    struct pickle_walk items = pickle_items(node);
    uint64_t size;
    *out = 1;
    for (uint32_t i = 0; i < node->count; i++)
        if (!pickle_to_u64(pickle, pickle_next(pickle, &items), &size) ||
            __builtin_mul_overflow(*out, size, out))
            return false;
    return true;
}

/* Tensors that begin at the same element of the same storage share it. Tied weights do so. */
static int tensor_take(const struct walk *walk, struct str name, const struct pickle_node *call)
{
    const struct pickle *pickle = walk->pickle;
    struct model_found found = {.name = name};
    struct pickle_view view;
    if (!pickle_view_take(pickle, call, &view) ||
        !n_elements_take(pickle, argument(pickle, call, 2), &found.n_elements) ||
        __builtin_mul_overflow(found.n_elements, view.element_bytes, &found.bytes))
        return fail(walk->err, ERR_DATA, "%s: '%.*s' is a tensor of a kind that no state dict has",
                    walk->in->path, (int)MIN(name.len, (size_t)80), name.at);
    found.dtype = dtype_of(pickle, call, &pickle->storages[view.storage]);
    found.bits = (unsigned)(8 * view.element_bytes);
    if (view.begin == 0 && found.n_elements > 0)
        found.shares = view.storage + 1;
    return model_tensor_add(walk->model, walk->in, &found, walk->err);
}

static pickle_id parameter_value(const struct pickle *pickle, pickle_id id)
{
    const struct pickle_node *node = pickle_node(pickle, id);
    const struct pickle_callable *known = call_known(pickle, node);
    return known && known->result == RESULT_PARAMETER ? argument(pickle, node, 0) : id;
}

/* Adds the tensors of a dictionary, without those of dictionaries in it. */
static int pairs_take(const struct walk *walk, const struct pickle_node *pairs)
{
    struct pickle_walk items = pickle_items(pairs);
    int rc = 0;
    for (pickle_id key; rc == 0 && (key = pickle_next(walk->pickle, &items)) != 0;) {
        pickle_id value = parameter_value(walk->pickle, pickle_next(walk->pickle, &items));
        const struct pickle_node *name = pickle_node(walk->pickle, key);
        if (name->kind == PICKLE_TEXT && is_tensor(walk->pickle, value))
            rc = tensor_take(walk, pickle_bytes(walk->pickle, name),
                             pickle_node(walk->pickle, value));
    }
    return rc;
}

/* Checkpoints keep the state dict under a key such as these. */
static const struct pickle_node *state_dict(const struct pickle *pickle)
{
    static const char *const keys[] = {"state_dict", "model_state_dict", "model", "module"};
    const struct pickle_node *pairs = dict_pairs(pickle, pickle->root);
    for (unsigned depth = 0; pairs && depth < DEPTH_MAX; depth++) {
        const struct pickle_node *inner = NULL;
        for (size_t i = 0; !inner && i < countof(keys); i++)
            inner = dict_pairs(pickle, pickle_get(pickle, pairs, str_of(keys[i])));
        if (!inner)
            break;
        pairs = inner;
    }
    return pairs;
}

int model_torch_read(struct model *model, const struct model_file *in, struct err *err)
{
    struct torch_file file = {0};
    size_t n_before = model->n_tensors;
    int rc = torch_read(&file, in->path, in->fd, in->bytes, err);
    const struct walk walk = {model, in, &file.pickle, err};
    const struct pickle_node *pairs = rc == 0 ? state_dict(&file.pickle) : NULL;
    if (pairs)
        rc = pairs_take(&walk, pairs);
    if (rc == 0 && model->n_tensors == n_before)
        rc = fail(err, ERR_DATA,
                  "%s: it holds no state dict, that is, no dictionary of tensors by "
                  "their names",
                  in->path);
    torch_release(&file);
    model->format = MODEL_TORCH;
    return rc;
}
