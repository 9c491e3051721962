/* SPDX-License-Identifier: Apache-2.0
 *
 * Built with -mavx2 and -mpclmul; called only where the processor has both.
 */
#include <immintrin.h>

#include "data/boundaries/boundary_scan.h"
#include "data/boundaries/scan_isa.h"

struct block {
    __m256i low, high;
};

static inline struct block block_load(const unsigned char *at)
{
    return (struct block){_mm256_loadu_si256((const __m256i_u *)at),
                          _mm256_loadu_si256((const __m256i_u *)(at + 32))};
}

static inline uint64_t block_eq(const struct block *b, char c)
{
    __m256i same = _mm256_set1_epi8(c);
    uint32_t low = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(b->low, same));
    uint32_t high = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(b->high, same));
    return low | (uint64_t)high << 32;
}

static inline bool block_has_nul(const struct block *b)
{
    __m256i least = _mm256_min_epu8(b->low, b->high);
    return _mm256_movemask_epi8(_mm256_cmpeq_epi8(least, _mm256_setzero_si256())) != 0;
}

#include "data/boundaries/scan_clmul.h"
#define SCAN_RUN run_avx2
#include "data/boundaries/scan_kernel.h"
#define ROWS_RUN rows_avx2
#include "data/boundaries/rows_kernel.h"

static bool is_usable(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("pclmul") &&
           __builtin_cpu_supports("bmi") && __builtin_cpu_supports("popcnt");
}

const struct scan_kernel scan_kernel_avx2 = {"avx2", is_usable, run_avx2, rows_avx2};
