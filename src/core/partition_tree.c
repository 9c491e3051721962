/* SPDX-License-Identifier: Apache-2.0
 *
 * The tree of a model: the ranges of its modules, sums of sizes, and the groups of tensors that
 * share memory.
 */
#include <string.h>

#include "core/partition_impl.h"

static bool arrays_new(struct partition_tree *tree)
{
    size_t n_modules = tree->n_modules, n_tensors = tree->n_tensors;
    tree->module_ends = malloc(n_modules * sizeof(uint32_t));
    tree->first_tensor = malloc((n_modules + 1) * sizeof(uint32_t));
    tree->bytes_before = malloc((n_tensors + 1) * sizeof(uint64_t));
    tree->eighths_before = malloc((n_tensors + 1) * sizeof(uint64_t));
    tree->same_before = malloc((n_tensors + 1) * sizeof(uint32_t));
    tree->tied = malloc((n_tensors + 1) * sizeof(uint32_t));
    tree->members = malloc((n_tensors + 1) * sizeof(uint32_t));
    tree->first_member = calloc(n_tensors + 2, sizeof(uint32_t));
    return tree->module_ends && tree->first_tensor && tree->bytes_before && tree->eighths_before &&
           tree->same_before && tree->tied && tree->members && tree->first_member;
}

void partition_tree_release(struct partition_tree *tree)
{
    void *const all[] = {tree->module_ends,    tree->first_tensor, tree->bytes_before,
                         tree->eighths_before, tree->same_before,  tree->tied,
                         tree->members,        tree->first_member};
    for (size_t i = 0; i < countof(all); i++)
        free(all[i]);
    *tree = (struct partition_tree){0};
}

static void modules_read(struct partition_tree *tree)
{
    const struct partition_module *modules = tree->model.modules;
    for (uint32_t m = 0; m < tree->n_modules; m++) {
        ASSERT(m == 0 ? modules[m].parent == 0 : modules[m].parent < m);
        ASSERT(modules[m].class_number < tree->n_modules);
        for (uint32_t above = m - 1; m > 0 && above != modules[m].parent;
             above = modules[above].parent)
            ASSERT(above > 0); /* else the order is not depth-first */
        tree->module_ends[m] = m + 1;
    }
    for (uint32_t m = tree->n_modules; --m > 0;) {
        uint32_t *end = &tree->module_ends[modules[m].parent];
        *end = MAX(*end, tree->module_ends[m]);
    }
}

static void tensors_read(struct partition_tree *tree)
{
    uint32_t t = 0;
    for (uint32_t m = 0; m <= tree->n_modules; m++) {
        while (t < tree->n_tensors && tree->model.tensors[t].module < m)
            t++;
        tree->first_tensor[m] = t;
    }
    ASSERT(t == tree->n_tensors);
    for (t = 1; t < tree->n_tensors; t++)
        ASSERT(tree->model.tensors[t - 1].module <= tree->model.tensors[t].module);
}

/*
 * Links each tensor to the one before it that shares its memory. `last` is scratch: [n_tensors +
 * 1].
 */
static void sames_find(struct partition_tree *tree, uint32_t *last)
{
    memset(last, 0xff, (tree->n_tensors + 1ul) * sizeof(*last));
    for (uint32_t t = 0; t < tree->n_tensors; t++) {
        uint32_t group = tree->model.tensors[t].tied;
        ASSERT(group <= tree->n_tensors);
        tree->same_before[t] = group > 0 ? last[group] : NODE_NONE;
        last[group] = t;
    }
}

/* A tensor that shares the memory of an earlier one adds nothing. False: the sum is too large. */
static bool sizes_add(struct partition_tree *tree)
{
    uint64_t bytes = 0, eighths = 0, kv_bytes = 0;
    for (uint32_t t = 0; t < tree->n_tensors; t++) {
        const struct partition_tensor *tensor = &tree->model.tensors[t];
        tree->bytes_before[t] = bytes;
        tree->eighths_before[t] = eighths;
        if (tree->same_before[t] != NODE_NONE)
            continue;
        if (tensor->bytes > PARTITION_BYTES_MAX - bytes)
            return false;
        bytes += tensor->bytes;
        eighths += tensor->is_bool ? tensor->bytes : EIGHTHS * tensor->bytes;
    }
    for (uint32_t m = 0; m < tree->n_modules; m++) {
        if (tree->model.modules[m].kv_bytes > PARTITION_BYTES_MAX - bytes - kv_bytes)
            return false;
        kv_bytes += tree->model.modules[m].kv_bytes;
    }
    tree->bytes_before[tree->n_tensors] = bytes;
    tree->eighths_before[tree->n_tensors] = eighths;
    return true;
}

static bool name_is_less(const struct partition_tree *tree, uint32_t a, uint32_t b)
{
    return str_compare(tree->model.tensors[a].name, tree->model.tensors[b].name) < 0;
}

/* Lets members[i] sink in a heap of n whose largest name is at the front. */
static void member_sink(const struct partition_tree *tree, uint32_t *members, size_t i, size_t n)
{
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && name_is_less(tree, members[child], members[child + 1]))
            child++;
        if (!name_is_less(tree, members[i], members[child]))
            return;
        uint32_t larger = members[child];
        members[child] = members[i];
        members[i] = larger;
    }
}

static void members_sort(const struct partition_tree *tree, uint32_t *members, size_t n)
{
    for (size_t i = n / 2; i-- > 0;)
        member_sink(tree, members, i, n);
    for (size_t end = n; end > 1;) {
        uint32_t largest = members[0];
        members[0] = members[--end];
        members[end] = largest;
        member_sink(tree, members, 0, end);
    }
}

/* Groups of one are none. `n_of` is scratch: [n_tensors + 1]. */
static void groups_read(struct partition_tree *tree, uint32_t *n_of)
{
    const struct partition_tensor *tensors = tree->model.tensors;
    memset(n_of, 0, (tree->n_tensors + 1ul) * sizeof(*n_of));
    for (uint32_t t = 0; t < tree->n_tensors; t++)
        n_of[tensors[t].tied] += tensors[t].tied > 0 && !tensors[t].is_buffer;
    uint32_t n = 0;
    for (uint32_t g = 0; g <= tree->n_tensors; g++) {
        tree->first_member[g] = n;
        n += n_of[g] > 1 ? n_of[g] : 0;
    }
    tree->first_member[tree->n_tensors + 1] = tree->n_tied = n;
    uint32_t n_found = 0;
    for (uint32_t t = 0; t < tree->n_tensors; t++) {
        uint32_t group = tensors[t].tied;
        if (tensors[t].is_buffer || partition_group(tree, group).end == tree->first_member[group])
            continue;
        tree->tied[n_found++] = t;
        tree->members[tree->first_member[group + 1] - n_of[group]--] = t;
    }
    for (uint32_t g = 1; g <= tree->n_tensors; g++) {
        struct node_range group = partition_group(tree, g);
        members_sort(tree, tree->members + group.first, group.end - group.first);
    }
}

bool partition_tree_init(struct partition_tree *tree, const struct partition_model *model,
                         bool *is_too_large)
{
    ASSERT(model->n_modules > 0 && model->n_modules < UINT32_MAX / 4 &&
           model->n_tensors < UINT32_MAX / 4);
    *tree = (struct partition_tree){
        .model = *model,
        .n_modules = (uint32_t)model->n_modules,
        .n_tensors = (uint32_t)model->n_tensors,
    };
    uint32_t *scratch = malloc((model->n_tensors + 1) * sizeof(*scratch));
    bool is_ok = arrays_new(tree) && scratch;
    if (is_ok) {
        modules_read(tree);
        tensors_read(tree);
        sames_find(tree, scratch);
        groups_read(tree, scratch);
        *is_too_large = !sizes_add(tree);
    }
    free(scratch);
    return is_ok;
}
