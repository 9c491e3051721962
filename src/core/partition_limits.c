/* SPDX-License-Identifier: Apache-2.0
 *
 * How much Accelerate's methods put on each device (get_balanced_memory of accelerate 1.15). To
 * balance a model, each GPU but the last gets an equal part of it and a quarter more than the
 * largest of its blocks, or than a mean layer; the last one keeps all of its memory, so that
 * nothing is left over.
 */
#include <string.h>

#include "core/partition_impl.h"

/* Limits above this are all the same: more than any model has. */
#define LIMIT_BYTES_MAX (2 * PARTITION_BYTES_MAX)

/*
 * The modules of Accelerate's table of sizes. A module whose tensors all share the memory of earlier ones is not in
 * it.
 */
struct size_table {
    const struct partition_tree *tree;
    bool *is_there;  /* [n_modules] */
    bool *has_below; /* [n_modules] a module right below it is there */
    /* [n_modules] the tensor by which the first module of a class came into the table */
    uint32_t *class_from;
    uint64_t block_eighths; /* the largest of those first modules */
};

/*
 * Enters the modules around a tensor. Of each class of whole modules the first one counts, which
 * is the outermost if several come with the same tensor.
 */
static void table_enter(struct size_table *table, uint32_t tensor, uint64_t *class_eighths)
{
    const struct partition_module *modules = table->tree->model.modules;
    for (uint32_t m = table->tree->model.tensors[tensor].module; !table->is_there[m];
         m = modules[m].parent) {
        table->is_there[m] = true;
        if (m == 0)
            return;
        table->has_below[modules[m].parent] = true;
        uint32_t *from = &table->class_from[modules[m].class_number];
        if (modules[m].is_whole && (*from == NODE_NONE || *from == tensor)) {
            *from = tensor;
            class_eighths[modules[m].class_number] = node_eighths(table->tree, m);
        }
    }
}

/* Parameters come before buffers. */
static void table_fill(struct size_table *table, uint64_t *class_eighths)
{
    const struct partition_tree *tree = table->tree;
    memset(table->class_from, 0xff, tree->n_modules * sizeof(*table->class_from));
    for (int is_buffer = 0; is_buffer < 2; is_buffer++)
        for (uint32_t t = 0; t < tree->n_tensors; t++)
            if (tree->model.tensors[t].is_buffer == is_buffer && tree->same_before[t] == NODE_NONE)
                table_enter(table, t, class_eighths);
    for (uint32_t c = 0; c < tree->n_modules; c++)
        table->block_eighths = MAX(table->block_eighths, class_eighths[c]);
}

/* The bytes that each GPU gets beyond its part of the model. Accelerate computes them in doubles. */
static double spare_bytes(const struct size_table *table)
{
    const struct partition_tree *tree = table->tree;
    double sum_bytes = 0, n_leaves = 0;
    for (uint32_t m = 1; m < tree->n_modules; m++) {
        if (table->is_there[m] && !table->has_below[m]) {
            sum_bytes += (double)node_eighths(tree, m) / EIGHTHS;
            n_leaves++;
        }
    }
    double mean_bytes = (double)(uint64_t)(sum_bytes / MAX(n_leaves, 1.0));
    return (double)(uint64_t)(1.25 * MAX((double)table->block_eighths / EIGHTHS, mean_bytes));
}

static bool spare_find(const struct partition_tree *tree, int64_t *spare_eighths)
{
    size_t n = tree->n_modules;
    struct size_table table = {
        .tree = tree,
        .is_there = calloc(n, sizeof(bool)),
        .has_below = calloc(n, sizeof(bool)),
        .class_from = malloc(n * sizeof(uint32_t)),
    };
    uint64_t *class_eighths = calloc(n, sizeof(*class_eighths));
    bool is_ok = table.is_there && table.has_below && table.class_from && class_eighths;
    if (is_ok) {
        table_fill(&table, class_eighths);
        *spare_eighths = (int64_t)(spare_bytes(&table) * EIGHTHS);
    }
    free(table.is_there);
    free(table.has_below);
    free(table.class_from);
    free(class_eighths);
    return is_ok;
}

/* How many devices are GPUs: they come first. */
uint32_t partition_gpus(const struct partition_wish *wish)
{
    uint32_t n = 0;
    while (n < wish->n_devices && wish->devices[n].kind == PARTITION_GPU)
        n++;
    return n;
}

/* The first of n_used GPUs with memory gets what the others leave, if that is less than it has. */
static void limits_low_0(int64_t *limits, uint32_t n_used, int64_t model_eighths)
{
    int64_t others = 0;
    for (uint32_t i = 1; i < n_used; i++)
        others = MIN(others + limits[i], model_eighths);
    limits[0] = MIN(limits[0], model_eighths - others);
}

static bool limits_balance(const struct partition_tree *tree, const struct partition_wish *wish,
                           int64_t *limits)
{
    uint32_t n_gpus = partition_gpus(wish), n_used = 0, last = 0;
    for (uint32_t i = 0; i < n_gpus; i++) {
        if (limits[i] > 0) {
            n_used++;
            last = i;
        }
    }
    if (n_used == 0)
        return true;
    int64_t whole = limits[0] / EIGHTHS;
    if (n_used == 1 && wish->sets_no_limits)
        limits[0] = (int64_t)((double)whole * 0.9 * EIGHTHS);
    int64_t spare_eighths;
    if (!spare_find(tree, &spare_eighths))
        return false;
    int64_t model_eighths = (int64_t)node_eighths(tree, 0);
    bool is_low_0 = wish->method == PARTITION_BALANCED_LOW_0 && n_used > 1;
    int64_t share = model_eighths / EIGHTHS / (n_used - is_low_0) * EIGHTHS + spare_eighths;
    for (uint32_t i = is_low_0; i < last; i++)
        limits[i] = MIN(limits[i], share);
    if (is_low_0)
        limits_low_0(limits, n_used, model_eighths);
    return true;
}

bool partition_limits(const struct partition_tree *tree, const struct partition_wish *wish,
                      int64_t *limits)
{
    for (uint32_t i = 0; i < wish->n_devices; i++)
        limits[i] = EIGHTHS * (int64_t)MIN(wish->devices[i].mem_bytes, LIMIT_BYTES_MAX);
    return wish->method == PARTITION_SEQUENTIAL || limits_balance(tree, wish, limits);
}
