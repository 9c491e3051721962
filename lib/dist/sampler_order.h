/* SPDX-License-Identifier: Apache-2.0
 *
 * From a position of an epoch to an item. sampler_permutation.c has the permutation,
 * sampler_order.c what the four orders make of it; sampler.c cuts positions into batches and knows
 * nothing of this.
 */
#pragma once

#include "muster/sampler.h"

enum {
    MW_ROUNDS_MAX = 24
};

/* A bijection of [0, n): a Feistel network on pairs of numbers below high and low. */
struct mw_permutation {
    uint64_t n, high;
    unsigned low_bits; /* low is 2^low_bits; high * low >= n */
    unsigned n_rounds;
    uint64_t key[MW_ROUNDS_MAX];
};

/* splitmix64's function (Steele, Lea and Flood, OOPSLA 2014): a bijection that mixes all bits. */
uint64_t mw_mix(uint64_t x);
/* A key that depends on both. */
uint64_t mw_key(uint64_t key, uint64_t number);
/* random, any 64 bits, as a number below n; each has the same probability but for n / 2^64. */
uint64_t mw_below(uint64_t random, uint64_t n);

/* n at least 1, at most 2^62. */
void mw_permutation_init(struct mw_permutation *permutation, uint64_t n, uint64_t key);
uint64_t mw_permutation_at(const struct mw_permutation *permutation, uint64_t place);

/* BUCKETED: the pool and the batch of the last look. */
struct mw_pool {
    uint64_t items_max, batch;
    uint64_t number, n; /* of the pool; n is 0 before the first */
    uint64_t key;
    uint64_t gap;      /* where the short batch lies among the sorted full ones */
    uint64_t *sorted;  /* length << 32 | place in the pool */
    uint64_t batch_at; /* where the batch of `within` begins in sorted */
    struct mw_permutation batches, within;
};

struct mw_order {
    enum muster_order kind;
    uint64_t n_items, n_positions, seed;
    uint64_t plan;       /* a hash of all that the order depends on; never 0 */
    uint64_t epoch, key; /* the epoch that permutation is for, and its key */
    uint64_t *cumulated; /* WEIGHTED: sums of the weights as integers, up to each item */
    uint64_t offset;     /* WEIGHTED: of this epoch, below the last sum */
    const uint32_t *lengths;
    struct mw_permutation permutation; /* of the positions */
    struct mw_pool pool;
};

/* opts were checked, except for weights and lengths. On error fills in the message. */
int mw_order_init(struct mw_order *order, const struct muster_sampler_opts *opts, char *error,
                  size_t error_cap);
void mw_order_release(struct mw_order *order);
/* position below n_positions */
uint64_t mw_order_at(struct mw_order *order, uint64_t epoch, uint64_t position);
