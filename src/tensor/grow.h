/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrays that grow by a half: a list of 5 M nodes that doubled would hold twice what it needs.
 */
#pragma once

#include "base/xalloc.h"

#define GROW(array, len, cap)                                      \
    do {                                                           \
        if ((len) == (cap)) {                                      \
            (cap) = MAX((cap) + (cap) / 2, (size_t)64);            \
            (array) = xrealloc((array), (cap) * sizeof(*(array))); \
        }                                                          \
    } while (0)

/* Behind the last one; the value is taken before the array moves. */
#define PUSH(array, len, cap, ...)              \
    do {                                        \
        __typeof__(*(array)) one = __VA_ARGS__; \
        GROW(array, len, cap);                  \
        (array)[(len)++] = one;                 \
    } while (0)
