/* SPDX-License-Identifier: Apache-2.0
 *
 * Four lanes of 16 bytes at a time: a lane times x^512 mod P is worth the same 64 bytes later, so it is
 * added to what stands there. Source of the method: Gopal and others, Fast CRC Computation for Generic
 * Polynomials Using PCLMULQDQ, Intel 2009.
 */
#include <immintrin.h>

#include "tensor/crc_impl.h"

enum {
    LANE_BYTES = 16,
    LANES = 4,
    STEP_BYTES = LANE_BYTES * LANES,
    LEAST_BYTES = 4 * STEP_BYTES
};

#define CLMUL __attribute__((target("pclmul,sse4.1")))

/* Both halves of the lane moved on, by the distances of the two factors, and `more` added. */
CLMUL static inline __m128i lane_move(__m128i lane, __m128i factors, __m128i more)
{
    __m128i low = _mm_clmulepi64_si128(lane, factors, 0x00);
    __m128i high = _mm_clmulepi64_si128(lane, factors, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), more);
}

CLMUL static inline __m128i lane_at(const char *at)
{
    return _mm_loadu_si128((const __m128i *)(const void *)at);
}

/* zlib takes the complement of its register and gives it back so: from all ones on it begins with 0. */
CLMUL static uint32_t crc_clmul(uint32_t before, struct str bytes)
{
    /* x^(512+32), x^(512-32); x^(128+32), x^(128-32): mod P, their bits in reverse order */
    const __m128i by_step = _mm_set_epi64x(0x1c6e41596, 0x154442bd4);
    const __m128i by_lane = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
    const char *at = bytes.at, *end = bytes.at + bytes.len;
    __m128i lanes[LANES];
    char rest[LANE_BYTES];
    for (size_t i = 0; i < LANES; i++)
        lanes[i] = lane_at(at + i * LANE_BYTES);
    lanes[0] = _mm_xor_si128(lanes[0], _mm_cvtsi32_si128((int)~before));
    for (at += STEP_BYTES; end - at >= STEP_BYTES; at += STEP_BYTES)
        for (size_t i = 0; i < LANES; i++)
            lanes[i] = lane_move(lanes[i], by_step, lane_at(at + i * LANE_BYTES));
    for (size_t i = 1; i < LANES; i++)
        lanes[i] = lane_move(lanes[i - 1], by_lane, lanes[i]);
    _mm_storeu_si128((__m128i *)(void *)rest, lanes[LANES - 1]);
    uint32_t crc = crc_plain(UINT32_MAX, (struct str){rest, sizeof(rest)});
    return crc_plain(crc, (struct str){at, (size_t)(end - at)});
}

bool crc_fast(uint32_t before, struct str bytes, uint32_t *crc)
{
    if (bytes.len < LEAST_BYTES || !__builtin_cpu_supports("pclmul") ||
        !__builtin_cpu_supports("sse4.1"))
        return false;
    *crc = crc_clmul(before, bytes);
    return true;
}
