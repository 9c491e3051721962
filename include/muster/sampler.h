/* SPDX-License-Identifier: Apache-2.0
 *
 * Which items a rank trains on, and in what order:
 *
 *     const struct muster_sampler_opts opts = {
 *         .n_items = 1281167, .batch = 256, .seed = 1, .rank = rank, .world = world};
 *     struct muster_sampler *sampler = muster_sampler_new(&opts);
 *     struct muster_batch batch;
 *     uint64_t indices[32];
 *     while (muster_sampler_next(sampler, &batch) > 0)
 *         for (uint64_t done = 0, n; done < batch.n_most; done += 32) {
 *             n = muster_sampler_read(sampler, &batch, done, indices, 32);
 *             …                      (n may be 0 on ranks that have less: take part in collectives)
 *         }
 *
 * An epoch is a sequence of positions, 0 to n_positions - 1, and a function from a position to an
 * item, which depends on the seed, the epoch and the position alone. The function is computed, not
 * stored: a sampler of 10^9 items needs no memory, and begins anywhere at once. Positions are cut
 * into global batches, and each batch into one contiguous share for each rank. Nothing is padded
 * and nothing is dropped: the last batch of an epoch is short, and ranks may have fewer items in it
 * than others, or none. So all ranks see the same number of batches, on any number of ranks, and
 * averages are right if sums over a batch are divided by batch.n_global.
 *
 * To resume, save muster_sampler_state with the checkpoint: 24 bytes, the same on all ranks. The
 * order goes on where it was, on another number of ranks too.
 *
 * Errors are sticky: the first one is kept with its message, and every later call returns it. So a
 * program needs to check only next. One thread uses a sampler at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* The same words as in the library's other headers, so that any of them may come first. */
#define MUSTER_API __attribute__((visibility("default")))

enum muster_sampler_code {
    MUSTER_SAMPLER_EUSE = -1, /* invalid options or arguments */
    MUSTER_SAMPLER_ENOMEM = -2,
    MUSTER_SAMPLER_EPLAN = -3, /* the state belongs to other items, another seed or another order */
};

enum muster_order {
    /*
     * A keyed permutation, different in each epoch; each item once. Source: Black and Rogaway, "Ciphers with
     * arbitrary finite domains" (CT-RSA 2002): generalized Feistel, cycle walking.
     */
    MUSTER_ORDER_SHUFFLED,
    MUSTER_ORDER_SEQUENTIAL, /* 0, 1, 2, …; each item once */
    /*
     * n_draws positions, of which each item has its share: an item of weight w is drawn
     * n_draws * w / sum of weights times, rounded down or up, by chance so that the mean over
     * epochs is exact (systematic sampling; Madow, Ann. Math. Statist. 20, 1949). So a heavy item
     * comes several times an epoch, and one of weight 0 never. In shuffled order. Memory: 8 bytes
     * an item.
     */
    MUSTER_ORDER_WEIGHTED,
    /*
     * Batches of items that have nearly the same length; each item once. The shuffled order is cut
     * into pools of pool_batches batches, each pool is sorted by length and cut into batches, and
     * the batches of a pool, and the items of a batch, are shuffled. The order depends on batch and
     * pool_batches. Memory: 8 bytes for each item of one pool, and as much again while it is
     * sorted.
     */
    MUSTER_ORDER_BUCKETED,
};

/* Zero means default. All ranks give the same values, except for rank. */
struct muster_sampler_opts {
    uint64_t n_items; /* at most 2^62 */
    uint64_t batch;   /* items of a global batch, over all ranks; at least 1 */
    uint64_t seed;
    uint32_t rank, world; /* default: one rank */
    /*
     * A batch is cut into this many shards whatever the number of ranks is, and ranks take whole shards: for sums
     * whose order must not depend on the number of ranks. See muster_share. With n_shards of muster_ddp_opts they are
     * the shards that the rank has there. Default: no shards.
     */
    uint32_t shards;
    enum muster_order order;
    const double *weights;   /* WEIGHTED: n_items of them, finite, not negative; only read by new */
    uint64_t n_draws;        /* WEIGHTED: positions of an epoch; default n_items */
    const uint32_t *lengths; /* BUCKETED: n_items of them, borrowed for the sampler's life */
    uint32_t pool_batches;   /* BUCKETED: default 64 */
};

/* A place in the global order. Plain numbers, to be saved in any way. */
struct muster_sampler_state {
    uint64_t epoch;
    uint64_t position; /* the first one that no batch has covered */
    uint64_t plan;     /* a hash of what the order depends on */
};

/* A global batch, and this rank's part of it. */
struct muster_batch {
    uint64_t epoch;
    uint64_t first, n_global; /* positions of the batch, over all ranks */
    uint64_t begin, n;        /* positions of this rank; n may be 0 */
    uint64_t n_most;          /* the largest n of all ranks */
};

struct muster_sampler;

/* NULL only for lack of memory for the handle; the other calls accept NULL. */
MUSTER_API struct muster_sampler *muster_sampler_new(const struct muster_sampler_opts *opts);
MUSTER_API void muster_sampler_free(struct muster_sampler *sampler);

/* The message of the sticky error, "" while there is none. Borrowed from the sampler. */
MUSTER_API const char *muster_sampler_error(const struct muster_sampler *sampler);

/*
 * Go on to the next global batch. Returns 1; 0 at the end of the epoch, once: the call after that
 * gives the first batch of the next epoch; negative on error. The same on all ranks.
 */
MUSTER_API int muster_sampler_next(struct muster_sampler *sampler, struct muster_batch *batch);

/* Whether next would return 1. The same on all ranks. */
MUSTER_API bool muster_sampler_has_more(const struct muster_sampler *sampler);

/*
 * How many of the batches that are left of this epoch have items for `rank`. Rank 0 has items in
 * all of them; another rank may end earlier by one, or have none where a batch is smaller than the
 * world.
 */
MUSTER_API uint64_t muster_sampler_steps(const struct muster_sampler *sampler, uint32_t rank);

/*
 * The items of this rank's share from its `from`-th on, at most indices_max. Returns how many were
 * written, 0 behind the end of the share. Any batch of this sampler, in any order.
 */
MUSTER_API size_t muster_sampler_read(struct muster_sampler *sampler,
                                      const struct muster_batch *batch, uint64_t from,
                                      uint64_t *indices, size_t indices_max);

/*
 * The item at any position of any epoch; UINT64_MAX if there is none. O(1), below 1 us; WEIGHTED
 * O(log n_items); BUCKETED sorts a pool when it comes to another one.
 */
MUSTER_API uint64_t muster_sampler_at(struct muster_sampler *sampler, uint64_t epoch,
                                      uint64_t position);

/* How many positions an epoch has. */
MUSTER_API uint64_t muster_sampler_positions(const struct muster_sampler *sampler);

MUSTER_API void muster_sampler_state(const struct muster_sampler *sampler,
                                     struct muster_sampler_state *state);

/*
 * Go to a state: one that was saved, or .plan = 0, which fits every sampler. world may differ from that of the saved
 * state, and so may batch, except for BUCKETED. Any other difference is EPLAN, at the latest in next.
 */
MUSTER_API int muster_sampler_resume(struct muster_sampler *sampler,
                                     const struct muster_sampler_state *state);

/*
 * Cut n things into n_parts contiguous parts whose sizes differ by at most one, the larger ones
 * first. Returns the size of a part, and where it begins. Pure. It is how a batch is cut into
 * shares, and into shards.
 */
MUSTER_API uint64_t muster_share(uint64_t n, uint32_t part, uint32_t n_parts, uint64_t *begin);

#if defined(__cplusplus)
}
#endif
