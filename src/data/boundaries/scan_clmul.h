/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <immintrin.h>
#include <stdint.h>

/* Bit i: the xor of bits 0..i. A carry-less multiplication by all ones gives exactly that. */
static inline uint64_t prefix_xor(uint64_t bits)
{
    __m128i product =
        _mm_clmulepi64_si128(_mm_set_epi64x(0, (long long)bits), _mm_set1_epi8(-1), 0);
    return (uint64_t)_mm_cvtsi128_si64(product);
}
