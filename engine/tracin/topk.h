/* SPDX-License-Identifier: Apache-2.0
 *
 * The k best of the influences that are added: a heap with the worst on top. Equal influences are
 * ordered by training index, so the result does not depend on the order in which they are added.
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
/* Returns false if there are k better ones. */
bool topk_add(struct topk *top, uint32_t train_index, double value);
/* Puts the best first. Nothing may be added afterwards. */
void topk_sort(struct topk *top);
