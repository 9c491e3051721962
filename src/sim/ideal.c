/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/ideal.h"

#include <stdbool.h>

#include "base/attr.h"
#include "base/share.h"

struct free_slot {
    uint64_t at_us;
    uint32_t slot;
};

static uint64_t slot_us(const struct ideal *ideal, uint32_t slot, uint64_t item)
{
    uint64_t us = dist_us(ideal->service, ideal->seed, item);
    return ideal->slowness ? (uint64_t)((double)us * ideal->slowness[slot]) : us;
}

static bool is_sooner(const struct free_slot *a, const struct free_slot *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->slot < b->slot;
}

/* Restores the order of the heap after its first slot has become free later than before. */
static void first_sink(struct free_slot *heap, uint32_t len)
{
    struct free_slot moved = heap[0];
    uint32_t at = 0;
    for (uint32_t child = 1; child < len; child = 2 * at + 1) {
        if (child + 1 < len && is_sooner(&heap[child + 1], &heap[child]))
            child++;
        if (!is_sooner(&heap[child], &moved))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

uint64_t ideal_list_us(const struct ideal *ideal)
{
    struct free_slot *heap = calloc(ideal->n_slots, sizeof(*heap));
    uint64_t end_us = 0;
    if (!heap)
        return UINT64_MAX;
    for (uint32_t slot = 0; slot < ideal->n_slots; slot++)
        heap[slot].slot = slot;
    for (uint64_t i = 0; i < ideal->n_items; i++) {
        uint64_t item = ideal->order ? ideal->order[i] : i;
        heap[0].at_us += slot_us(ideal, heap[0].slot, item);
        end_us = MAX(end_us, heap[0].at_us);
        first_sink(heap, ideal->n_slots);
    }
    free(heap);
    return end_us;
}

uint64_t ideal_bound_us(const struct ideal *ideal)
{
    double power = 0, fastest = 0;
    for (uint32_t slot = 0; slot < ideal->n_slots; slot++) {
        double speed = ideal->slowness ? 1 / ideal->slowness[slot] : 1;
        power += speed;
        fastest = MAX(fastest, speed);
    }
    uint64_t sum_us = 0, longest_us = 0;
    for (uint64_t item = 0; item < ideal->n_items; item++) {
        uint64_t us = dist_us(ideal->service, ideal->seed, item);
        sum_us += us;
        longest_us = MAX(longest_us, us);
    }
    return (uint64_t)MAX((double)sum_us / power, (double)longest_us / fastest);
}

uint64_t ideal_static_us(const struct ideal *ideal)
{
    uint64_t end_us = 0;
    for (uint32_t slot = 0; slot < ideal->n_slots; slot++) {
        struct share share = share_of(ideal->n_items, ideal->n_slots, slot);
        uint64_t used_us = 0;
        for (uint64_t i = 0; i < share.count; i++)
            used_us += slot_us(ideal, slot, share.start + i);
        end_us = MAX(end_us, used_us);
    }
    return end_us;
}

struct sized {
    uint64_t us;
    uint32_t item;
};

static int longest_first(const void *left, const void *right)
{
    const struct sized *a = left, *b = right;
    if (a->us != b->us)
        return a->us < b->us ? 1 : -1;
    return a->item < b->item ? -1 : a->item > b->item;
}

uint32_t *ideal_order_new(const struct dist *service, uint64_t seed, uint64_t n_items)
{
    struct sized *sized = malloc((n_items + 1) * sizeof(*sized));
    uint32_t *order = malloc((n_items + 1) * sizeof(*order));
    if (!sized || !order) {
        free(sized);
        free(order);
        return NULL;
    }
    for (uint64_t i = 0; i < n_items; i++)
        sized[i] = (struct sized){dist_us(service, seed, i), (uint32_t)i};
    qsort(sized, n_items, sizeof(*sized), longest_first);
    for (uint64_t i = 0; i < n_items; i++)
        order[i] = sized[i].item;
    free(sized);
    return order;
}
