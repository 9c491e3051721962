/* SPDX-License-Identifier: Apache-2.0
 *
 * Registration: the bucket of each parameter, and its place there.
 */
#include "ddp_inside.h"

#include <stdlib.h>
#include <string.h>

enum {
    BUCKET_BYTES = 25 << 20,
    LAST_PART = 8,   /* the last bucket has at most this part of the others' bytes */
    ALIGN_BYTES = 64 /* a parameter begins at a multiple of it in its bucket */
};

/* ---- what was registered ---- */

static int param_check(struct muster_ddp *ddp, const struct muster_param *param)
{
    bool is_float = param->type == MUSTER_FLOAT32 || param->type == MUSTER_FLOAT64 ||
                    param->type == MUSTER_BFLOAT16 || param->type == MUSTER_FLOAT16;
    if (!param->name)
        return md_fail(ddp->dist, MUSTER_DIST_EUSE, "rank %u: a parameter without a name",
                       ddp->dist->place.rank);
    if (!is_float || param->count == 0)
        return md_fail(ddp->dist, MUSTER_DIST_EUSE,
                       "rank %u: parameter '%s' has %zu values of %s: floats are expected, and not "
                       "none",
                       ddp->dist->place.rank, param->name, param->count,
                       is_float ? muster_type_name(param->type) : "no float type");
    if (param->count > (SIZE_MAX >> 1) / sizeof(double)) /* as a count of -1 is */
        return md_fail(ddp->dist, MUSTER_DIST_EUSE,
                       "rank %u: parameter '%s' has %zu values: more than memory can have",
                       ddp->dist->place.rank, param->name, param->count);
    return 0;
}

static int params_copy(struct muster_ddp *ddp, const struct muster_param *params)
{
    for (size_t i = 0; i < ddp->n_params; i++) {
        int rc = param_check(ddp, &params[i]);
        if (rc != 0)
            return rc;
        ddp->params[i].is = params[i];
        ddp->params[i].is.name = strdup(params[i].name);
        if (!ddp->params[i].is.name)
            return md_fail(ddp->dist, MUSTER_DIST_ENOMEM, "rank %u: no memory",
                           ddp->dist->place.rank);
        rc = md_param_place(ddp, &ddp->params[i]);
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* Where a gradient of the caller's lies. */
struct range {
    uintptr_t begin, end;
    const char *name;
};

static int ranges_compare(const void *left, const void *right)
{
    const struct range *a = left, *b = right;
    return (a->begin > b->begin) - (a->begin < b->begin);
}

/*
 * A value that two parameters share would be averaged twice, and with shards it would be zeroed
 * before it is taken again.
 */
static int gradients_check(struct muster_ddp *ddp)
{
    size_t n = 0;
    int rc = 0;
    struct range *ranges = calloc(ddp->n_params, sizeof(*ranges));
    if (!ranges)
        return md_fail(ddp->dist, MUSTER_DIST_ENOMEM, "rank %u: no memory", ddp->dist->place.rank);
    for (size_t i = 0; i < ddp->n_params; i++) {
        const struct muster_param *is = &ddp->params[i].is;
        uintptr_t begin = (uintptr_t)is->gradient;
        if (is->gradient)
            ranges[n++] =
                (struct range){begin, begin + is->count * muster_type_bytes(is->type), is->name};
    }
    qsort(ranges, n, sizeof(*ranges), ranges_compare);
    for (size_t i = 1; rc == 0 && i < n; i++)
        if (ranges[i].begin < ranges[i - 1].end)
            rc = md_fail(
                ddp->dist, MUSTER_DIST_EUSE,
                "rank %u: the gradients of '%s' and '%s' have memory in common: what layers "
                "share is registered once",
                ddp->dist->place.rank, ranges[i - 1].name, ranges[i].name);
    free(ranges);
    return rc;
}

/*
 * Checks that every rank has the same parameters; otherwise values of different parameters would be
 * added. A hash of each parameter is compared, and a rank that differs names its first parameter
 * with another hash.
 */
static int params_compare(struct muster_ddp *ddp)
{
    size_t n = ddp->n_params;
    uint64_t count[2] = {n, n};
    uint64_t *hashes = calloc(2 * n + 2, sizeof(*hashes));
    if (!hashes)
        return md_fail(ddp->dist, MUSTER_DIST_ENOMEM, "rank %u: no memory", ddp->dist->place.rank);
    int rc = muster_dist_broadcast(ddp->dist, &count[1], 1, MUSTER_INT64, 0);
    if (rc == 0 && count[0] != count[1])
        rc = md_fail(ddp->dist, MUSTER_DIST_EMISMATCH,
                     "ranks disagree: rank %u has %zu parameters, and rank 0 %zu",
                     ddp->dist->place.rank, (size_t)count[0], (size_t)count[1]);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        const struct muster_param *is = &ddp->params[i].is;
        uint64_t parts[4] = {md_hash(is->name, strlen(is->name)), is->type, is->count,
                             is->value != NULL};
        hashes[i] = hashes[n + i] = md_hash(parts, sizeof(parts));
    }
    const uint64_t opts[] = {ddp->opts.bucket_bytes, ddp->opts.wire, ddp->opts.gradients_are_sums,
                             ddp->opts.allows_nonfinite, ddp->opts.n_shards};
    hashes[2 * n] = hashes[2 * n + 1] = md_hash(opts, sizeof(opts));
    rc = rc ? rc : muster_dist_broadcast(ddp->dist, hashes + n, n, MUSTER_INT64, 0);
    rc = rc ? rc : muster_dist_broadcast(ddp->dist, &hashes[2 * n + 1], 1, MUSTER_INT64, 0);
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (hashes[i] != hashes[n + i])
            rc = md_fail(ddp->dist, MUSTER_DIST_EMISMATCH,
                         "ranks disagree: parameter %zu is '%s' (%s, %zu values%s) on rank %u, and "
                         "another one on rank 0",
                         i, ddp->params[i].is.name, muster_type_name(ddp->params[i].is.type),
                         ddp->params[i].is.count,
                         ddp->params[i].is.value ? "" : ", without a value", ddp->dist->place.rank);
    if (rc == 0 && hashes[2 * n] != hashes[2 * n + 1])
        rc = md_fail(ddp->dist, MUSTER_DIST_EMISMATCH,
                     "ranks disagree: rank %u has other options of ddp than rank 0",
                     ddp->dist->place.rank);
    free(hashes);
    /* no rank goes on before all have compared */
    return rc ? rc : muster_dist_barrier(ddp->dist);
}

/* ---- buckets ---- */

static enum muster_type wire_of(const struct muster_ddp *ddp, enum muster_type type)
{
    bool is_half = ddp->opts.wire == MUSTER_BFLOAT16 || ddp->opts.wire == MUSTER_FLOAT16;
    return is_half && type == MUSTER_FLOAT32 ? ddp->opts.wire : type;
}

/* The number of values that a parameter takes in its bucket, with padding. */
static size_t param_room(const struct muster_ddp *ddp, size_t i)
{
    const struct muster_param *is = &ddp->params[i].is;
    size_t align = ALIGN_BYTES / muster_type_bytes(wire_of(ddp, is->type));
    return (is->count + align - 1) / align * align;
}

/*
 * How many parameters the last bucket has: those that have few bytes together, or one. Its exchange
 * begins when the backward pass is over, so no computation hides it.
 */
static size_t n_params_last(const struct muster_ddp *ddp)
{
    size_t n = 0, bytes = 0;
    for (; n < ddp->n_params; n++) {
        bytes += param_room(ddp, n) * muster_type_bytes(wire_of(ddp, ddp->params[n].is.type));
        if (n > 0 && bytes > ddp->opts.bucket_bytes / LAST_PART)
            break;
    }
    return n;
}

/*
 * Plans the buckets from the last parameter to the first. A bucket has one type and one kind of
 * memory, and a limited size.
 */
static void buckets_plan(struct muster_ddp *ddp)
{
    struct ddp_bucket *bucket = NULL;
    size_t n_last = n_params_last(ddp);
    for (size_t i = ddp->n_params; i-- > 0;) {
        struct ddp_param *param = &ddp->params[i];
        enum muster_type wire = wire_of(ddp, param->is.type);
        size_t width = muster_type_bytes(wire), room = param_room(ddp, i);
        bool fits = bucket && ddp->params[bucket->first].is.type == param->is.type &&
                    bucket->is_on_device == param->is_on_device &&
                    (bucket->count + room) * width <= ddp->opts.bucket_bytes && i + 1 != n_last;
        if (!fits) {
            bucket = &ddp->buckets[ddp->n_buckets++];
            bucket->ddp = ddp;
            bucket->wire = wire;
            bucket->is_on_device = param->is_on_device;
        }
        param->bucket = ddp->n_buckets - 1;
        param->at = bucket->count;
        bucket->count += room;
        bucket->first = i;
        bucket->n++;
    }
}

static int buckets_make(struct muster_ddp *ddp)
{
    ddp->buckets = calloc(ddp->n_params, sizeof(*ddp->buckets));
    if (!ddp->buckets)
        return md_fail(ddp->dist, MUSTER_DIST_ENOMEM, "rank %u: no memory", ddp->dist->place.rank);
    buckets_plan(ddp);
    for (size_t b = 0; b < ddp->n_buckets; b++) {
        struct ddp_bucket *bucket = &ddp->buckets[b];
        size_t width = muster_type_bytes(bucket->wire);
        bucket->flat = bucket->is_on_device
                           ? md_device_memory_new(ddp->dist, bucket->count * width)
                           : muster_dist_buffer_new(ddp->dist, bucket->count * width);
        if (!bucket->flat)
            return muster_dist_code(ddp->dist);
        for (size_t i = bucket->first; i < bucket->first + bucket->n; i++) {
            struct ddp_param *param = &ddp->params[i];
            param->is_view = !param->is.gradient && bucket->wire == param->is.type;
            if (param->is_view)
                param->is.gradient = (char *)bucket->flat + param->at * width;
        }
    }
    return 0;
}

/* Makes gradients for the parameters that have none. */
static int gradients_make(struct muster_ddp *ddp)
{
    for (size_t i = 0; i < ddp->n_params; i++) {
        struct ddp_param *param = &ddp->params[i];
        if (param->is.gradient)
            continue;
        param->is.gradient = calloc(param->is.count, muster_type_bytes(param->is.type));
        param->owns_gradient = true;
        if (!param->is.gradient)
            return md_fail(ddp->dist, MUSTER_DIST_ENOMEM,
                           "rank %u: no memory for the gradient of '%s'", ddp->dist->place.rank,
                           param->is.name);
    }
    return 0;
}

/* ---- begin and end ---- */

static int ddp_init(struct muster_ddp *ddp, const struct muster_param *params,
                    const struct muster_ddp_opts *opts)
{
    uint32_t size = ddp->dist->place.size, n_shards = opts ? opts->n_shards : 0;
    if (opts)
        ddp->opts = *opts;
    if (ddp->opts.bucket_bytes == 0)
        ddp->opts.bucket_bytes = BUCKET_BYTES;
    if (n_shards != 0 && ((n_shards & (n_shards - 1)) != 0 || n_shards < size))
        return md_fail(
            ddp->dist, MUSTER_DIST_EUSE,
            "rank %u: %u shards: a power of two is expected, and at least %u, the number "
            "of ranks",
            ddp->dist->place.rank, n_shards, size);
    if (ddp->n_params == 0)
        return md_fail(ddp->dist, MUSTER_DIST_EUSE, "rank %u: a model without parameters",
                       ddp->dist->place.rank);
    if (!params)
        return md_fail(ddp->dist, MUSTER_DIST_EUSE, "rank %u: %zu parameters at NULL",
                       ddp->dist->place.rank, ddp->n_params);
    int rc = params_copy(ddp, params);
    rc = rc ? rc : gradients_check(ddp);
    rc = rc ? rc : params_compare(ddp);
    if (n_shards == 0)
        rc = rc ? rc : buckets_make(ddp);
    rc = rc ? rc : gradients_make(ddp);
    if (n_shards != 0)
        rc = rc ? rc : md_shards_init(ddp);
    return rc;
}

struct muster_ddp *muster_ddp_new(struct muster_dist *dist, const struct muster_param *params,
                                  size_t n_params, const struct muster_ddp_opts *opts)
{
    if (md_check(dist) != 0)
        return NULL;
    struct muster_ddp *ddp = calloc(1, sizeof(*ddp));
    struct ddp_param *copies = calloc(n_params ? n_params : 1, sizeof(*copies));
    double *samples = calloc(2 * (size_t)dist->place.size, sizeof(*samples));
    if (!ddp || !copies || !samples) {
        free(ddp);
        free(copies);
        free(samples);
        md_fail(dist, MUSTER_DIST_ENOMEM, "rank %u: no memory", dist->place.rank);
        return NULL;
    }
    ddp->dist = dist;
    ddp->params = copies;
    ddp->n_params = n_params;
    ddp->samples = samples;
    ddp->weights = samples + dist->place.size;
    pthread_mutex_init(&ddp->lock, NULL);
    if (ddp_init(ddp, params, opts) == 0)
        return ddp;
    muster_ddp_free(ddp);
    return NULL;
}

void muster_ddp_free(struct muster_ddp *ddp)
{
    if (!ddp)
        return;
    /* The thread may still work on operations of a failed step. */
    muster_dist_wait(ddp->dist, ddp->ticket);
    for (size_t b = 0; b < ddp->n_buckets; b++)
        if (ddp->buckets[b].is_on_device)
            md_device_memory_free(ddp->dist, ddp->buckets[b].flat);
        else
            muster_dist_buffer_free(ddp->dist, ddp->buckets[b].flat);
    free(ddp->seen);
    free(ddp->samples);
    for (size_t i = 0; i < ddp->n_params; i++) {
        free((char *)(uintptr_t)ddp->params[i].is.name);
        if (ddp->params[i].owns_gradient)
            free(ddp->params[i].is.gradient);
    }
    md_shards_release(ddp);
    pthread_mutex_destroy(&ddp->lock);
    free(ddp->buckets);
    free(ddp->params);
    free(ddp);
}

void *muster_ddp_gradient(struct muster_ddp *ddp, size_t param)
{
    return ddp && param < ddp->n_params ? ddp->params[param].is.gradient : NULL;
}

size_t muster_ddp_n_buckets(const struct muster_ddp *ddp)
{
    return ddp ? ddp->n_buckets : 0;
}

void muster_ddp_bucket(struct muster_ddp *ddp, size_t index, struct muster_ddp_bucket *out)
{
    *out = (struct muster_ddp_bucket){0};
    if (!ddp || index >= ddp->n_buckets)
        return;
    pthread_mutex_lock(&ddp->lock);
    const struct ddp_bucket *bucket = &ddp->buckets[index];
    struct md_times times = {0};
    if (bucket->ticket > 0)
        times = md_call_times(ddp->dist, bucket->ticket);
    *out = (struct muster_ddp_bucket){bucket->n, bucket->count * muster_type_bytes(bucket->wire),
                                      bucket->ready_ns, times.begin_ns, times.end_ns};
    pthread_mutex_unlock(&ddp->lock);
}
