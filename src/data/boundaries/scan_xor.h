/* SPDX-License-Identifier: Apache-2.0
 *
 * Prefix xor by doubling, for processors without a carry-less product.
 */
#pragma once

#include <stdint.h>

static inline uint64_t prefix_xor(uint64_t bits)
{
    for (unsigned shift = 1; bits && shift < 64; shift *= 2)
        bits ^= bits << shift;
    return bits;
}
