/* SPDX-License-Identifier: Apache-2.0 */
#include "tracin/topk.h"

#include <math.h>
#include <stdlib.h>

#include "base/xalloc.h"

void topk_init(struct topk *top, size_t k, enum tracin_order order)
{
    *top = (struct topk){.at = xcalloc(k, sizeof(*top->at)), .k = k, .order = order};
}

void topk_release(struct topk *top)
{
    free(top->at);
    *top = (struct topk){0};
}

static bool is_better(const struct topk *top, struct tracin_influence a, struct tracin_influence b)
{
    double key_a = top->order == TRACIN_BY_MAGNITUDE ? fabs(a.value) : a.value;
    double key_b = top->order == TRACIN_BY_MAGNITUDE ? fabs(b.value) : b.value;
    return key_a > key_b || (key_a == key_b && a.train_index < b.train_index);
}

static void swap(struct tracin_influence *a, struct tracin_influence *b)
{
    struct tracin_influence kept = *a;
    *a = *b;
    *b = kept;
}

static void sift_up(struct topk *top, size_t i)
{
    while (i > 0 && is_better(top, top->at[(i - 1) / 2], top->at[i])) {
        swap(&top->at[i], &top->at[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
}

static void sift_down(struct topk *top, size_t n)
{
    for (size_t i = 0, child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && is_better(top, top->at[child], top->at[child + 1]))
            child++;
        if (!is_better(top, top->at[i], top->at[child]))
            return;
        swap(&top->at[i], &top->at[child]);
    }
}

bool topk_add(struct topk *top, uint32_t train_index, double value)
{
    struct tracin_influence added = {train_index, value};
    if (top->n < top->k) {
        top->at[top->n] = added;
        sift_up(top, top->n++);
    } else if (is_better(top, added, top->at[0])) {
        top->at[0] = added;
        sift_down(top, top->n);
    } else {
        return false;
    }
    return true;
}

void topk_sort(struct topk *top)
{
    for (size_t n = top->n; n > 1; n--) {
        swap(&top->at[0], &top->at[n - 1]);
        sift_down(top, n - 1);
    }
}
