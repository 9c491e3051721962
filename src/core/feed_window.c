/* SPDX-License-Identifier: Apache-2.0
 *
 * Stores the state of the items in the window. A fast filter has a hundred thousand adjacent items in the same
 * state: a block of items that was sent to one worker and is answered in order is folded into a few words. An
 * event about a single item unfolds its block into slots, which callers do not notice. So memory grows with
 * irregular events, not with items.
 */
#include "core/feed_impl.h"

enum {
    BLOCK_LOG2_MAX = 6, /* items in a block; what is sent at once is rounded down to whole blocks */
    BLOCKS_LOG2_MIN = 3,
};

/* In a list of items, a folded block stands for all of its items. */
static const uint32_t BLOCK_REF = 1u << 31;

/* `ref` must not be NONE, which has all bits set. */
static bool is_block_ref(uint32_t ref)
{
    return ref & BLOCK_REF;
}

uint32_t block_log2(uint64_t spread)
{
    uint32_t log2 = 0;
    while (log2 < BLOCK_LOG2_MAX && spread >> (log2 + 1) >= 1u << BLOCKS_LOG2_MIN)
        log2++;
    return log2;
}

static uint32_t ring_of(const struct feed *f, uint64_t item)
{
    return (uint32_t)(item & f->window.mask);
}

static uint32_t offset_of(const struct feed *f, uint64_t item)
{
    return (uint32_t)(item & (f->window.block_size - 1));
}

static struct block *block_of(const struct feed *f, uint64_t item)
{
    return &f->window.blocks[ring_of(f, item) >> f->window.block_log2];
}

static uint32_t ring_begin(const struct feed *f, const struct block *block)
{
    return (uint32_t)(block - f->window.blocks) << f->window.block_log2;
}

/* The item of a position in the ring. */
static uint64_t item_of(const struct feed *f, uint32_t ring)
{
    uint64_t low = f->config.order ? 0 : f->window.frontier;
    return low + ((ring - low) & f->window.mask);
}

static struct slot *slot_at(const struct feed *f, uint32_t ring)
{
    return &f->window.slots[f->window.blocks[ring >> f->window.block_log2].slots +
                            (ring & (f->window.block_size - 1))];
}

uint64_t window_end(const struct feed *f)
{
    /* A block is reused when the frontier has left it. */
    return f->window.frontier - offset_of(f, f->window.frontier) + f->window.spread;
}

/* ---- who has what ---- */

static struct links *links_of(const struct feed *f, uint32_t ref)
{
    return is_block_ref(ref) ? &f->window.blocks[ref & ~BLOCK_REF].links : &slot_at(f, ref)->links;
}

static void link_after(struct feed *f, struct feed_worker *w, uint32_t ref, uint32_t other)
{
    if (ref == NONE)
        w->items.head = other;
    else
        links_of(f, ref)->next = other;
}

static void link_before(struct feed *f, struct feed_worker *w, uint32_t ref, uint32_t other)
{
    if (ref == NONE)
        w->items.tail = other;
    else
        links_of(f, ref)->prev = other;
}

static void list_append(struct feed *f, uint32_t worker, uint32_t ref)
{
    struct feed_worker *w = &f->workers[worker];
    *links_of(f, ref) = (struct links){NONE, w->items.tail};
    link_after(f, w, w->items.tail, ref);
    w->items.tail = ref;
}

static void list_remove(struct feed *f, uint32_t worker, uint32_t ref)
{
    struct feed_worker *w = &f->workers[worker];
    struct links links = *links_of(f, ref);
    link_after(f, w, links.prev, links.next);
    link_before(f, w, links.next, links.prev);
}

void owned_link(struct feed *f, uint32_t worker, uint64_t item)
{
    list_append(f, worker, ring_of(f, item));
}

void owned_unlink(struct feed *f, uint32_t worker, uint64_t item)
{
    list_remove(f, worker, ring_of(f, item));
}

static struct sent_range ref_items(const struct feed *f, uint32_t ref)
{
    if (!is_block_ref(ref))
        return (struct sent_range){item_of(f, ref), 1};
    uint64_t first = item_of(f, ring_begin(f, &f->window.blocks[ref & ~BLOCK_REF]));
    return (struct sent_range){first, f->window.block_size};
}

struct owned owned_begin(const struct feed *f, uint32_t worker)
{
    return (struct owned){.next = f->workers[worker].items.head, .copy_is_next = true};
}

struct sent_range owned_run(const struct feed *f, uint32_t worker, struct owned *at)
{
    uint32_t ref = at->next;
    if (ref != NONE) {
        at->next = links_of(f, ref)->next;
        return ref_items(f, ref);
    }
    bool is_copy = at->copy_is_next && f->workers[worker].items.copy != UINT64_MAX;
    at->copy_is_next = false;
    return (struct sent_range){is_copy ? f->workers[worker].items.copy : 0, is_copy};
}

uint64_t owned_next(const struct feed *f, uint32_t worker, struct owned *at)
{
    if (at->run.count == 0)
        at->run = owned_run(f, worker, at);
    if (at->run.count == 0)
        return UINT64_MAX;
    at->run.count--;
    return at->run.first++;
}

uint64_t owned_last_alone(const struct feed *f, uint32_t worker)
{
    for (uint32_t ref = f->workers[worker].items.tail; ref != NONE; ref = links_of(f, ref)->prev) {
        struct sent_range items = ref_items(f, ref);
        uint64_t last = items.first + items.count - 1;
        struct slot slot = slot_peek(f, last);
        if (slot.owner[1] == 0 && !slot.copy_failed && !(slot.flags & ANSWERED_FIRST))
            return last;
    }
    return UINT64_MAX;
}

/* ---- folded and unfolded ---- */

static bool is_folded(const struct block *block)
{
    return block->slots == NONE;
}

static uint32_t slots_take(struct feed *f)
{
    uint32_t first = f->window.slots_free;
    if (first == NONE) {
        first = f->window.slots_used;
        f->window.slots_used += f->window.block_size;
        ASSERT(f->window.slots_used <= f->window.spread);
    } else {
        f->window.slots_free = f->window.slots[first].links.next;
    }
    return first;
}

static void slots_give(struct feed *f, struct block *block)
{
    f->window.slots[block->slots].links.next = f->window.slots_free;
    f->window.slots_free = block->slots;
    *block = (struct block){.slots = NONE};
}

static struct slot folded_slot(const struct block *block, uint32_t offset)
{
    return (struct slot){.state = block->state,
                         .owner = {block->owner},
                         .sent_order = block->sent_order,
                         .flags = offset < block->n_answered ? ANSWERED_FIRST : 0};
}

static void unfold(struct feed *f, struct block *block)
{
    uint32_t first = slots_take(f), ring = ring_begin(f, block), end = ring + f->window.block_size;
    struct links around = block->links;
    bool is_listed = block->state == SLOT_SENT;
    for (uint32_t i = 0; i < f->window.block_size; i++) {
        f->window.slots[first + i] = folded_slot(block, i);
        f->window.slots[first + i].links = (struct links){ring + i + 1, ring + i - 1};
    }
    block->slots = first;
    if (!is_listed)
        return;
    struct feed_worker *w = &f->workers[block->owner - 1];
    slot_at(f, ring)->links.prev = around.prev;
    slot_at(f, end - 1)->links.next = around.next;
    link_after(f, w, around.prev, ring);
    link_before(f, w, around.next, end - 1);
}

struct slot *slot_of(struct feed *f, uint64_t item)
{
    struct block *block = block_of(f, item);
    if (is_folded(block))
        unfold(f, block);
    return slot_at(f, ring_of(f, item));
}

struct slot slot_peek(const struct feed *f, uint64_t item)
{
    const struct block *block = block_of(f, item);
    return is_folded(block) ? folded_slot(block, offset_of(f, item))
                            : *slot_at(f, ring_of(f, item));
}

/* ---- whole blocks ---- */

/* The block of these items, if they fill it and it is folded in this state; else NULL. */
static struct block *whole_block(const struct feed *f, struct sent_range items, uint8_t state)
{
    struct block *block = block_of(f, items.first);
    bool is_whole = offset_of(f, items.first) == 0 && items.count >= f->window.block_size;
    return is_whole && is_folded(block) && block->state == state ? block : NULL;
}

uint32_t block_send(struct feed *f, uint32_t worker, struct sent_range items)
{
    struct block *block = f->config.order ? NULL : whole_block(f, items, SLOT_FREE);
    if (!block || !answers_in_order(&f->workers[worker]))
        return 0;
    block->state = SLOT_SENT;
    block->owner = (uint16_t)(worker + 1);
    block->sent_order = f->window.sent_order;
    block->n_answered = 0;
    list_append(f, worker, (uint32_t)(block - f->window.blocks) | BLOCK_REF);
    return f->window.block_size;
}

uint32_t block_answer(struct feed *f, uint32_t worker, struct sent_range items)
{
    struct block *block = block_of(f, items.first);
    uint32_t offset = offset_of(f, items.first);
    if (!is_in_window(f, items.first) || !is_folded(block))
        return 0;
    ASSERT(block->state == SLOT_SENT && block->owner == worker + 1 && block->n_answered == offset);
    uint32_t count = MIN(items.count, f->window.block_size - offset);
    block->n_answered = (uint8_t)(offset + count);
    return count;
}

uint32_t block_win(struct feed *f, uint32_t worker, struct sent_range items)
{
    struct block *block = whole_block(f, items, SLOT_SENT);
    if (!block)
        return 0;
    ASSERT(block->n_answered ==
           f->window.block_size); /* no answer is confirmed while another one is missing */
    list_remove(f, worker, (uint32_t)(block - f->window.blocks) | BLOCK_REF);
    *block = (struct block){.slots = NONE, .state = SLOT_COMMITTING};
    return f->window.block_size;
}

uint32_t block_done(struct feed *f, struct sent_range items)
{
    struct block *block = whole_block(f, items, SLOT_COMMITTING);
    if (!block)
        return 0;
    block->state = SLOT_DONE;
    return f->window.block_size;
}

void items_skip(struct feed *f, uint64_t first, uint64_t end)
{
    for (uint64_t item = first, step; item < end; item += step) {
        struct sent_range left = {item, (uint32_t)MIN(end - item, (uint64_t)f->window.block_size)};
        struct block *block = whole_block(f, left, SLOT_FREE);
        step = block ? f->window.block_size : 1;
        if (block)
            block->state = SLOT_DONE;
        else
            slot_of(f, item)->state = SLOT_DONE;
    }
}

/* ---- the frontier ---- */

/* How far the frontier may move: over the whole block, or by one item; 0: the next item is not done. */
static uint64_t frontier_step(struct feed *f)
{
    struct block *block = block_of(f, f->window.frontier);
    if (slot_peek(f, f->window.frontier).state != SLOT_DONE)
        return 0;
    if (is_folded(block)) {
        *block = (struct block){.slots = NONE};
        return f->window.block_size;
    }
    if (offset_of(f, f->window.frontier + 1) == 0)
        slots_give(f, block);
    return 1;
}

void frontier_advance(struct feed *f)
{
    for (uint64_t step = 1; step > 0 && f->window.frontier < f->window.next;
         f->window.frontier += step)
        step = frontier_step(f);
}

void frontier_jump(struct feed *f, uint64_t item)
{
    struct block *block = block_of(f, f->window.frontier);
    ASSERT(f->window.frontier == f->window.next && item >= f->window.next);
    if (!is_folded(block) &&
        item - f->window.frontier >= f->window.block_size - offset_of(f, f->window.frontier))
        slots_give(f, block);
    f->window.frontier = f->window.next = item;
}
