/* SPDX-License-Identifier: Apache-2.0
 *
 * A step: the exchange of a bucket is started when its gradients are ready, in the order of the
 * buckets, which is the same on all ranks whatever becomes ready first. The thread of the
 * operations does the rest: it puts the gradients into the bucket, checks whether they are finite,
 * and takes the means out, so that the caller's backward pass goes on meanwhile.
 *
 * The mean over samples, of which ranks have different numbers, is a sum over ranks in which the
 * gradients of rank r have the weight samples_r / samples (1 / samples where gradients are sums).
 * Weights belong to the reduction, which is in float32 for 16-bit floats, so values are rounded
 * once, and none grows on the way. With equal shares it is the plain mean.
 */
#include "ddp_inside.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- what cannot be ---- */

/* Looks at the values again, in the rare case of an error, to find the words of the message. */
int md_nonfinite_tell(struct muster_ddp *ddp, const struct ddp_param *param, const void *packed,
                      enum muster_type wire)
{
    const struct muster_param *is = &param->is;
    size_t first = 0, n_bad = 0, width = muster_type_bytes(wire);
    for (size_t i = 0; i < is->count; i++)
        if (!md_are_finite((const char *)packed + i * width, wire, 1) && n_bad++ == 0)
            first = i;
    const char *value = (const char *)is->gradient + first * muster_type_bytes(is->type);
    return md_fail(ddp->dist, MUSTER_DIST_EDATA,
                   "rank %u: the gradient of '%s' has values %s: %zu of %zu, the first at %zu",
                   ddp->dist->place.rank, is->name,
                   md_are_finite(value, is->type, 1) ? "too large for its type on the way"
                                                     : "that are NaN or infinite",
                   n_bad, is->count, first);
}

/* ---- samples ---- */

/*
 * Ends a failed step. The gradients belong to the caller again, so the thread must not read them
 * any more.
 */
static void step_settle(struct muster_ddp *ddp, int rc)
{
    if (rc != 0)
        muster_dist_wait(ddp->dist, ddp->ticket);
}

/*
 * Samples that are counted within a step would come too late for it; shards are counted by
 * muster_ddp_shard.
 */
static int samples_add(struct muster_ddp *ddp, uint64_t n_samples)
{
    if (ddp->is_begun || ddp->opts.n_shards != 0)
        return md_fail(ddp->dist, MUSTER_DIST_EUSE, "rank %u: muster_ddp_accumulate %s",
                       ddp->dist->place.rank,
                       ddp->is_begun ? "between muster_ddp_begin and muster_ddp_finish"
                                     : "where shards are asked for");
    ddp->n_samples += n_samples;
    ddp->is_finished = false;
    return 0;
}

/* Runs in the thread, when the sample counts of all ranks are there. */
static void samples_weigh(void *arg)
{
    struct muster_ddp *ddp = arg;
    uint32_t size = ddp->dist->place.size;
    ddp->n_all = 0;
    ddp->is_weighted = false;
    for (uint32_t r = 0; r < size; r++)
        ddp->n_all += ddp->samples[r];
    for (uint32_t r = 0; r < size; r++) {
        double share = ddp->opts.gradients_are_sums ? 1 : ddp->samples[r];
        ddp->is_weighted = ddp->is_weighted || share * size != ddp->n_all;
        ddp->weights[r] = share / ddp->n_all;
    }
}

/* *weights becomes NULL if all ranks have the same weight: the plain mean is taken then. */
static int weights_give(struct muster_ddp *ddp, const double **weights)
{
    if (ddp->n_all == 0)
        return md_fail(ddp->dist, MUSTER_DIST_EUSE, "no rank has samples in this step");
    *weights = ddp->is_weighted ? ddp->weights : NULL;
    return 0;
}

static int step_begin(struct muster_ddp *ddp, uint64_t n_samples)
{
    if (ddp->is_begun || ddp->opts.n_shards != 0)
        return md_fail(
            ddp->dist, MUSTER_DIST_EUSE, "rank %u: muster_ddp_begin %s", ddp->dist->place.rank,
            ddp->is_begun ? "twice, without muster_ddp_finish" : "where shards are asked for");
    ddp->n_samples += n_samples;
    ddp->samples[ddp->dist->place.rank] = (double)ddp->n_samples;
    ddp->n_started = 0;
    ddp->is_begun = true;
    ddp->is_finished = false;
    for (size_t i = 0; i < ddp->n_params; i++)
        ddp->params[i].is_ready = false;
    for (size_t b = 0; b < ddp->n_buckets; b++)
        ddp->buckets[b].n_ready = 0;
    const struct muster_dist_call call = {
        .kind = MUSTER_ALL_GATHER, .type = MUSTER_FLOAT64, .out = ddp->samples, .count = 1};
    ddp->samples_around = (struct md_around){.after = samples_weigh, .arg = ddp};
    int rc = md_start(ddp->dist, &call, NULL, &ddp->samples_around, &ddp->samples_ticket);
    ddp->ticket = rc == 0 ? ddp->samples_ticket : ddp->ticket;
    return rc;
}

typedef int samples_fn(struct muster_ddp *ddp, uint64_t n_samples);

static int samples_take(struct muster_ddp *ddp, uint64_t n_samples, samples_fn *take)
{
    int rc = ddp ? md_check(ddp->dist) : MUSTER_DIST_ENOMEM;
    if (rc != 0)
        return rc;
    pthread_mutex_lock(&ddp->lock);
    rc = take(ddp, n_samples);
    step_settle(ddp, rc);
    pthread_mutex_unlock(&ddp->lock);
    return rc;
}

int muster_ddp_accumulate(struct muster_ddp *ddp, uint64_t n_samples)
{
    return samples_take(ddp, n_samples, samples_add);
}

int muster_ddp_begin(struct muster_ddp *ddp, uint64_t n_samples)
{
    return samples_take(ddp, n_samples, step_begin);
}

/* ---- buckets ---- */

static int param_pack(const struct ddp_bucket *bucket, const struct ddp_param *param)
{
    struct muster_ddp *ddp = bucket->ddp;
    size_t width = muster_type_bytes(bucket->wire);
    char *to = (char *)bucket->flat + param->at * width;
    const struct muster_param *is = &param->is;
    if (ddp->samples[ddp->dist->place.rank] == 0) {
        memset(to, 0, is->count * width);
        return 0;
    }
    bool is_finite = true;
    if (!param->is_view)
        is_finite = md_pack(to, bucket->wire, is->gradient, is->type, is->count, 1);
    else if (!ddp->opts.allows_nonfinite) /* these values are in place already */
        is_finite = md_are_finite(to, is->type, is->count);
    if (is_finite || ddp->opts.allows_nonfinite)
        return 0;
    return md_nonfinite_tell(ddp, param, to, bucket->wire);
}

/* Runs in the thread. The weights are known by then, because operations are done in order. */
static int bucket_pack(void *arg, const double **weights)
{
    const struct ddp_bucket *bucket = arg;
    struct muster_ddp *ddp = bucket->ddp;
    int rc = weights_give(ddp, weights);
    for (size_t i = bucket->first; rc == 0 && i < bucket->first + bucket->n; i++)
        rc = param_pack(bucket, &ddp->params[i]);
    return rc;
}

/* Runs in the thread. */
static void bucket_unpack(void *arg)
{
    const struct ddp_bucket *bucket = arg;
    size_t width = muster_type_bytes(bucket->wire);
    for (size_t i = bucket->first; i < bucket->first + bucket->n; i++) {
        const struct ddp_param *param = &bucket->ddp->params[i];
        if (!param->is_view)
            md_unpack(param->is.gradient, param->is.type,
                      (const char *)bucket->flat + param->at * width, bucket->wire,
                      param->is.count);
    }
}

/*
 * Runs in the caller, when the weights are known: NCCL is given this rank's weight with the
 * operation.
 */
static int device_bucket_start(struct muster_ddp *ddp, struct ddp_bucket *bucket,
                               const struct muster_dist_call *call)
{
    size_t width = muster_type_bytes(bucket->wire);
    const double *weights = NULL;
    bool has_samples = ddp->n_samples > 0;
    int rc = muster_dist_wait(ddp->dist, ddp->samples_ticket);
    rc = rc ? rc : weights_give(ddp, &weights);
    for (size_t i = bucket->first; rc == 0 && i < bucket->first + bucket->n; i++) {
        const struct ddp_param *param = &ddp->params[i];
        rc = md_device_put(ddp->dist, (char *)bucket->flat + param->at * width,
                           has_samples ? param->is.gradient : NULL, param->is.count * width);
    }
    return rc ? rc : md_start(ddp->dist, call, weights, NULL, &bucket->ticket);
}

static int bucket_start(struct muster_ddp *ddp, struct ddp_bucket *bucket)
{
    const struct muster_dist_call call = {MUSTER_ALL_REDUCE, bucket->wire, MUSTER_MEAN,  0,
                                          bucket->flat,      bucket->flat, bucket->count};
    bucket->around = (struct md_around){bucket_pack, bucket_unpack, bucket};
    bucket->ready_ns = md_now_ns();
    int rc = bucket->is_on_device
                 ? device_bucket_start(ddp, bucket, &call)
                 : md_start(ddp->dist, &call, NULL, &bucket->around, &bucket->ticket);
    ddp->ticket = rc == 0 ? bucket->ticket : ddp->ticket;
    return rc;
}

/* Starts the buckets that are ready, in their order. */
static int buckets_start(struct muster_ddp *ddp, bool is_last)
{
    int rc = 0;
    while (rc == 0 && ddp->n_started < ddp->n_buckets) {
        struct ddp_bucket *bucket = &ddp->buckets[ddp->n_started];
        if (bucket->n_ready < bucket->n && !is_last)
            break;
        rc = bucket_start(ddp, bucket);
        ddp->n_started += rc == 0;
    }
    return rc;
}

static int param_ready(struct muster_ddp *ddp, size_t index)
{
    struct ddp_param *param = index < ddp->n_params ? &ddp->params[index] : NULL;
    if (!param || (ddp->is_begun && param->is_ready))
        return md_fail(ddp->dist, MUSTER_DIST_EUSE, "rank %u: parameter %zu%s%s%s %s",
                       ddp->dist->place.rank, index, param ? ", '" : "",
                       param ? param->is.name : "", param ? "'," : "",
                       param ? "is ready twice in a step" : "is ready, and does not exist");
    if (!ddp->is_begun)
        return muster_dist_code(ddp->dist);
    param->is_ready = true;
    ddp->buckets[param->bucket].n_ready++;
    return buckets_start(ddp, false);
}

int muster_ddp_ready(struct muster_ddp *ddp, size_t param)
{
    int rc = ddp ? md_check(ddp->dist) : MUSTER_DIST_ENOMEM;
    if (!ddp)
        return rc;
    pthread_mutex_lock(&ddp->lock);
    rc = rc ? rc : param_ready(ddp, param);
    step_settle(ddp, rc);
    pthread_mutex_unlock(&ddp->lock);
    return rc;
}

/* ---- the end ---- */

/*
 * Runs in the caller: unpacks buckets on a device, because the caller's stream may still work on
 * their values.
 */
static int device_bucket_unpack(struct muster_ddp *ddp, const struct ddp_bucket *bucket)
{
    size_t width = muster_type_bytes(bucket->wire);
    int rc = ddp->opts.allows_nonfinite ? 0 : md_bucket_look(ddp, bucket);
    for (size_t i = bucket->first; rc == 0 && i < bucket->first + bucket->n; i++) {
        const struct ddp_param *param = &ddp->params[i];
        rc = md_device_put(ddp->dist, param->is.gradient,
                           (const char *)bucket->flat + param->at * width, param->is.count * width);
    }
    return rc;
}

static int step_finish(struct muster_ddp *ddp)
{
    if (!ddp->is_begun)
        return md_fail(ddp->dist, MUSTER_DIST_EUSE,
                       "rank %u: muster_ddp_finish without muster_ddp_begin",
                       ddp->dist->place.rank);
    int rc = buckets_start(ddp, true);
    rc = rc ? rc : muster_dist_wait(ddp->dist, ddp->ticket);
    for (size_t b = 0; rc == 0 && b < ddp->n_buckets; b++)
        if (ddp->buckets[b].is_on_device)
            rc = device_bucket_unpack(ddp, &ddp->buckets[b]);
    ddp->is_begun = false;
    ddp->n_samples = 0;
    return rc;
}

int muster_ddp_finish(struct muster_ddp *ddp)
{
    int rc = ddp ? md_check(ddp->dist) : MUSTER_DIST_ENOMEM;
    if (!ddp)
        return rc;
    pthread_mutex_lock(&ddp->lock);
    if (rc == 0)
        rc = ddp->opts.n_shards != 0 ? md_shards_finish(ddp) : step_finish(ddp);
    ddp->is_finished = rc == 0;
    step_settle(ddp, rc);
    pthread_mutex_unlock(&ddp->lock);
    return rc;
}
