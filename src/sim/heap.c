/* SPDX-License-Identifier: Apache-2.0
 *
 * A heap with four children per node: it is half as deep as a binary heap, and the children of a
 * node are adjacent in memory. A world of ten thousand devices spends most of its time here.
 */
#include "sim/heap.h"

#include "base/attr.h"

enum {
    CHILDREN = 4,
    CAP_MIN = 256
};

static bool comes_before(const struct future *a, const struct future *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->sequence < b->sequence;
}

static bool heap_grow(struct future_heap *heap)
{
    size_t cap = heap->cap > 0 ? 2 * heap->cap : CAP_MIN;
    struct future *at = realloc(heap->at, cap * sizeof(*at));
    if (!at)
        return false;
    heap->at = at;
    heap->cap = cap;
    return true;
}

bool heap_push(struct future_heap *heap, const struct future *future)
{
    if (heap->len == heap->cap && !heap_grow(heap))
        return false;
    struct future fresh = *future;
    fresh.sequence = heap->sequence++;
    size_t at = heap->len++;
    while (at > 0) {
        size_t parent = (at - 1) / CHILDREN;
        if (!comes_before(&fresh, &heap->at[parent]))
            break;
        heap->at[at] = heap->at[parent];
        at = parent;
    }
    heap->at[at] = fresh;
    return true;
}

static size_t soonest_child(const struct future_heap *heap, size_t first)
{
    size_t best = first, end = MIN(first + CHILDREN, heap->len);
    for (size_t child = first + 1; child < end; child++)
        if (comes_before(&heap->at[child], &heap->at[best]))
            best = child;
    return best;
}

struct future heap_pop(struct future_heap *heap)
{
    ASSERT(heap->len > 0);
    struct future top = heap->at[0], last = heap->at[--heap->len];
    size_t at = 0;
    for (size_t first = 1; first < heap->len; first = CHILDREN * at + 1) {
        size_t child = soonest_child(heap, first);
        if (!comes_before(&heap->at[child], &last))
            break;
        heap->at[at] = heap->at[child];
        at = child;
    }
    heap->at[at] = last;
    return top;
}

uint64_t heap_next_us(const struct future_heap *heap)
{
    return heap->len > 0 ? heap->at[0].at_us : UINT64_MAX;
}

void heap_release(struct future_heap *heap)
{
    free(heap->at);
    *heap = (struct future_heap){0};
}
