/* SPDX-License-Identifier: Apache-2.0
 *
 * The four orders. All of them are pure functions of the seed, the epoch and the position; stored
 * data (the keys of an epoch, a sorted pool) are only a cache.
 */
#include "sampler_order.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__extension__ typedef unsigned __int128 u128;

enum {
    POOL_BATCHES_DEFAULT = 64,
    /* Change this with any change of an order, so that states of the old order are refused. */
    PLAN_VERSION = 1
};

static int out_of_memory(uint64_t n, const char *what, char *error, size_t error_cap)
{
    snprintf(error, error_cap, "no memory for %llu %s", (unsigned long long)n, what);
    return MUSTER_SAMPLER_ENOMEM;
}

/* Returns the largest weight, or a negative number with a message. */
static double largest_weight(const struct muster_sampler_opts *opts, char *error, size_t error_cap)
{
    double largest = 0;
    for (uint64_t i = 0; i < opts->n_items; i++) {
        double weight = opts->weights[i];
        if (!(weight >= 0 && isfinite(weight))) {
            snprintf(error, error_cap, "the weight of item %llu is %g: expected a finite one, >= 0",
                     (unsigned long long)i, weight);
            return -1;
        }
        largest = weight > largest ? weight : largest;
    }
    if (largest > 0)
        return largest;
    snprintf(error, error_cap, "all weights are 0");
    return -1;
}

/*
 * Weights become integers, so that sums are exact and each number of ranks, compiler and machine
 * draws the same: multiples of 2^-k of the largest one, where n_items * 2^k is at most 2^62. A
 * weight that is smaller counts as one multiple.
 */
static int cumulate(struct mw_order *order, const struct muster_sampler_opts *opts, char *error,
                    size_t error_cap)
{
    if (!opts->weights) {
        snprintf(error, error_cap, "a weighted order needs weights");
        return MUSTER_SAMPLER_EUSE;
    }
    double largest = largest_weight(opts, error, error_cap);
    if (largest < 0)
        return MUSTER_SAMPLER_EUSE;
    order->cumulated = opts->n_items > SIZE_MAX / 8 ? NULL : malloc(opts->n_items * 8);
    if (!order->cumulated)
        return out_of_memory(opts->n_items, "weights", error, error_cap);
    int largest_bits, item_bits = 64 - __builtin_clzll(opts->n_items);
    frexp(largest, &largest_bits);
    int bits = 62 - item_bits < 53 ? 62 - item_bits : 53;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < opts->n_items; i++) {
        uint64_t units = (uint64_t)ldexp(opts->weights[i], bits - largest_bits);
        sum += units == 0 && opts->weights[i] > 0 ? 1 : units;
        order->cumulated[i] = sum;
        order->plan = mw_mix(order->plan + sum);
    }
    return 0;
}

static int pool_init(struct mw_order *order, const struct muster_sampler_opts *opts, char *error,
                     size_t error_cap)
{
    struct mw_pool *pool = &order->pool;
    uint64_t n_batches = opts->pool_batches > 0 ? opts->pool_batches : POOL_BATCHES_DEFAULT;
    if (!opts->lengths) {
        snprintf(error, error_cap, "a bucketed order needs lengths");
        return MUSTER_SAMPLER_EUSE;
    }
    pool->batch = opts->batch;
    pool->items_max = opts->batch > UINT32_MAX ? UINT64_MAX : opts->batch * n_batches;
    uint64_t n = pool->items_max < opts->n_items ? pool->items_max : opts->n_items;
    if (n > UINT32_MAX) {
        snprintf(error, error_cap, "a pool of %llu items: at most 2^32 - 1 can be sorted together",
                 (unsigned long long)n);
        return MUSTER_SAMPLER_EUSE;
    }
    pool->sorted = malloc(n * sizeof(*pool->sorted));
    if (!pool->sorted)
        return out_of_memory(n, "items of a pool", error, error_cap);
    order->lengths = opts->lengths;
    order->plan = mw_key(mw_key(order->plan, pool->batch), pool->items_max);
    for (uint64_t i = 0; i < opts->n_items; i++)
        order->plan = mw_mix(order->plan + opts->lengths[i]);
    return 0;
}

/* Sets the permutation for an epoch. */
static void turn_to(struct mw_order *order, uint64_t epoch)
{
    order->epoch = epoch;
    order->key = mw_key(order->seed, epoch);
    mw_permutation_init(&order->permutation, order->n_positions, order->key);
    order->pool.n = 0;
    if (order->kind == MUSTER_ORDER_WEIGHTED)
        order->offset =
            mw_below(mw_key(order->key, MW_ROUNDS_MAX + 1), order->cumulated[order->n_items - 1]);
}

int mw_order_init(struct mw_order *order, const struct muster_sampler_opts *opts, char *error,
                  size_t error_cap)
{
    bool is_weighted = opts->order == MUSTER_ORDER_WEIGHTED;
    uint64_t n_draws = is_weighted && opts->n_draws > 0 ? opts->n_draws : opts->n_items;
    int rc = 0;
    *order = (struct mw_order){.kind = opts->order,
                               .n_items = opts->n_items,
                               .n_positions = opts->n_items > 0 ? n_draws : 0,
                               .seed = opts->seed,
                               .plan = mw_key(PLAN_VERSION, opts->order)};
    order->plan = mw_key(mw_key(mw_key(order->plan, opts->n_items), n_draws), opts->seed);
    if (opts->n_items == 0)
        return 0;
    if (is_weighted)
        rc = cumulate(order, opts, error, error_cap);
    if (opts->order == MUSTER_ORDER_BUCKETED)
        rc = pool_init(order, opts, error, error_cap);
    order->plan += order->plan == 0;
    if (rc == 0)
        turn_to(order, 0);
    return rc;
}

void mw_order_release(struct mw_order *order)
{
    free(order->cumulated);
    free(order->pool.sorted);
    *order = (struct mw_order){0};
}

/*
 * The sums of the weights are cut into n_positions equal pieces, and one point is taken in each, at
 * the same offset in all pieces: an item gets as many points as its weight has pieces, rounded down
 * or up.
 */
static uint64_t weighted_at(const struct mw_order *order, uint64_t position)
{
    uint64_t total = order->cumulated[order->n_items - 1];
    uint64_t piece = mw_permutation_at(&order->permutation, position);
    uint64_t point = (uint64_t)(((u128)piece * total + order->offset) / order->n_positions);
    uint64_t first = 0, last = order->n_items - 1;
    while (first < last) {
        uint64_t middle = first + (last - first) / 2;
        if (order->cumulated[middle] > point)
            last = middle;
        else
            first = middle + 1;
    }
    return first;
}

static int compare_u64(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static void fill_pool(struct mw_order *order, uint64_t number)
{
    struct mw_pool *pool = &order->pool;
    uint64_t begin = number * pool->items_max, left = order->n_positions - begin;
    pool->number = number;
    pool->n = left < pool->items_max ? left : pool->items_max;
    for (uint64_t i = 0; i < pool->n; i++) {
        uint64_t item = mw_permutation_at(&order->permutation, begin + i);
        pool->sorted[i] = (uint64_t)order->lengths[item] << 32 | i;
    }
    qsort(pool->sorted, pool->n, sizeof(*pool->sorted), compare_u64);
    uint64_t n_full = pool->n / pool->batch;
    pool->key = mw_key(mw_key(order->key, MW_ROUNDS_MAX + 2), number);
    pool->gap = mw_below(mw_key(pool->key, MW_ROUNDS_MAX + 3), n_full + 1);
    pool->batch_at = UINT64_MAX;
    if (n_full > 0)
        mw_permutation_init(&pool->batches, n_full, pool->key);
}

static uint64_t bucketed_at(struct mw_order *order, uint64_t position)
{
    struct mw_pool *pool = &order->pool;
    uint64_t number = position / pool->items_max, place = position % pool->items_max;
    if (pool->n == 0 || pool->number != number)
        fill_pool(order, number);
    uint64_t batch = place / pool->batch, n_full = pool->n / pool->batch;
    uint64_t rest = pool->n % pool->batch, size = rest, at = pool->gap * pool->batch;
    if (batch < n_full) {
        uint64_t rank = mw_permutation_at(&pool->batches, batch);
        at = rank * pool->batch + (rank >= pool->gap ? rest : 0);
        size = pool->batch;
    }
    /*
     * Items are shuffled within a batch too; otherwise the first rank would get the shortest ones.
     */
    if (pool->batch_at != at) {
        mw_permutation_init(&pool->within, size, mw_key(mw_key(pool->key, MW_ROUNDS_MAX + 4), at));
        pool->batch_at = at;
    }
    at += mw_permutation_at(&pool->within, place % pool->batch);
    uint64_t in_pool = pool->sorted[at] & UINT32_MAX;
    return mw_permutation_at(&order->permutation, number * pool->items_max + in_pool);
}

uint64_t mw_order_at(struct mw_order *order, uint64_t epoch, uint64_t position)
{
    if (order->epoch != epoch)
        turn_to(order, epoch);
    switch (order->kind) {
    case MUSTER_ORDER_SHUFFLED:
        return mw_permutation_at(&order->permutation, position);
    case MUSTER_ORDER_SEQUENTIAL:
        return position;
    case MUSTER_ORDER_WEIGHTED:
        return weighted_at(order, position);
    case MUSTER_ORDER_BUCKETED:
        return bucketed_at(order, position);
    }
    return UINT64_MAX;
}
