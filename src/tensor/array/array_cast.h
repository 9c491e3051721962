/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts elements of npy to another type of the same kind without a loss: texts to a greater
 * width, and numbers and texts to the other byte order.
 */
#pragma once

#include "tensor/array/array_plan.h"

struct array_cast {
    size_t from_bytes, to_bytes; /* bytes of an element; a wider element ends with zeros */
    size_t unit;                 /* the bytes of each unit are reversed; 0: no bytes are reversed */
};

/*
 * Finds how elements of `from` become elements of `to`; false if that is not possible without a
 * loss.
 */
bool array_cast_find(const struct array *from, const struct array *to, struct array_cast *out);

/*
 * A sink that converts elements and passes them to another sink. An element has at least one byte:
 * the caller treats texts of no width, <U0, itself.
 */
struct array_caster {
    struct array_cast cast;
    const struct array_sink *to;
    struct buf begun; /* the beginning of an element that ends in a later piece */
    struct buf made;
};
/* Takes pieces that may end within an element. `context` is a struct array_caster. */
int array_cast_put(void *context, struct str bytes, struct err *err);
void array_caster_release(struct array_caster *caster);
