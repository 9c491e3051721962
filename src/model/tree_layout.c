/* SPDX-License-Identifier: Apache-2.0
 *
 * Applies a layout to a tree of modules: order, blocks, ties, buffers.
 */
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/xalloc.h"
#include "model/buffers.h"
#include "model/tree_impl.h"

/* A module of the layout, and the state of the search for it in the tree. */
struct pattern {
    struct tree_maker *maker;
    struct layout_module of;
    uint32_t rank;
    uint32_t class_number;  /* of the modules found; 0: none yet */
    uint32_t of_digits[10]; /* the class number of each digit */
};

/* ---- ties ---- */

/* 1: config.json ties the input and output embeddings; 0: it does not; -1: it does not tell. */
static int tie_wanted(const struct model *model)
{
    struct str config = buf_str(&model->config_text), value;
    bool is_tied;
    return json_get(config, "tie_word_embeddings", &value) && json_to_bool(value, &is_tied)
               ? is_tied
               : -1;
}

/* Ties the weight of a node to another weight, if config.json asks for it, or if no file has the weight. */
static int weight_tie(struct tree_maker *maker, uint32_t node, struct str tied_to)
{
    cleanup_buf struct buf name = BUF_INIT, target = BUF_INIT;
    uint32_t leader, own;
    buf_add_str(&target, tied_to);
    buf_add_text(&target, ".weight");
    buf_add_str(&name, tree_node_name(maker, node));
    buf_add_text(&name, ".weight");
    if (!tree_tensor_find(maker, buf_str(&target), &leader))
        return 0;
    bool has_own = tree_tensor_find(maker, buf_str(&name), &own);
    if (has_own && tie_wanted(maker->model) != 1)
        return 0;
    if (!has_own) {
        int rc = tree_tensor_add(maker, buf_str(&name),
                                 &(struct tree_tensor){.bytes = maker->tensors[leader].bytes});
        if (rc || !tree_tensor_find(maker, buf_str(&name), &own))
            return rc;
    }
    if (maker->tensors[leader].tied == 0)
        maker->tensors[leader].tied = ++maker->n_ties;
    maker->tensors[own].tied = maker->tensors[leader].tied;
    maker->tensors[own].bytes = maker->tensors[leader].bytes;
    return 0;
}

/* ---- buffers ---- */

static int buffers_add(struct tree_maker *maker, uint32_t node, struct str spec)
{
    struct model_buffer buffers[MODEL_BUFFERS_MAX];
    size_t n = model_buffers_make(spec, buf_str(&maker->model->config_text), buffers);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        const struct model_buffer *buffer = &buffers[i];
        uint32_t type_bytes = maker->tree->type_bytes, other;
        uint32_t bytes =
            buffer->is_float && type_bytes > 0 ? MIN(type_bytes, 4u) : buffer->element_bytes;
        cleanup_buf struct buf name = BUF_INIT;
        buf_add_str(&name, tree_node_name(maker, node));
        buf_addf(&name, ".%s", buffer->name);
        if (tree_tensor_find(maker, buf_str(&name), &other))
            maker->tensors[other].is_buffer = true;
        else
            rc = tree_tensor_add(maker, buf_str(&name),
                                 &(struct tree_tensor){.bytes = buffer->n_elements * bytes,
                                                       .is_buffer = true,
                                                       .is_bool = buffer->is_bool});
    }
    return rc;
}

/* ---- the paths of a layout ---- */

static int module_reached(struct pattern *pattern, uint32_t node)
{
    struct tree_node *at = &pattern->maker->nodes[node];
    uint32_t *shared = &pattern->of_digits[pattern->of.class_digit];
    if (pattern->class_number == 0)
        pattern->class_number = pattern->of.class_digit > 0 && *shared > 0 ? *shared : node;
    *shared = pattern->class_number;
    at->is_whole = pattern->of.is_whole;
    at->has_cache = pattern->of.has_cache;
    if (at->is_whole)
        at->class_number = pattern->class_number;
    int rc = 0;
    if (pattern->of.tied_to.len > 0)
        rc = weight_tie(pattern->maker, node, pattern->of.tied_to);
    if (rc == 0 && pattern->of.buffers.len > 0)
        rc = buffers_add(pattern->maker, node, pattern->of.buffers);
    return rc;
}

/* NOLINTBEGIN(misc-no-recursion): as deep as a path of the layout has words */

static int path_follow(struct pattern *pattern, uint32_t node, struct str rest);

static int numbers_follow(struct pattern *pattern, uint32_t node, struct str rest)
{
    int rc = 0;
    uint32_t child = pattern->maker->nodes[node].first_child;
    for (; rc == 0 && child > 0; child = pattern->maker->nodes[child].next)
        if (pattern->maker->nodes[child].number != NUMBER_NONE)
            rc = path_follow(pattern, child, rest);
    return rc;
}

/*
 * True if a module without tensors exists in the class: the layout gives it buffers or a tied weight, or marks it
 * with "-".
 */
static bool is_made(const struct pattern *pattern)
{
    uint32_t leader;
    cleanup_buf struct buf target = BUF_INIT;
    buf_add_str(&target, pattern->of.tied_to);
    buf_add_text(&target, ".weight");
    return pattern->of.is_always || pattern->of.buffers.len > 0 ||
           tree_tensor_find(pattern->maker, buf_str(&target), &leader);
}

static int path_follow(struct pattern *pattern, uint32_t node, struct str rest)
{
    struct tree_maker *maker = pattern->maker;
    struct str word;
    maker->nodes[node].rank = MIN(maker->nodes[node].rank, pattern->rank);
    if (!str_next(&rest, '.', &word))
        return module_reached(pattern, node);
    if (str_equal(word, STR("*")))
        return numbers_follow(pattern, node, rest);
    cleanup_buf struct buf name = BUF_INIT;
    buf_add_str(&name, tree_node_name(maker, node));
    if (name.len > 0)
        buf_add_char(&name, '.');
    buf_add_str(&name, word);
    size_t found = name_index_find(&maker->tree->module_names, buf_str(&name));
    uint32_t below = (uint32_t)found;
    if (found == NAME_NONE && !is_made(pattern))
        return 0;
    int rc = found == NAME_NONE ? tree_node_make(maker, buf_str(&name), &below) : 0;
    return rc ? rc : path_follow(pattern, below, rest);
}

/* NOLINTEND(misc-no-recursion) */

int tree_layout_apply(struct tree_maker *maker, struct str layout)
{
    struct err wrong = {0};
    struct pattern pattern = {.maker = maker};
    int rc = 0;
    for (; rc == 0 && layout_next(&layout, &pattern.of, &wrong); pattern.rank++) {
        pattern.class_number = 0;
        rc = path_follow(&pattern, 0, pattern.of.path);
    }
    return wrong.code ? fail(maker->err, wrong.code, "%s", wrong.text) : rc;
}

/* ---- without a layout ---- */

/* Words in module names from which the place of the module is guessed. */
static const struct {
    const char *word;
    uint32_t rank;
} guesses[] = {
    {"emb", 0},  {"wte", 0},    {"wpe", 0},   {"shared", 0},     {"norm", 3},      {"ln_f", 3},
    {"head", 4}, {"output", 4}, {"score", 4}, {"classifier", 4}, {"embed_out", 4},
};

static uint32_t rank_guess(struct str name)
{
    const char *dot = memrchr(name.at, '.', name.len);
    struct str word = dot ? (struct str){dot + 1, name.len - (size_t)(dot + 1 - name.at)} : name;
    uint32_t rank = 1; /* for all modules between */
    for (size_t i = 0; i < countof(guesses); i++)
        if (memmem(word.at, word.len, guesses[i].word, strlen(guesses[i].word)))
            rank = guesses[i].rank;
    return rank;
}

static bool is_in_number(const struct tree_maker *maker, uint32_t node)
{
    for (uint32_t at = maker->nodes[node].parent; at > 0; at = maker->nodes[at].parent)
        if (maker->nodes[at].number != NUMBER_NONE)
            return true;
    return false;
}

/* If there are as many numbered modules as config.json has layers, each of these modules keeps a cache. */
void tree_layout_guess(struct tree_maker *maker)
{
    cleanup_free uint64_t *n_numbered = xcalloc(maker->n_nodes, sizeof(*n_numbered));
    for (uint32_t i = 1; i < maker->n_nodes; i++)
        n_numbered[maker->nodes[i].parent] += maker->nodes[i].number != NUMBER_NONE;
    for (uint32_t i = 1; i < maker->n_nodes; i++) {
        struct tree_node *node = &maker->nodes[i];
        bool is_outermost = !is_in_number(maker, i);
        if (node->number == NUMBER_NONE && is_outermost)
            node->rank = rank_guess(tree_node_name(maker, i));
        if (node->number == NUMBER_NONE || !is_outermost)
            continue;
        node->is_whole = true;
        node->class_number = node->parent;
        node->has_cache = n_numbered[node->parent] == maker->model->config.n_layers;
    }
}
