/* SPDX-License-Identifier: Apache-2.0
 *
 * What waits for another try: ready chunks in a queue, delayed ones in a heap by time, and groups
 * of suspects, which run alone on a worker and are halved until the culprit stands alone.
 */
#include "core/feed_impl.h"

static uint32_t chunk_new(struct feed *f, struct chunk chunk)
{
    uint32_t index = f->pool_free;
    if (index != NONE) {
        f->pool_free = f->pool[index].next;
    } else {
        ASSERT(f->pool_used < f->spread);
        index = f->pool_used++;
    }
    f->pool[index] = chunk;
    f->pool[index].next = NONE;
    return index;
}

static void chunk_free(struct feed *f, uint32_t index)
{
    f->pool[index].next = f->pool_free;
    f->pool_free = index;
}

static void ready_push(struct feed *f, uint32_t index)
{
    if (f->ready_tail == NONE)
        f->ready_head = index;
    else
        f->pool[f->ready_tail].next = index;
    f->pool[index].next = NONE;
    f->ready_tail = index;
    f->ready_items += f->pool[index].count;
}

static bool heap_before(const struct feed *f, uint32_t a, uint32_t b)
{
    const struct chunk *x = &f->pool[f->heap[a]], *y = &f->pool[f->heap[b]];
    if (x->not_before_ms != y->not_before_ms)
        return x->not_before_ms < y->not_before_ms;
    return x->first < y->first;
}

static void heap_swap(struct feed *f, uint32_t a, uint32_t b)
{
    uint32_t kept = f->heap[a];
    f->heap[a] = f->heap[b];
    f->heap[b] = kept;
}

static void heap_push(struct feed *f, uint32_t index)
{
    uint32_t at = f->heap_len++;
    f->heap[at] = index;
    f->delayed_items += f->pool[index].count;
    for (; at > 0 && heap_before(f, at, (at - 1) / 2); at = (at - 1) / 2)
        heap_swap(f, at, (at - 1) / 2);
}

static uint32_t heap_pop(struct feed *f)
{
    uint32_t top = f->heap[0], at = 0;
    f->heap[0] = f->heap[--f->heap_len];
    for (;;) {
        uint32_t least = at;
        for (uint32_t child = 2 * at + 1; child <= 2 * at + 2; child++)
            if (child < f->heap_len && heap_before(f, child, least))
                least = child;
        if (least == at)
            break;
        heap_swap(f, at, least);
        at = least;
    }
    f->delayed_items -= f->pool[top].count;
    return top;
}

void pool_add(struct feed *f, struct sent_range range, uint64_t not_before_ms,
              uint32_t avoid_device)
{
    uint32_t index = chunk_new(f, (struct chunk){.first = range.first,
                                                 .count = range.count,
                                                 .avoid_device = avoid_device,
                                                 .not_before_ms = not_before_ms});
    if (not_before_ms <= f->now_ms) {
        ready_push(f, index);
    } else {
        heap_push(f, index);
        wake_at(f, not_before_ms);
    }
}

void pool_ripen(struct feed *f)
{
    while (f->heap_len > 0 && f->pool[f->heap[0]].not_before_ms <= f->now_ms)
        ready_push(f, heap_pop(f));
    if (f->heap_len > 0)
        wake_at(f, f->pool[f->heap[0]].not_before_ms);
    for (uint32_t g = 0; f->groups_waiting > 0 && g < f->groups_cap; g++)
        if (f->groups[g].in_use && f->groups[g].worker == NONE &&
            f->groups[g].not_before_ms > f->now_ms)
            wake_at(f, f->groups[g].not_before_ms);
}

static uint32_t devices_alive(const struct feed *f)
{
    uint32_t count = 0;
    for (uint32_t d = 0; d < f->config.n_devices; d++)
        count += !f->devices[d].is_benched;
    return count;
}

/* A failed item tries another device first, but does not wait for one longer than this. */
enum {
    AVOID_MS = 2000,
    LOOK_AHEAD = 8
};

static bool is_avoided(const struct feed *f, uint32_t avoid_device, uint64_t not_before_ms,
                       uint32_t device)
{
    return avoid_device == device && f->now_ms < not_before_ms + AVOID_MS && devices_alive(f) > 1;
}

struct sent_range pool_take(struct feed *f, uint64_t max, uint32_t device)
{
    uint32_t before = NONE, at = f->ready_head;
    for (int looked = 0; at != NONE && looked < LOOK_AHEAD;
         looked++, before = at, at = f->pool[at].next) {
        struct chunk *chunk = &f->pool[at];
        if (is_avoided(f, chunk->avoid_device, chunk->not_before_ms, device)) {
            wake_at(f, chunk->not_before_ms + AVOID_MS);
            continue;
        }
        uint64_t most = MIN(max, batch_left(f, chunk->first));
        struct sent_range taken = {chunk->first, (uint32_t)MIN(chunk->count, most)};
        f->ready_items -= taken.count;
        chunk->first += taken.count;
        chunk->count -= taken.count;
        if (chunk->count == 0) {
            if (before == NONE)
                f->ready_head = chunk->next;
            else
                f->pool[before].next = chunk->next;
            if (f->ready_tail == at)
                f->ready_tail = before;
            chunk_free(f, at);
        }
        return taken;
    }
    return (struct sent_range){0, 0};
}

static struct group *group_new(struct feed *f)
{
    for (uint32_t g = 0; g < f->groups_cap; g++) {
        if (f->groups[g].in_use)
            continue;
        f->groups[g] =
            (struct group){.head = NONE, .worker = NONE, .avoid_device = NONE, .in_use = true};
        f->groups_waiting++;
        return &f->groups[g];
    }
    return NULL;
}

/* Append items to a group's list, in the order given. */
static void group_append(struct feed *f, struct group *group, struct sent_range range)
{
    uint32_t index = chunk_new(f, (struct chunk){.first = range.first, .count = range.count});
    uint32_t *link = &group->head;
    while (*link != NONE)
        link = &f->pool[*link].next;
    *link = index;
    group->count += range.count;
    f->group_items += range.count;
}

static void group_fill(struct feed *f, struct group *group, const struct sent_range *ranges,
                       size_t n_ranges, uint64_t skip, uint64_t count)
{
    for (size_t i = 0; i < n_ranges && count > 0; i++) {
        uint64_t off = MIN(skip, (uint64_t)ranges[i].count);
        uint64_t take = MIN(ranges[i].count - off, count);
        skip -= off;
        count -= take;
        if (take > 0)
            group_append(f, group, (struct sent_range){ranges[i].first + off, (uint32_t)take});
    }
}

void suspects_add(struct feed *f, const struct sent_range *ranges, size_t n_ranges,
                  uint32_t avoid_device, uint64_t not_before_ms)
{
    uint64_t total = 0;
    for (size_t i = 0; i < n_ranges; i++)
        total += ranges[i].count;
    uint64_t parts[2] = {(total + 1) / 2, total / 2};
    if (total > 1)
        emit(f, ACT_NOTE, NONE, ranges[0].first, total, NOTE_HALVED);
    struct group *group = NULL;
    uint64_t skip = 0;
    for (int half = 0; half < 2 && parts[half] > 0; half++) {
        struct group *fresh = group_new(f);
        group = fresh ? fresh : group;
        if (!group) { /* so many crashes at once: these mix with the others and are found later */
            for (size_t i = 0; i < n_ranges; i++)
                pool_add(f, ranges[i], not_before_ms, avoid_device);
            return;
        }
        group->avoid_device = avoid_device;
        group->not_before_ms = not_before_ms;
        group_fill(f, group, ranges, n_ranges, skip, parts[half]);
        skip += parts[half];
    }
    wake_at(f, not_before_ms);
}

static uint32_t suspects_find(struct feed *f, uint32_t worker)
{
    for (uint32_t g = 0; f->groups_waiting > 0 && g < f->groups_cap; g++) {
        struct group *group = &f->groups[g];
        if (!group->in_use || group->worker != NONE || group->not_before_ms > f->now_ms)
            continue;
        if (!is_avoided(f, group->avoid_device, group->not_before_ms, f->workers[worker].device))
            return g;
        wake_at(f, group->not_before_ms + AVOID_MS);
    }
    return NONE;
}

bool suspects_are_waiting(struct feed *f, uint32_t worker)
{
    return suspects_find(f, worker) != NONE;
}

bool suspects_assign(struct feed *f, uint32_t worker)
{
    uint32_t found = suspects_find(f, worker);
    if (found == NONE)
        return false;
    f->groups[found].worker = worker;
    f->workers[worker].group = found;
    f->groups_waiting--;
    return true;
}

struct sent_range suspects_take(struct feed *f, uint32_t worker, uint64_t max)
{
    struct group *group = &f->groups[f->workers[worker].group];
    uint32_t at = group->head;
    if (at == NONE)
        return (struct sent_range){0, 0};
    struct chunk *chunk = &f->pool[at];
    struct sent_range taken = {chunk->first, (uint32_t)MIN(chunk->count, max)};
    chunk->first += taken.count;
    chunk->count -= taken.count;
    group->count -= taken.count;
    f->group_items -= taken.count;
    if (chunk->count == 0) {
        group->head = chunk->next;
        chunk_free(f, at);
    }
    return taken;
}

void suspects_release(struct feed *f, uint32_t worker)
{
    struct worker *w = &f->workers[worker];
    if (w->group == NONE)
        return;
    struct group *group = &f->groups[w->group];
    w->group = NONE;
    if (group->head == NONE) {
        group->in_use = false;
        return;
    }
    group->worker = NONE; /* what was not sent yet waits for the next worker */
    f->groups_waiting++;
}
