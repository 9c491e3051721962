/* SPDX-License-Identifier: Apache-2.0
 *
 * Arrays that grow by half their size: one that doubles could take twice the memory that a list of
 * 5 million nodes needs.
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

/* Appends a value. The value is evaluated before the array may move. */
#define PUSH(array, len, cap, ...)              \
    do {                                        \
        __typeof__(*(array)) one = __VA_ARGS__; \
        GROW(array, len, cap);                  \
        (array)[(len)++] = one;                 \
    } while (0)
