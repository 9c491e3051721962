/* SPDX-License-Identifier: Apache-2.0
 *
 * What a schedule of the same items is to be compared with: others that start in no time, lose nothing
 * and know nothing or everything of the sizes.
 */
#pragma once

#include "sim/dist.h"

struct ideal {
    const struct dist *service;
    uint64_t seed, n_items;
    uint32_t n_slots;
    const double
        *slowness;         /* [n_slots]: an item takes that many times as long there; NULL: all 1 */
    const uint32_t *order; /* [n_items]: in which they are taken; NULL: as they come */
};

/* Whoever is free takes the next item. UINT64_MAX: out of memory. */
uint64_t ideal_list_us(const struct ideal *ideal);
/* No schedule at all is shorter: all of the work on all slots evenly, or the longest item alone. */
uint64_t ideal_bound_us(const struct ideal *ideal);
/* Each slot gets an even share of the items beforehand, in one piece, the remainder to the first. */
uint64_t ideal_static_us(const struct ideal *ideal);
/* All items, the longest first, for `order`; free() it. NULL: out of memory. */
uint32_t *ideal_order_new(const struct dist *service, uint64_t seed, uint64_t n_items);
