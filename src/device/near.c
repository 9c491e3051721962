/* SPDX-License-Identifier: Apache-2.0 */
#include "device/near.h"

#include "base/cleanup.h"
#include "base/xalloc.h"

enum {
    OTHER_NODE = 1u << 16
};

/* The matrix decides; among equals the NUMA node, then the gap between the positions. */
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
    size_t *left; /* positions not yet in a group, in the order wanted */
    size_t n_left;
};

/* Take the device with the least summed distance to the group so far; the first one if it is empty. */
static size_t take_nearest(struct work *work, const size_t *group, size_t n_group)
{
    size_t best = 0, best_sum = SIZE_MAX;
    ASSERT(work->n_left > 0);
    for (size_t c = 0; c < work->n_left; c++) {
        size_t sum = 0;
        for (size_t i = 0; i < n_group; i++)
            sum += distance(work->devices, work->left[c], group[i]);
        if (sum < best_sum) {
            best_sum = sum;
            best = c;
        }
    }
    size_t taken = work->left[best];
    work->n_left--;
    memmove(&work->left[best], &work->left[best + 1], (work->n_left - best) * sizeof(size_t));
    return taken;
}

static int by_position(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

size_t *near_groups(const struct device_list *devices, const size_t *chosen, size_t n_chosen,
                    size_t group)
{
    ASSERT(group > 0);
    size_t *out = xcalloc(n_chosen + 1, sizeof(size_t));
    cleanup_free size_t *left = xcalloc(n_chosen + 1, sizeof(size_t));
    struct work work = {devices, left, n_chosen};
    for (size_t i = 0; i < n_chosen; i++)
        left[i] = chosen[i];
    for (size_t begin = 0; begin < n_chosen; begin += group) {
        size_t size = MIN(group, n_chosen - begin);
        for (size_t i = 0; i < size; i++)
            out[begin + i] = take_nearest(&work, &out[begin], i);
        qsort(&out[begin], size, sizeof(size_t), by_position);
    }
    return out;
}
