/* SPDX-License-Identifier: Apache-2.0
 *
 * A step: gradients are put into their bucket as they become ready, and a bucket that is complete is
 * sent on its way, in the order of the buckets, which is the same on all ranks whatever became ready
 * first.
 *
 * The mean over samples, of which ranks have different numbers, is made of the mean over ranks: rank r
 * multiplies by n_ranks × samples_r / samples before (without samples_r where gradients are sums). With
 * equal shares that is 1, and nothing is changed by it.
 */
#include "ddp_inside.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- what cannot be ---- */

/* The rare case: look again, for the words. */
int md_nonfinite_tell(struct muster_ddp *ddp, const struct ddp_param *param, enum muster_type wire,
                      double factor)
{
    size_t first = 0, n_bad = 0, width = muster_type_bytes(param->is.type);
    const char *values = param->is.gradient;
    uint64_t room;
    for (size_t i = 0; i < param->is.count; i++)
        if (!md_pack(&room, wire, values + i * width, param->is.type, 1, factor) && n_bad++ == 0)
            first = i;
    bool is_kept = md_pack(&room, param->is.type, values + first * width, param->is.type, 1, 1);
    return md_fail(ddp->dist, MUSTER_DIST_EDATA,
                   "rank %u: the gradient of '%s' has values %s: %zu of %zu, the first at %zu",
                   ddp->dist->place.rank, param->is.name,
                   is_kept ? "too large for its type on the way" : "that are NaN or infinite",
                   n_bad, param->is.count, first);
}

/* ---- samples ---- */

/* Waits for the number of samples of all ranks, which was asked for at the step's begin. */
static int factor_find(struct muster_ddp *ddp)
{
    if (ddp->samples_ticket == 0)
        return muster_dist_code(ddp->dist);
    int rc = muster_dist_wait(ddp->dist, ddp->samples_ticket);
    ddp->samples_ticket = 0;
    if (rc != 0)
        return rc;
    double all = ddp->samples[1], own = (double)ddp->n_samples, size = ddp->dist->place.size;
    if (all == 0)
        return md_fail(ddp->dist, MUSTER_DIST_EUSE, "no rank has samples in this step");
    ddp->factor = ddp->opts.gradients_are_sums ? size / all : size * own / all;
    return 0;
}

int muster_ddp_accumulate(struct muster_ddp *ddp, uint64_t n_samples)
{
    if (!ddp)
        return MUSTER_DIST_ENOMEM;
    pthread_mutex_lock(&ddp->lock);
    ddp->n_samples += n_samples;
    pthread_mutex_unlock(&ddp->lock);
    return muster_dist_code(ddp->dist);
}

static int step_begin(struct muster_ddp *ddp, uint64_t n_samples)
{
    if (ddp->is_begun || ddp->opts.n_shards != 0)
        return md_fail(
            ddp->dist, MUSTER_DIST_EUSE, "rank %u: muster_ddp_begin %s", ddp->dist->place.rank,
            ddp->is_begun ? "twice, without muster_ddp_finish" : "where shards are asked for");
    ddp->n_samples += n_samples;
    ddp->samples[0] = (double)ddp->n_samples;
    ddp->n_started = 0;
    ddp->is_begun = true;
    for (size_t i = 0; i < ddp->n_params; i++)
        ddp->params[i].is_ready = false;
    for (size_t b = 0; b < ddp->n_buckets; b++) {
        ddp->buckets[b].n_ready = 0;
        ddp->buckets[b].is_started = false;
    }
    const struct muster_dist_call call = {MUSTER_ALL_REDUCE, MUSTER_FLOAT64,   MUSTER_SUM, 0,
                                          &ddp->samples[0],  &ddp->samples[1], 1};
    return muster_dist_start(ddp->dist, &call, &ddp->samples_ticket);
}

int muster_ddp_begin(struct muster_ddp *ddp, uint64_t n_samples)
{
    int rc = ddp ? md_check(ddp->dist) : MUSTER_DIST_ENOMEM;
    if (rc != 0)
        return rc;
    pthread_mutex_lock(&ddp->lock);
    rc = step_begin(ddp, n_samples);
    pthread_mutex_unlock(&ddp->lock);
    return rc;
}

/* ---- buckets ---- */

static int param_pack(struct muster_ddp *ddp, const struct ddp_bucket *bucket,
                      const struct ddp_param *param)
{
    size_t width = muster_type_bytes(bucket->wire);
    char *to = (char *)bucket->flat + param->at * width;
    const struct muster_param *is = &param->is;
    if (param->is_on_device) /* NCCL multiplies by the factor */
        return md_device_put(ddp->dist, to, ddp->n_samples > 0 ? is->gradient : NULL,
                             is->count * width);
    if (ddp->n_samples == 0) {
        memset(to, 0, is->count * width);
        return 0;
    }
    bool is_finite = true;
    if (!param->is_view || ddp->factor != 1)
        is_finite = md_pack(to, bucket->wire, is->gradient, is->type, is->count, ddp->factor);
    else if (!ddp->opts.allows_nonfinite) /* it is in place already */
        is_finite = md_are_finite(to, is->type, is->count);
    if (is_finite || ddp->opts.allows_nonfinite)
        return 0;
    return md_nonfinite_tell(ddp, param, bucket->wire, param->is_view ? 1 : ddp->factor);
}

static int bucket_start(struct muster_ddp *ddp, struct ddp_bucket *bucket)
{
    int rc = factor_find(ddp);
    bucket->ready_ns = md_now_ns();
    for (size_t i = bucket->first; rc == 0 && i < bucket->first + bucket->n; i++)
        rc = param_pack(ddp, bucket, &ddp->params[i]);
    if (rc != 0)
        return rc;
    const struct muster_dist_call call = {MUSTER_ALL_REDUCE, bucket->wire, MUSTER_MEAN,  0,
                                          bucket->flat,      bucket->flat, bucket->count};
    rc = md_start(ddp->dist, &call, bucket->is_on_device ? &ddp->factor : NULL, &bucket->ticket);
    bucket->is_started = rc == 0;
    return rc;
}

/* Those whose turn it is. */
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
    if (rc != 0)
        return rc;
    pthread_mutex_lock(&ddp->lock);
    rc = param_ready(ddp, param);
    pthread_mutex_unlock(&ddp->lock);
    return rc;
}

/* ---- the end ---- */

static int bucket_unpack(struct muster_ddp *ddp, const struct ddp_bucket *bucket)
{
    size_t width = muster_type_bytes(bucket->wire);
    int rc = 0;
    if (bucket->is_on_device && !ddp->opts.allows_nonfinite)
        rc = md_bucket_look(ddp, bucket);
    for (size_t i = bucket->first; rc == 0 && i < bucket->first + bucket->n; i++) {
        const struct ddp_param *param = &ddp->params[i];
        const char *from = (const char *)bucket->flat + param->at * width;
        if (param->is_on_device)
            rc = md_device_put(ddp->dist, param->is.gradient, from, param->is.count * width);
        else if (!param->is_view)
            md_unpack(param->is.gradient, param->is.type, from, bucket->wire, param->is.count);
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
    for (size_t b = 0; rc == 0 && b < ddp->n_buckets; b++) {
        rc = muster_dist_wait(ddp->dist, ddp->buckets[b].ticket);
        ddp->buckets[b].is_started = false;
        rc = rc ? rc : bucket_unpack(ddp, &ddp->buckets[b]);
    }
    ddp->is_begun = false;
    ddp->n_samples = 0;
    return rc;
}

int muster_ddp_finish(struct muster_ddp *ddp)
{
    int rc = ddp ? md_check(ddp->dist) : MUSTER_DIST_ENOMEM;
    if (rc != 0)
        return rc;
    pthread_mutex_lock(&ddp->lock);
    rc = ddp->opts.n_shards != 0 ? md_shards_finish(ddp) : step_finish(ddp);
    pthread_mutex_unlock(&ddp->lock);
    return rc;
}
