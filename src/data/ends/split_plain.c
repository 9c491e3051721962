/* SPDX-License-Identifier: Apache-2.0
 *
 * Plain loops: for any processor, and the oracle of the other kernels.
 */
#include "data/ends/split.h"
#include "data/ends/split_isa.h"

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
    for (unsigned i = 0; i < SPLIT_BLOCK_BYTES; i++)
        mask |= (uint64_t)(b->at[i] == (unsigned char)c) << i;
    return mask;
}

static inline bool block_has_nul(const struct block *b)
{
    return block_eq(b, '\0') != 0;
}

#include "data/ends/split_xor.h"
#define SPLIT_RUN run_plain
#include "data/ends/split_kernel.h"
#define ROWS_RUN rows_plain
#include "data/ends/rows_kernel.h"

static bool is_usable(void)
{
    return true;
}

const struct split_kernel split_kernel_plain = {"plain", is_usable, run_plain, rows_plain};
