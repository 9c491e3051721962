/* SPDX-License-Identifier: Apache-2.0 */
#include "model/tree.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "model/tree_impl.h"
#include "tensor/grow.h"

/* ---- nodes ---- */

struct str tree_node_name(const struct tree_maker *maker, uint32_t node)
{
    return name_index_get(&maker->tree->module_names, node);
}

/* Adds a copy of `name`, which may point into the index's own text: that text moves when a name is added. */
static size_t name_add(struct name_index *index, struct str name)
{
    cleanup_buf struct buf copy = BUF_INIT;
    buf_add_str(&copy, name);
    return name_index_add(index, buf_str(&copy));
}

static uint64_t number_of(struct str name)
{
    const char *dot = memrchr(name.at, '.', name.len);
    struct str word = dot ? (struct str){dot + 1, name.len - (size_t)(dot + 1 - name.at)} : name;
    uint64_t number;
    return u64_parse(word, 0, UINT64_MAX - 1, &number, NULL) == 0 ? number : NUMBER_NONE;
}

static uint32_t child_add(struct tree_maker *maker, uint32_t parent, struct str name)
{
    uint32_t made = (uint32_t)name_add(&maker->tree->module_names, name);
    PUSH(maker->nodes, maker->n_nodes, maker->cap_nodes,
         (struct tree_node){
             .parent = parent, .rank = RANK_NONE, .class_number = made, .number = number_of(name)});
    struct tree_node *above = &maker->nodes[parent];
    if (made == 0)
        return 0;
    if (above->last_child > 0)
        maker->nodes[above->last_child].next = made;
    else
        above->first_child = made;
    above->last_child = made;
    return made;
}

int tree_node_make(struct tree_maker *maker, struct str name, uint32_t *out)
{
    size_t found = name_index_find(&maker->tree->module_names, name);
    uint32_t parent = 0;
    unsigned depth = 0;
    for (size_t i = 0; found == NAME_NONE && i <= name.len; i++) {
        if (i < name.len && name.at[i] != '.')
            continue;
        struct str above = {name.at, i};
        if (++depth > MODEL_DEPTH_MAX || maker->n_nodes == MODEL_MODULES_MAX)
            return fail(maker->err, ERR_DATA,
                        "'%.*s' is in more modules, or has more beside it, "
                        "than a model has",
                        (int)MIN(name.len, (size_t)80), name.at);
        size_t one = name_index_find(&maker->tree->module_names, above);
        parent = one != NAME_NONE ? (uint32_t)one : child_add(maker, parent, above);
    }
    *out = found != NAME_NONE ? (uint32_t)found : parent;
    return 0;
}

/* ---- tensors ---- */

bool tree_tensor_find(const struct tree_maker *maker, struct str name, uint32_t *out)
{
    size_t found = name_index_find(&maker->tree->tensor_names, name);
    *out = (uint32_t)found;
    return found != NAME_NONE;
}

int tree_tensor_add(struct tree_maker *maker, struct str name, const struct tree_tensor *tensor)
{
    const char *dot = memrchr(name.at, '.', name.len);
    struct tree_tensor made = *tensor;
    uint32_t other;
    if (tree_tensor_find(maker, name, &other))
        return fail(maker->err, ERR_DATA, "two tensors of the model are '%.*s'",
                    (int)MIN(name.len, (size_t)80), name.at);
    int rc = tree_node_make(maker, (struct str){name.at, dot ? (size_t)(dot - name.at) : 0},
                            &made.module);
    if (rc)
        return rc;
    uint32_t number = (uint32_t)name_add(&maker->tree->tensor_names, name);
    struct tree_node *node = &maker->nodes[made.module];
    PUSH(maker->tensors, maker->n_tensors, maker->cap_tensors, made);
    if (node->last_tensor > 0)
        maker->tensors[node->last_tensor - 1].next = number + 1;
    else
        node->first_tensor = number + 1;
    node->last_tensor = number + 1;
    return 0;
}

/* ---- names as the class has them ---- */

/* True for buffers that old files have and that the classes do not load. */
static bool is_dropped(struct str name)
{
    static const char *const endings[] = {".attn.bias", ".attn.masked_bias", ".attention.bias",
                                          ".attention.masked_bias", ".rotary_emb.inv_freq"};
    for (size_t i = 0; i < countof(endings); i++)
        if (str_ends_with(name, str_of(endings[i])))
            return true;
    return false;
}

/* True if the name is that of a buffer. Buffers come after their modules. */
static bool is_buffer(struct str name)
{
    static const char *const endings[] = {"final_logits_bias", "e_score_correction_bias",
                                          "running_mean", "running_var", "num_batches_tracked"};
    for (size_t i = 0; i < countof(endings); i++)
        if (str_ends_with(name, str_of(endings[i])))
            return true;
    return false;
}

/* Adds the name that the class has for it: "lm_head.weight" for "embed_out.weight" with "embed_out.=lm_head." */
static void renamed_add(const char *renames, struct str name, struct buf *out)
{
    struct str rest = str_of(renames), word;
    while (renames && str_next(&rest, ' ', &word)) {
        const char *equals = memchr(word.at, '=', word.len);
        struct str old = {word.at, (size_t)(equals - word.at)};
        if (!str_starts_with(name, old))
            continue;
        buf_add(out, equals + 1, word.len - old.len - 1);
        buf_add(out, name.at + old.len, name.len - old.len);
        return;
    }
    buf_add_str(out, name);
}

static bool begins_with_module(struct str name, const char *module)
{
    size_t len = module ? strlen(module) : 0;
    return len > 0 && name.len > len && memcmp(name.at, module, len) == 0 && name.at[len] == '.';
}

/* True if the names lack the prefix, as in a model that was saved without its head. */
static bool lacks_prefix(const struct model *model, const struct architecture *of)
{
    if (!of || !of->prefix)
        return false;
    for (size_t i = 0; i < model->n_tensors; i++) {
        cleanup_buf struct buf name = BUF_INIT;
        renamed_add(of->renames, name_index_get(&model->names, i), &name);
        if (begins_with_module(buf_str(&name), of->prefix))
            return false;
    }
    return model->n_tensors > 0;
}

/* True if the name lies in a module of the layout. A name without the prefix is then in a head. */
static bool is_head(const struct architecture *of, struct str name)
{
    struct str rest = str_of(of->layout);
    struct layout_module module;
    while (layout_next(&rest, &module, NULL)) {
        bool is_part = name.len > module.path.len && str_starts_with(name, module.path) &&
                       name.at[module.path.len] == '.';
        if (is_part)
            return true;
    }
    return false;
}

static uint64_t loaded_bytes(const struct tree_maker *maker, const struct model_tensor *tensor)
{
    const struct model_part *part = &maker->model->parts[tensor->part];
    uint64_t bytes = tensor->bytes;
    if (maker->tree->type_bytes > 0 && model_part_is_float(part) &&
        __builtin_mul_overflow(tensor->n_elements, (uint64_t)maker->tree->type_bytes, &bytes))
        return UINT64_MAX;
    return bytes;
}

static int tensors_take(struct tree_maker *maker, const struct architecture *of)
{
    const struct model *model = maker->model;
    bool gets_prefix = lacks_prefix(model, of);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < model->n_tensors; i++) {
        cleanup_buf struct buf plain = BUF_INIT, name = BUF_INIT;
        renamed_add(of ? of->renames : NULL, name_index_get(&model->names, i), &plain);
        if (of && is_dropped(buf_str(&plain)))
            continue;
        if (of && gets_prefix && !is_head(of, buf_str(&plain)))
            buf_addf(&name, "%s.", of->prefix);
        buf_add_str(&name, buf_str(&plain));
        const struct tree_tensor tensor = {
            .bytes = loaded_bytes(maker, &model->tensors[i]),
            .is_buffer = is_buffer(buf_str(&name)),
            .is_bool = strcmp(model->parts[model->tensors[i].part].dtype, "BOOL") == 0};
        rc = tree_tensor_add(maker, buf_str(&name), &tensor);
    }
    return rc;
}

/*
 * Ties tensors that share their bytes in a file. The classes of the table tie and untie by config.json; for other
 * models only the file tells it.
 */
static void shares_take(struct tree_maker *maker)
{
    uint32_t n = 0;
    for (size_t i = 0; i < maker->model->n_tensors; i++)
        n = MAX(n, maker->model->tensors[i].shares);
    cleanup_free uint32_t *first = xcalloc((size_t)n + 1, sizeof(*first)); /* index + 1 */
    for (uint32_t i = 0; n > 0 && i < maker->model->n_tensors; i++) {
        uint32_t shares = maker->model->tensors[i].shares;
        if (shares == 0)
            continue;
        if (first[shares] == 0) {
            first[shares] = i + 1;
            continue;
        }
        struct tree_tensor *leader = &maker->tensors[first[shares] - 1];
        if (leader->tied == 0)
            leader->tied = ++maker->n_ties;
        maker->tensors[i].tied = leader->tied;
    }
}

/* ---- the whole ---- */

static int sizes_check(const struct tree_maker *maker)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < maker->n_tensors; i++)
        if (__builtin_add_overflow(sum, maker->tensors[i].bytes, &sum) || sum > PARTITION_BYTES_MAX)
            return fail(maker->err, ERR_DATA, "the model has more bytes than any machine");
    return 0;
}

static int tree_fill(struct tree_maker *maker)
{
    struct model_tree *tree = maker->tree;
    const struct model *model = maker->model;
    const struct architecture *of = model->format == MODEL_GGUF
                                        ? architecture_gguf()
                                        : architecture_find(str_of(model->config.class_name));
    struct str layout = maker->wish->layout;
    if (layout.len == 0 && of)
        layout = str_of(of->layout);
    tree->architecture = of;
    tree->is_guessed = layout.len == 0;
    child_add(maker, 0, STR(""));
    int rc = tensors_take(maker, of);
    if (rc == 0 && !of)
        shares_take(maker);
    if (rc == 0 && !tree->is_guessed)
        rc = tree_layout_apply(maker, layout);
    if (rc == 0 && tree->is_guessed)
        tree_layout_guess(maker);
    if (rc == 0)
        rc = sizes_check(maker);
    if (rc == 0)
        tree_emit(maker);
    return rc;
}

int model_tree_make(const struct model *model, const struct model_tree_wish *wish,
                    struct model_tree *out, struct err *err)
{
    struct tree_maker maker = {.model = model, .wish = wish, .tree = out, .err = err};
    *out = (struct model_tree){.type_bytes = wish->type_bytes > 0 ? wish->type_bytes
                                                                  : model->config.type_bytes};
    int rc = tree_fill(&maker);
    free(maker.nodes);
    free(maker.tensors);
    free(maker.layer_tokens);
    return rc;
}

void model_tree_release(struct model_tree *tree)
{
    free(steal_ptr(&tree->modules));
    free(steal_ptr(&tree->tensors));
    name_index_release(&tree->module_names);
    name_index_release(&tree->tensor_names);
}
