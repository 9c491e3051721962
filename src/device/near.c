/* SPDX-License-Identifier: Apache-2.0 */
#include "device/near.h"

#include "base/cleanup.h"
#include "base/xalloc.h"

enum {
    OTHER_NODE = 1u << 16
};

/*
 * The matrix decides. Among equal distances the NUMA node decides, then the gap between the
 * positions.
 */
static size_t distance(const struct device_list *devices, size_t a, size_t b)
{
    const struct device *x = &devices->at[a], *y = &devices->at[b];
    size_t hops = devices->distance ? devices->distance[a * devices->len + b] : 0;
    size_t gap = a > b ? a - b : b - a;
    return hops * (size_t)(4 * OTHER_NODE) + (x->numa_node != y->numa_node ? OTHER_NODE : 0) +
           MIN(gap, (size_t)OTHER_NODE - 1);
}

struct work {
    const struct device_list *devices;
    size_t *left; /* positions that are not in a group yet, in the wanted order */
    size_t n_left;
};

static void take_out(struct work *work, size_t position)
{
    work->n_left--;
    memmove(&work->left[position], &work->left[position + 1],
            (work->n_left - position) * sizeof(size_t));
}

/*
 * Takes the device of the group's kind that has the least summed distance to the devices in the
 * group.
 */
static size_t take_nearest(struct work *work, const size_t *group, size_t n_group)
{
    size_t best = SIZE_MAX, best_sum = SIZE_MAX;
    const struct device *at = work->devices->at;
    for (size_t c = 0; c < work->n_left; c++) {
        size_t sum = 0;
        if (at[work->left[c]].kind != at[group[0]].kind)
            continue;
        for (size_t i = 0; i < n_group; i++)
            sum += distance(work->devices, work->left[c], group[i]);
        if (sum < best_sum) {
            best_sum = sum;
            best = c;
        }
    }
    ASSERT(best < work->n_left);
    size_t taken = work->left[best];
    take_out(work, best);
    return taken;
}

/*
 * The first remaining device whose kind has enough devices left for a group; n_left if there is
 * none.
 */
static size_t group_begin(const struct work *work, size_t group)
{
    const struct device *at = work->devices->at;
    for (size_t first = 0; first < work->n_left; first++) {
        size_t n_alike = 0;
        for (size_t i = first; i < work->n_left; i++)
            n_alike += at[work->left[i]].kind == at[work->left[first]].kind;
        if (n_alike >= group)
            return first;
    }
    return work->n_left;
}

static int by_position(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

size_t *near_groups(const struct device_list *devices, const size_t *chosen, size_t n_chosen,
                    size_t group, size_t *n_grouped)
{
    ASSERT(group > 0);
    size_t *out = xcalloc(n_chosen + 1, sizeof(size_t));
    cleanup_free size_t *left = xcalloc(n_chosen + 1, sizeof(size_t));
    struct work work = {devices, left, n_chosen};
    size_t n_out = 0, first;
    for (size_t i = 0; i < n_chosen; i++)
        left[i] = chosen[i];
    while ((first = group_begin(&work, group)) < work.n_left) {
        out[n_out] = left[first];
        take_out(&work, first);
        for (size_t i = 1; i < group; i++)
            out[n_out + i] = take_nearest(&work, &out[n_out], i);
        qsort(&out[n_out], group, sizeof(size_t), by_position);
        n_out += group;
    }
    memcpy(&out[n_out], left, work.n_left * sizeof(size_t));
    qsort(&out[n_out], work.n_left, sizeof(size_t), by_position);
    *n_grouped = n_out;
    return out;
}
