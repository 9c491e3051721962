/* SPDX-License-Identifier: Apache-2.0
 *
 * The k best influences of those that came by: a heap with the worst on top. Which they are, and
 * their order, does not depend on the order in which they came: equals go by training index.
 */
#pragma once

#include "tracin/tracin.h"

struct topk {
    struct tracin_influence *at;
    size_t n, k;
    enum tracin_order order;
};

/* k > 0 */
void topk_init(struct topk *top, size_t k, enum tracin_order order);
void topk_release(struct topk *top);
void topk_add(struct topk *top, uint32_t train_index, double value);
/* The best first; nothing is added afterwards. */
void topk_sort(struct topk *top);
