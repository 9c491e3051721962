/* SPDX-License-Identifier: Apache-2.0
 *
 * Elements of npy that become those of another type of the same kind without a loss: texts of another width, and numbers
 * and texts of the other byte order.
 */
#pragma once

#include "tensor/array/array_plan.h"

struct array_cast {
    size_t from_bytes, to_bytes; /* of an element; what is wider ends with zeros */
    size_t unit;                 /* so many bytes at a time are turned round; 0: none are */
};

/* False if the elements of `from` cannot be those of `to` as they are. */
bool array_cast_find(const struct array *from, const struct array *to, struct array_cast *out);

/* A sink that passes elements on to another one. Elements have a byte at least: texts without any, <U0, come as nothing. */
struct array_caster {
    struct array_cast cast;
    const struct array_sink *to;
    struct buf begun; /* of an element that ends in a later piece */
    struct buf made;
};
/* Takes pieces that may end within an element. `context` is a struct array_caster. */
int array_cast_put(void *context, struct str bytes, struct err *err);
void array_caster_release(struct array_caster *caster);
