/* SPDX-License-Identifier: Apache-2.0
 *
 * Plain loops: for any processor, and the oracle of the other kernels.
 */
#include "data/boundaries/boundary_scan.h"
#include "data/boundaries/scan_isa.h"

struct block {
    const unsigned char *at;
};

static inline struct block block_load(const unsigned char *at)
{
    return (struct block){at};
}

static inline uint64_t block_eq(const struct block *b, char c)
{
    uint64_t mask = 0;
    for (unsigned i = 0; i < SCAN_BLOCK_BYTES; i++)
        mask |= (uint64_t)(b->at[i] == (unsigned char)c) << i;
    return mask;
}

static inline bool block_has_nul(const struct block *b)
{
    return block_eq(b, '\0') != 0;
}

#include "data/boundaries/scan_xor.h"
#define SCAN_RUN run_plain
#include "data/boundaries/scan_kernel.h"
#define ROWS_RUN rows_plain
#include "data/boundaries/rows_kernel.h"

static bool is_usable(void)
{
    return true;
}

const struct scan_kernel scan_kernel_plain = {"plain", is_usable, run_plain, rows_plain};
