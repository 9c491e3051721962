/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel for SSE2, which every x86-64 processor has.
 */
#include <emmintrin.h>

#include "data/boundaries/boundary_scan.h"
#include "data/boundaries/scan_isa.h"

struct block {
    __m128i part[4];
};

static inline struct block block_load(const unsigned char *at)
{
    struct block b;
    for (int i = 0; i < 4; i++)
        b.part[i] = _mm_loadu_si128((const __m128i_u *)(at + (ptrdiff_t)16 * i));
    return b;
}

static inline uint64_t block_eq(const struct block *b, char c)
{
    uint64_t mask = 0;
    __m128i same = _mm_set1_epi8(c);
    for (int i = 0; i < 4; i++)
        mask |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(b->part[i], same)) << (16 * i);
    return mask;
}

static inline bool block_has_nul(const struct block *b)
{
    __m128i least =
        _mm_min_epu8(_mm_min_epu8(b->part[0], b->part[1]), _mm_min_epu8(b->part[2], b->part[3]));
    return _mm_movemask_epi8(_mm_cmpeq_epi8(least, _mm_setzero_si128())) != 0;
}

#include "data/boundaries/scan_xor.h"
#define SCAN_RUN run_sse2
#include "data/boundaries/scan_kernel.h"
#define ROWS_RUN rows_sse2
#include "data/boundaries/rows_kernel.h"

static bool is_usable(void)
{
    return true;
}

const struct scan_kernel scan_kernel_sse2 = {"sse2", is_usable, run_sse2, rows_sse2};
