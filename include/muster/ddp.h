/* SPDX-License-Identifier: Apache-2.0
 *
 * Data-parallel training: each rank has the whole model and a part of each batch, and the gradients are
 * averaged over the ranks while the backward pass goes on.
 *
 *     struct muster_ddp *ddp = muster_ddp_new(dist, params, n_params, NULL);
 *     muster_ddp_broadcast(ddp, 0);
 *     for (each batch) {
 *         muster_ddp_begin(ddp, n_samples);
 *         backward: muster_ddp_ready(ddp, i) when the gradient of params[i] is complete
 *         if (muster_ddp_finish(ddp) != 0)
 *             break;
 *         muster_ddp_clip(ddp, 1, &norm);
 *         optimiser
 *     }
 *
 * Gradients travel in buckets, in the reverse order of registration, which is about the order in which backward makes
 * them. finish takes a gradient that was not reported as ready, as of a parameter that this batch did not use, as it
 * is. A thread of the library packs, looks for NaN, exchanges and unpacks, so ready returns at once. After finish
 * every rank has the mean over all samples of all ranks, however unevenly these are spread, and the same bits.
 *
 * A rank's share of the samples is its weight in the sum over ranks. 16-bit floats are weighted and
 * added in float32, and rounded once, so the mean of gradients that their type has is one that it has.
 *
 * Accumulation: run the passes of the first micro-batches without begin, which is when ready has no
 * effect, and count their samples by muster_ddp_accumulate; gradients add up in their memory. Begin and
 * finish are for the last one.
 *
 * The same bits on any number of ranks (opts.n_shards): the global batch is cut into that many shards,
 * each rank has some of them in a row (muster_ddp_shards), computes the gradient of one after the other
 * from zero, and deposits each by muster_ddp_shard, which zeroes the gradients; then finish. Shards are
 * added up in a fixed binary tree, so the result depends on their gradients alone.
 *
 * Gradients and values may lie in device memory, if dist was told of it. Such gradients are put into their bucket on
 * the caller's stream, so ready returns at once, and NCCL combines them there. finish waits for NCCL, and copies the
 * means back on the caller's stream, for what is put there next. Each rank's share of an uneven batch is a factor
 * that NCCL rounds to the type of the gradient; sums in float16 over more than 16384 samples go through the host,
 * because the factor would be too small for that type. The library has no kernels: functions that look at values copy
 * them to the host, which is slow. These are the search for NaN in finish (in the result, on all ranks;
 * allows_nonfinite leaves it out), norm, clip and check_replicas. n_shards, and a wire of another type, are refused.
 *
 * Errors are those of the muster_dist handle: sticky, and the same on all ranks. Functions may be called
 * from several threads.
 */
#pragma once

#include "muster/dist.h"

#if defined(__cplusplus)
extern "C" {
#endif

struct muster_ddp;

/* A tensor of the model. Types are float32, float64, bfloat16, float16. */
struct muster_param {
    const char *name; /* for messages; copied */
    enum muster_type type;
    size_t count;
    void *value; /* NULL: neither broadcast nor compared */
    void
        *gradient; /* of the same type; NULL: the library has memory for it (muster_ddp_gradient) */
};

/* Zero means default. */
struct muster_ddp_opts {
    size_t bucket_bytes; /* default 25 MiB; a larger parameter has a bucket of its own. The last
                            bucket has an eighth, or one parameter: no backward pass hides it */
    enum muster_type
        wire; /* bfloat16 or float16: float32 gradients travel in it, summed in float32;
                                others: as they are */
    bool gradients_are_sums; /* over samples; default: means over the samples that a rank counts */
    bool allows_nonfinite;   /* default: NaN, infinity, and what overflows the wire, are errors */
    uint32_t n_shards;       /* a power of two, at least the number of ranks; default: none */
};

/* A bucket in the newest step. CLOCK_MONOTONIC; zeros in a world that has not finished one. */
struct muster_ddp_bucket {
    size_t n_params, bytes;
    uint64_t ready_ns, begin_ns, end_ns; /* handed over; its exchange on this rank, with packing */
};

/*
 * Register the parameters, in the order of the forward pass, and once what layers share: no two gradients
 * have memory in common. They are the same on every rank, also in
 * whether they have a value, and so are the options, which is checked.
 * NULL, with the error of dist, if that failed. dist must outlive it.
 */
MUSTER_API struct muster_ddp *muster_ddp_new(struct muster_dist *dist,
                                             const struct muster_param *params, size_t n_params,
                                             const struct muster_ddp_opts *opts);
MUSTER_API void muster_ddp_free(struct muster_ddp *ddp);

/* The gradient of a parameter. If the user gave no memory for it, it lies directly in its bucket, and is not copied. */
MUSTER_API void *muster_ddp_gradient(struct muster_ddp *ddp, size_t param);

/* Give every rank the values of root. */
MUSTER_API int muster_ddp_broadcast(struct muster_ddp *ddp, uint32_t root);

/*
 * Count the samples of a micro-batch whose gradients stay here until the step that begins later.
 * MUSTER_DIST_EUSE: between begin and finish, or with n_shards, where each shard has its count.
 */
MUSTER_API int muster_ddp_accumulate(struct muster_ddp *ddp, uint64_t n_samples);

/*
 * Begin the pass whose gradients travel. n_samples: of this micro-batch. A rank without samples in the whole step
 * takes part with 0; its gradients are not used.
 */
MUSTER_API int muster_ddp_begin(struct muster_ddp *ddp, uint64_t n_samples);
/* The gradient is complete, and must not be touched until finish. */
MUSTER_API int muster_ddp_ready(struct muster_ddp *ddp, size_t param);
MUSTER_API int muster_ddp_finish(struct muster_ddp *ddp);

/* The shards of this rank: from *first on, before *end. A sampler with as many shards gives it their items, in order. */
MUSTER_API void muster_ddp_shards(const struct muster_ddp *ddp, uint32_t *first, uint32_t *end);
MUSTER_API int muster_ddp_shard(struct muster_ddp *ddp, uint64_t n_samples);

/*
 * The Euclidean norm of all gradients together, after finish and before the next step; the same bits on
 * all ranks. clip scales them to max_norm if it is greater, and tells what it was; a norm that is not
 * finite changes nothing. norm may be NULL. MUSTER_DIST_EUSE: not after finish, or max_norm is negative or
 * NaN.
 */
MUSTER_API int muster_ddp_norm(struct muster_ddp *ddp, double *norm);
MUSTER_API int muster_ddp_clip(struct muster_ddp *ddp, double max_norm, double *norm);

/*
 * Compare the values of all ranks by a hash for each parameter. MUSTER_DIST_EDATA names the first that
 * differs, and the ranks that have other bits than most.
 */
MUSTER_API int muster_ddp_check_replicas(struct muster_ddp *ddp);

/* How many buckets there are, and one of them. */
MUSTER_API size_t muster_ddp_n_buckets(const struct muster_ddp *ddp);
MUSTER_API void muster_ddp_bucket(struct muster_ddp *ddp, size_t bucket,
                                  struct muster_ddp_bucket *out);

#if defined(__cplusplus)
}
#endif
