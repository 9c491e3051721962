/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic of reductions: values of n ranks are combined element by element, in the order of the ranks, so that
 * the result always has the same bits.
 */
#pragma once

#include "inside.h"

/*
 * out[i] = sources[0][i] op sources[1][i] op …, from left to right, as the call has it: type, op, weights.
 *
 * sources  n arrays, n > 0; out may be one of them.
 * 16-bit floats are combined in float32, and 8-bit and 32-bit integers in int64; rounded or cut once.
 */
void md_reduce(const struct md_call *call, void *out, const void *const *sources, uint32_t n,
               size_t count);
