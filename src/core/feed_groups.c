/* SPDX-License-Identifier: Apache-2.0
 *
 * Suspects: items one of which killed a worker. They run as a group, alone on a worker, and are halved after another
 * death, until the killing item is alone. A group is first delayed (in the heap of feed_pool.c), then ripe (in a
 * queue), then on a worker, and at last free, or ripe again with the items not sent.
 */
#include "core/feed_impl.h"

static uint32_t group_new(struct feed *f)
{
    uint32_t index = f->suspects.free;
    if (index != NONE)
        f->suspects.free = f->suspects.groups[index].next;
    else if (f->suspects.used < f->suspects.cap)
        index = f->suspects.used++;
    ASSERT(index != NONE);
    f->suspects.in_use++;
    f->suspects.groups[index] = (struct group){.head = NONE, .worker = NONE};
    return index;
}

static void group_free(struct feed *f, uint32_t index)
{
    f->suspects.in_use--;
    f->suspects.groups[index].next = f->suspects.free;
    f->suspects.free = index;
}

void group_ripen(struct feed *f, uint32_t index)
{
    struct group *group = &f->suspects.groups[index];
    group->next = NONE;
    if (f->suspects.ripe_tail == NONE)
        f->suspects.ripe_head = index;
    else
        f->suspects.groups[f->suspects.ripe_tail].next = index;
    f->suspects.ripe_tail = index;
    f->suspects.ripe++;
}

/* Puts the group into the queue or, if its time has not come, into the heap. */
static void group_wait(struct feed *f, uint32_t index)
{
    struct group *group = &f->suspects.groups[index];
    group->worker = NONE;
    f->suspects.waiting++;
    if (group->not_before_ms <= f->now_ms) {
        group_ripen(f, index);
        return;
    }
    struct chunk *head = &f->pool.chunks[group->head];
    head->group = index;
    head->not_before_ms = group->not_before_ms;
    delayed_push(f, group->head);
    wake_at(f, group->not_before_ms);
}

/* Appends a chunk to the group's list. */
static void group_append(struct feed *f, struct group *group, uint32_t *tail,
                         struct sent_range range)
{
    uint32_t index =
        chunk_new(f, (struct chunk){.first = range.first, .count = range.count, .group = NONE});
    if (*tail == NONE)
        group->head = index;
    else
        f->pool.chunks[*tail].next = index;
    *tail = index;
    group->count += range.count;
    f->suspects.items += range.count;
}

static void group_fill(struct feed *f, struct group *group, const struct sent_range *ranges,
                       size_t n_ranges, uint64_t skip, uint64_t count)
{
    uint32_t tail = NONE;
    for (size_t i = 0; i < n_ranges && count > 0; i++) {
        uint64_t off = MIN(skip, (uint64_t)ranges[i].count);
        uint64_t take = MIN(ranges[i].count - off, count);
        skip -= off;
        count -= take;
        if (take > 0)
            group_append(f, group, &tail,
                         (struct sent_range){ranges[i].first + off, (uint32_t)take});
    }
}

void suspects_add(struct feed *f, const struct sent_range *ranges, size_t n_ranges,
                  uint32_t avoid_device, uint64_t not_before_ms)
{
    uint64_t total = 0;
    for (size_t i = 0; i < n_ranges; i++)
        total += ranges[i].count;
    uint64_t halves[2] = {(total + 1) / 2, total / 2};
    uint64_t n_groups = MIN(total, (uint64_t)2);
    if (total > 1)
        emit(f, ACT_NOTE, NONE, ranges[0].first, total, NOTE_HALVED);
    if (f->suspects.in_use + n_groups > f->suspects.cap) {
        /* Too many crashes at once: these items are mixed with others; the culprit is found later. */
        for (size_t i = 0; i < n_ranges; i++)
            pool_add(f, ranges[i], not_before_ms, avoid_device);
        return;
    }
    uint64_t skip = 0;
    for (uint64_t half = 0; half < n_groups; half++) {
        uint32_t index = group_new(f);
        struct group *group = &f->suspects.groups[index];
        group->avoid_device = avoid_device;
        group->not_before_ms = not_before_ms;
        group_fill(f, group, ranges, n_ranges, skip, halves[half]);
        group_wait(f, index);
        skip += halves[half];
    }
}

/* Finds a ripe group that may run on the worker's device; *before: the group before it, or NONE. */
static uint32_t suspects_find(struct feed *f, uint32_t worker, uint32_t *before)
{
    uint32_t device = f->workers[worker].device;
    *before = NONE;
    for (uint32_t g = f->suspects.ripe_head; g != NONE; *before = g, g = f->suspects.groups[g].next)
        if (!is_avoided(f, f->suspects.groups[g].avoid_device, f->suspects.groups[g].not_before_ms,
                        device))
            return g;
    return NONE;
}

bool suspects_are_waiting(struct feed *f, uint32_t worker)
{
    uint32_t before;
    return suspects_find(f, worker, &before) != NONE;
}

bool suspects_assign(struct feed *f, uint32_t worker)
{
    uint32_t before, found = suspects_find(f, worker, &before);
    if (found == NONE)
        return false;
    if (before == NONE)
        f->suspects.ripe_head = f->suspects.groups[found].next;
    else
        f->suspects.groups[before].next = f->suspects.groups[found].next;
    if (f->suspects.ripe_tail == found)
        f->suspects.ripe_tail = before;
    f->suspects.groups[found].worker = worker;
    f->workers[worker].group = found;
    f->suspects.waiting--;
    f->suspects.ripe--;
    return true;
}

struct sent_range suspects_take(struct feed *f, uint32_t worker, uint64_t max)
{
    struct group *group = &f->suspects.groups[f->workers[worker].group];
    uint32_t at = group->head;
    if (at == NONE)
        return (struct sent_range){0, 0};
    struct chunk *chunk = &f->pool.chunks[at];
    struct sent_range taken = {chunk->first, (uint32_t)MIN(chunk->count, max)};
    chunk->first += taken.count;
    chunk->count -= taken.count;
    group->count -= taken.count;
    f->suspects.items -= taken.count;
    if (chunk->count == 0) {
        group->head = chunk->next;
        chunk_free(f, at);
    }
    return taken;
}

void suspects_put_back(struct feed *f, uint32_t worker, struct sent_range range)
{
    struct group *group = &f->suspects.groups[f->workers[worker].group];
    uint32_t tail = group->head;
    while (tail != NONE && f->pool.chunks[tail].next != NONE)
        tail = f->pool.chunks[tail].next;
    group_append(f, group, &tail, range);
}

void suspects_release(struct feed *f, uint32_t worker)
{
    struct feed_worker *w = &f->workers[worker];
    if (w->group == NONE)
        return;
    uint32_t index = w->group;
    w->group = NONE;
    if (f->suspects.groups[index].head == NONE)
        group_free(f, index);
    else
        group_wait(f, index); /* what was not sent yet, for the next worker */
}
