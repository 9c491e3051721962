/* SPDX-License-Identifier: Apache-2.0
 *
 * Values in ranges that are closed and opened, as a binary tree. A node counts how often it was closed as a whole, so
 * that closing and opening take as many steps as the tree is high.
 */
#include "core/partition_impl.h"

bool cover_init(struct cover *cover, const uint64_t *values, uint32_t n)
{
    *cover = (struct cover){.n_leaves = 1};
    while (cover->n_leaves < n)
        cover->n_leaves *= 2;
    cover->n_closed = calloc(2ul * cover->n_leaves, sizeof(*cover->n_closed));
    cover->values = calloc(2ul * cover->n_leaves, sizeof(*cover->values));
    if (!cover->n_closed || !cover->values)
        return false;
    for (uint32_t i = 0; i < n; i++)
        cover->values[cover->n_leaves + i] = values[i];
    for (uint32_t i = cover->n_leaves; --i > 0;)
        cover->values[i] = MAX(cover->values[2ul * i], cover->values[2ul * i + 1]);
    return true;
}

void cover_release(struct cover *cover)
{
    free(cover->n_closed);
    free(cover->values);
    *cover = (struct cover){0};
}

static uint64_t open_max(const struct cover *cover, uint32_t i)
{
    return cover->n_closed[i] > 0 ? 0 : cover->values[i];
}

static void ancestors_update(struct cover *cover, uint32_t i)
{
    for (i /= 2; i > 0; i /= 2)
        cover->values[i] = MAX(open_max(cover, 2 * i), open_max(cover, 2 * i + 1));
}

/* Adds to n_closed of the nodes that make up the range. */
static void range_add(struct cover *cover, struct node_range range, int32_t more)
{
    if (range.first >= range.end)
        return;
    uint32_t first = range.first + cover->n_leaves, end = range.end + cover->n_leaves;
    for (uint32_t a = first, b = end; a < b; a /= 2, b /= 2) {
        if (a & 1)
            cover->n_closed[a++] += (uint32_t)more;
        if (b & 1)
            cover->n_closed[--b] += (uint32_t)more;
    }
    ancestors_update(cover, first);
    ancestors_update(cover, end - 1);
}

void cover_close(struct cover *cover, struct node_range range)
{
    range_add(cover, range, 1);
}

void cover_open(struct cover *cover, struct node_range range)
{
    range_add(cover, range, -1);
}

uint64_t cover_max(const struct cover *cover)
{
    return open_max(cover, 1);
}

uint64_t cover_max_in(const struct cover *cover, struct node_range range)
{
    uint64_t max = 0;
    for (uint32_t i = range.first; i < range.end; i++) {
        uint32_t above = i + cover->n_leaves;
        while (above > 0 && cover->n_closed[above] == 0)
            above /= 2;
        if (above == 0)
            max = MAX(max, cover->values[i + cover->n_leaves]);
    }
    return max;
}
