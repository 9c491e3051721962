/* SPDX-License-Identifier: Apache-2.0
 *
 * Built with -mavx512bw: a comparison gives the mask at once. Called only where the processor has
 * it.
 */
#include <immintrin.h>

#include "data/boundaries/boundary_scan.h"
#include "data/boundaries/scan_isa.h"

struct block {
    __m512i all;
};

static inline struct block block_load(const unsigned char *at)
{
    return (struct block){_mm512_loadu_si512(at)};
}

static inline uint64_t block_eq(const struct block *b, char c)
{
    return _mm512_cmpeq_epi8_mask(b->all, _mm512_set1_epi8(c));
}

static inline bool block_has_nul(const struct block *b)
{
    return _mm512_testn_epi8_mask(b->all, b->all) != 0;
}

#include "data/boundaries/scan_clmul.h"
#define SCAN_RUN run_avx512
#include "data/boundaries/scan_kernel.h"
#define ROWS_RUN rows_avx512
#include "data/boundaries/rows_kernel.h"

static bool is_usable(void)
{
    return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("pclmul") &&
           __builtin_cpu_supports("bmi") && __builtin_cpu_supports("popcnt");
}

const struct scan_kernel scan_kernel_avx512 = {"avx512", is_usable, run_avx512, rows_avx512};
