/* SPDX-License-Identifier: Apache-2.0
 *
 * Ideal schedules, with which a schedule of the same items can be compared. Their workers start in
 * no time, lose nothing, and know the sizes of all items or of none.
 */
#pragma once

#include "sim/dist.h"

struct ideal {
    const struct dist *service;
    uint64_t seed, n_items;
    uint32_t n_slots;
    /* [n_slots]: an item takes this many times as long on the slot; NULL: all 1 */
    const double *slowness;
    const uint32_t *order; /* [n_items]: the order in which items are taken; NULL: by number */
};

/* The time if each slot that is free takes the next item. UINT64_MAX: out of memory. */
uint64_t ideal_list_us(const struct ideal *ideal);
/* A lower bound for every schedule: the time of all the work spread evenly over all slots, or of
 * the longest item alone, whichever is more. */
uint64_t ideal_bound_us(const struct ideal *ideal);
/* The time if each slot gets an even share of the items in advance, in one piece; the first slots
 * get the remainder. */
uint64_t ideal_static_us(const struct ideal *ideal);
/* All items for `order`, the longest first; the caller frees it. NULL: out of memory. */
uint32_t *ideal_order_new(const struct dist *service, uint64_t seed, uint64_t n_items);
