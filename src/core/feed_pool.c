/* SPDX-License-Identifier: Apache-2.0
 *
 * Items that wait for a retry: ready chunks in a queue, delayed ones in a heap by time. A delayed group of
 * suspects is in that heap by its first chunk.
 */
#include "core/feed_impl.h"

uint32_t chunk_new(struct feed *f, struct chunk chunk)
{
    uint32_t index = f->pool.free;
    if (index != NONE) {
        f->pool.free = f->pool.chunks[index].next;
    } else {
        ASSERT(f->pool.used < f->window.spread);
        index = f->pool.used++;
    }
    f->pool.chunks[index] = chunk;
    f->pool.chunks[index].next = NONE;
    return index;
}

void chunk_free(struct feed *f, uint32_t index)
{
    f->pool.chunks[index].next = f->pool.free;
    f->pool.free = index;
}

static void ready_push(struct feed *f, uint32_t index)
{
    if (f->pool.ready_tail == NONE)
        f->pool.ready_head = index;
    else
        f->pool.chunks[f->pool.ready_tail].next = index;
    f->pool.chunks[index].next = NONE;
    f->pool.ready_tail = index;
    f->pool.ready_items += f->pool.chunks[index].count;
}

static bool heap_before(const struct feed *f, uint32_t a, uint32_t b)
{
    const struct chunk *x = &f->pool.chunks[f->pool.heap[a]], *y = &f->pool.chunks[f->pool.heap[b]];
    if (x->not_before_ms != y->not_before_ms)
        return x->not_before_ms < y->not_before_ms;
    return x->first < y->first;
}

static void heap_swap(struct feed *f, uint32_t a, uint32_t b)
{
    uint32_t kept = f->pool.heap[a];
    f->pool.heap[a] = f->pool.heap[b];
    f->pool.heap[b] = kept;
}

void delayed_push(struct feed *f, uint32_t index)
{
    uint32_t at = f->pool.heap_len++;
    f->pool.heap[at] = index;
    f->pool.delayed_items += f->pool.chunks[index].group == NONE ? f->pool.chunks[index].count : 0;
    for (; at > 0 && heap_before(f, at, (at - 1) / 2); at = (at - 1) / 2)
        heap_swap(f, at, (at - 1) / 2);
}

static uint32_t delayed_pop(struct feed *f)
{
    uint32_t top = f->pool.heap[0], at = 0;
    f->pool.heap[0] = f->pool.heap[--f->pool.heap_len];
    for (;;) {
        uint32_t least = at;
        for (uint32_t child = 2 * at + 1; child <= 2 * at + 2; child++)
            if (child < f->pool.heap_len && heap_before(f, child, least))
                least = child;
        if (least == at)
            break;
        heap_swap(f, at, least);
        at = least;
    }
    f->pool.delayed_items -= f->pool.chunks[top].group == NONE ? f->pool.chunks[top].count : 0;
    return top;
}

void pool_add(struct feed *f, struct sent_range range, uint64_t not_before_ms,
              uint32_t avoid_device)
{
    uint32_t index = chunk_new(f, (struct chunk){.first = range.first,
                                                 .count = range.count,
                                                 .avoid_device = avoid_device,
                                                 .not_before_ms = not_before_ms,
                                                 .group = NONE});
    if (not_before_ms <= f->now_ms) {
        ready_push(f, index);
    } else {
        delayed_push(f, index);
        wake_at(f, not_before_ms);
    }
}

void pool_ripen(struct feed *f)
{
    while (f->pool.heap_len > 0 && f->pool.chunks[f->pool.heap[0]].not_before_ms <= f->now_ms) {
        uint32_t index = delayed_pop(f);
        if (f->pool.chunks[index].group == NONE)
            ready_push(f, index);
        else
            group_ripen(f, f->pool.chunks[index].group);
    }
    if (f->pool.heap_len > 0)
        wake_at(f, f->pool.chunks[f->pool.heap[0]].not_before_ms);
}

/* A failed item tries another device first, but does not wait for one longer than this. */
enum {
    AVOID_MS = 2000,
    LOOK_AHEAD = 8
};

bool is_avoided(struct feed *f, uint32_t avoid_device, uint64_t not_before_ms, uint32_t device)
{
    if (avoid_device != device || f->now_ms >= not_before_ms + AVOID_MS ||
        f->seats.n_sets_alive <= 1)
        return false;
    wake_at(f, not_before_ms + AVOID_MS);
    return true;
}

struct sent_range pool_take(struct feed *f, uint64_t max, uint32_t device)
{
    uint32_t before = NONE, at = f->pool.ready_head;
    for (int looked = 0; at != NONE && looked < LOOK_AHEAD;
         looked++, before = at, at = f->pool.chunks[at].next) {
        struct chunk *chunk = &f->pool.chunks[at];
        if (is_avoided(f, chunk->avoid_device, chunk->not_before_ms, device))
            continue;
        uint64_t most = MIN(max, batch_left(f, chunk->first));
        struct sent_range taken = {chunk->first, (uint32_t)MIN(chunk->count, most)};
        f->pool.ready_items -= taken.count;
        chunk->first += taken.count;
        chunk->count -= taken.count;
        if (chunk->count == 0) {
            if (before == NONE)
                f->pool.ready_head = chunk->next;
            else
                f->pool.chunks[before].next = chunk->next;
            if (f->pool.ready_tail == at)
                f->pool.ready_tail = before;
            chunk_free(f, at);
        }
        return taken;
    }
    return (struct sent_range){0, 0};
}
