/* SPDX-License-Identifier: Apache-2.0
 *
 * The tensors of a torch file by name, wherever they are in the file: in dictionaries under any
 * key, and in pickled modules, whose parameters have the names that state_dict() would give them.
 * No code of the file is run.
 */
#include <math.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/xalloc.h"
#include "conve/tensors.h"
#include "tensor/torch/torch.h"
#include "tensor/torch/torch_value.h"

enum {
    DEPTH_MAX = 40
};

struct walk {
    struct tensor_file *file;
    const struct torch_file *torch;
    const struct pickle *pickle;
    bool *is_seen; /* by node: an object that is in the file twice counts only once */
    struct buf name;
    int rc; /* the error of the first fact that is invalid */
    struct err *err;
};

/* ---- one tensor ---- */

static pickle_id argument(const struct pickle *pickle, const struct pickle_node *call,
                          uint32_t index)
{
    return pickle_item(pickle, pickle_node(pickle, call->call.args), index);
}

static bool sizes_read(const struct pickle *pickle, pickle_id id, size_t out[CONVE_DIMS_MAX],
                       size_t *n)
{
    const struct pickle_node *node = pickle_node(pickle, id);
    if (id && node->kind == PICKLE_CALL) /* torch.Size((2, 3)) */
        node = pickle_node(pickle, argument(pickle, node, 0));
    if (node->kind != PICKLE_TUPLE || node->count > CONVE_DIMS_MAX)
        return false;
    struct pickle_walk items = pickle_items(node);
    for (*n = 0; *n < node->count; ++*n) {
        uint64_t size;
        if (!pickle_to_u64(pickle, pickle_next(pickle, &items), &size))
            return false;
        out[*n] = size;
    }
    return true;
}

/* Skips a tensor with more dimensions than any parameter has. */
static void tensor_take(struct walk *walk, const struct pickle_node *call)
{
    const struct pickle *pickle = walk->pickle;
    const struct pickle_node *storage_node = pickle_node(pickle, argument(pickle, call, 0));
    const struct pickle_node *dtype = pickle_node(pickle, argument(pickle, call, 6));
    struct named_tensor tensor = {0};
    uint64_t offset = 0;
    size_t n_strides;
    if (storage_node->kind != PICKLE_STORAGE ||
        !pickle_to_u64(pickle, argument(pickle, call, 1), &offset) ||
        !sizes_read(pickle, argument(pickle, call, 2), tensor.dims, &tensor.n_dims) ||
        !sizes_read(pickle, argument(pickle, call, 3), tensor.strides, &n_strides) ||
        n_strides != tensor.n_dims)
        return;
    const struct pickle_storage *storage = &pickle->storages[storage_node->storage];
    uint64_t bytes = storage->element_bytes;
    tensor.type = tensor_type_of(str_of(storage_dtype(storage->type)));
    if (dtype->kind == PICKLE_GLOBAL) {
        tensor.type = tensor_type_of(pickle->globals[dtype->global].name);
        bytes = dtype_bytes(pickle->globals[dtype->global].name);
    }
    tensor.at = walk->torch->storage_at[storage_node->storage] + offset * bytes;
    tensor.name = xstrdup(buf_text(&walk->name));
    tensor_file_add(walk->file, &tensor);
}

/* ---- the walk ---- */

static void visit(struct walk *walk, pickle_id id, unsigned depth);

/* Takes a value that says how the model is built. The first number with a key counts. */
static void fact_take(struct walk *walk, struct str key, const struct pickle_node *value)
{
    const struct {
        const char *key;
        size_t *to;
    } facts[] = {
        {"embedding_height", &walk->file->height}, {"embedding_width", &walk->file->width},
        {"image_height", &walk->file->height}, /* from shape_info in PyKEEN's models */
        {"image_width", &walk->file->width},       {"input_channels", &walk->file->input_channels},
    };
    for (size_t i = 0; i < countof(facts); i++)
        if (str_equal(key, str_of(facts[i].key)) && value->kind == PICKLE_INT &&
            value->integer > 0 && *facts[i].to == 0)
            *facts[i].to = (size_t)value->integer;
    if (value->kind == PICKLE_TEXT && walk->rc == 0)
        walk->rc = tensor_file_fact(walk->file, key, pickle_bytes(walk->pickle, value), walk->err);
}

/*
 * Takes an optimizer's learning rate, if all its groups have the same. The first optimizer counts.
 */
static void learning_rate_take(struct walk *walk, const struct pickle_node *groups)
{
    const struct pickle *pickle = walk->pickle;
    struct pickle_walk items = pickle_items(groups);
    double found = 0;
    for (pickle_id group; (group = pickle_next(pickle, &items)) != 0;) {
        const struct pickle_node *pairs = dict_pairs(pickle, group);
        const struct pickle_node *rate =
            pickle_node(pickle, pairs ? pickle_get(pickle, pairs, STR("lr")) : 0);
        if (rate->kind != PICKLE_FLOAT || !(rate->real > 0) || !isfinite(rate->real) ||
            (found > 0 && found != rate->real))
            return;
        found = rate->real;
    }
    if (walk->file->learning_rate == 0)
        walk->file->learning_rate = found;
}

/* True for the dictionaries that hold the parts of a module; tensor names leave them out. */
static bool is_module_part(struct str key)
{
    return str_equal(key, STR("_parameters")) || str_equal(key, STR("_buffers")) ||
           str_equal(key, STR("_modules"));
}

/* NOLINTBEGIN(misc-no-recursion): at most DEPTH_MAX deep */

static void pairs_visit(struct walk *walk, const struct pickle_node *pairs, bool is_module,
                        unsigned depth)
{
    const struct pickle *pickle = walk->pickle;
    struct pickle_walk items = pickle_items(pairs);
    for (pickle_id key; (key = pickle_next(pickle, &items)) != 0;) {
        pickle_id value = pickle_next(pickle, &items);
        const struct pickle_node *key_node = pickle_node(pickle, key);
        if (key_node->kind != PICKLE_TEXT)
            continue;
        struct str name = pickle_bytes(pickle, key_node);
        size_t len = walk->name.len;
        fact_take(walk, name, pickle_node(pickle, value));
        if (str_equal(name, STR("param_groups")) && pickle_node(pickle, value)->kind == PICKLE_LIST)
            learning_rate_take(walk, pickle_node(pickle, value));
        if (is_module && str_equal(name, STR("eps")) &&
            pickle_node(pickle, value)->kind == PICKLE_FLOAT)
            walk->file->bn_eps = pickle_node(pickle, value)->real;
        if (!is_module || !is_module_part(name)) {
            if (len)
                buf_add_char(&walk->name, '.');
            buf_add_str(&walk->name, name);
        }
        visit(walk, value, depth + 1);
        walk->name.len = len;
        if (len)
            walk->name.at[len] = '\0';
        else
            buf_reset(&walk->name);
    }
}

/*
 * Visits an object. Its state is a dictionary, or a tuple of a dictionary and the object's slots.
 */
static void object_visit(struct walk *walk, const struct pickle_node *call, unsigned depth)
{
    const struct pickle_later *later = pickle_later(walk->pickle, call);
    struct pickle_walk states = pickle_items(&later->states);
    for (pickle_id state; (state = pickle_next(walk->pickle, &states)) != 0;) {
        if (pickle_node(walk->pickle, state)->kind == PICKLE_TUPLE)
            state = pickle_item(walk->pickle, pickle_node(walk->pickle, state), 0);
        const struct pickle_node *pairs = dict_pairs(walk->pickle, state);
        if (pairs)
            pairs_visit(walk, pairs, pickle_get(walk->pickle, pairs, STR("_parameters")) != 0,
                        depth);
    }
}

static void visit(struct walk *walk, pickle_id id, unsigned depth)
{
    const struct pickle *pickle = walk->pickle;
    const struct pickle_node *node = pickle_node(pickle, id);
    if (id == 0 || depth > DEPTH_MAX)
        return;
    if (is_tensor(pickle, id)) {
        tensor_take(walk, node);
        return;
    }
    const struct pickle_callable *known = call_known(pickle, node);
    if (known && known->result == RESULT_PARAMETER) {
        visit(walk, argument(pickle, node, 0), depth + 1);
        return;
    }
    if (walk->is_seen[id])
        return;
    walk->is_seen[id] = true;
    const struct pickle_node *pairs = dict_pairs(pickle, id);
    if (pairs)
        pairs_visit(walk, pairs, false, depth);
    if (node->kind == PICKLE_CALL || node->kind == PICKLE_NEW)
        object_visit(walk, node, depth);
}

/* NOLINTEND(misc-no-recursion) */

int tensors_of_torch(struct tensor_file *file, struct err *err)
{
    struct torch_file torch = {0};
    struct walk walk = {.file = file, .torch = &torch, .pickle = &torch.pickle, .err = err};
    int rc = torch_read(&torch, file->path, file->fd, file->file_bytes, err);
    if (rc == 0 && torch.is_big_endian)
        rc = fail(err, ERR_DATA, "%s: its numbers are big-endian", file->path);
    if (rc == 0) {
        walk.is_seen = xcalloc(torch.pickle.n_nodes + 1, sizeof(*walk.is_seen));
        visit(&walk, torch.pickle.root, 0);
        rc = walk.rc;
    }
    free(walk.is_seen);
    buf_release(&walk.name);
    torch_release(&torch);
    return rc;
}
