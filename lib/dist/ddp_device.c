/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients in device memory. They are copied into their bucket, which is in device memory as well,
 * on the caller's stream, and NCCL sums them; only finish waits for the device. This library has no
 * kernels, so functions that look at values (finite or not, norm, clipping, comparison) copy them
 * to the host.
 */
#include "ddp_inside.h"

#include <stdlib.h>

int md_param_place(struct muster_ddp *ddp, struct ddp_param *param)
{
    const struct muster_param *is = &param->is;
    int rc = md_device_find(ddp->dist, is->gradient, &param->is_on_device);
    rc = rc ? rc : md_device_find(ddp->dist, is->value, &param->value_is_on_device);
    if (rc != 0 || !param->is_on_device)
        return rc;
    bool is_narrowed = is->type == MUSTER_FLOAT32 &&
                       (ddp->opts.wire == MUSTER_BFLOAT16 || ddp->opts.wire == MUSTER_FLOAT16);
    if (!is_narrowed && ddp->opts.n_shards == 0)
        return 0;
    return md_fail(ddp->dist, MUSTER_DIST_EUSE,
                   "rank %u: the gradient of '%s' is in device memory, where %s: leave %s unset",
                   ddp->dist->place.rank, is->name,
                   is_narrowed ? "it travels in its own type" : "there are no shards",
                   is_narrowed ? "wire" : "n_shards");
}

void *md_values_see(struct muster_ddp *ddp, void *at, bool is_on_device, size_t bytes)
{
    if (!is_on_device)
        return at;
    if (ddp->seen_bytes < bytes) {
        free(ddp->seen);
        ddp->seen = malloc(bytes);
        ddp->seen_bytes = ddp->seen ? bytes : 0;
    }
    if (!ddp->seen) {
        md_fail(ddp->dist, MUSTER_DIST_ENOMEM, "rank %u: no memory for %zu bytes of a device",
                ddp->dist->place.rank, bytes);
        return NULL;
    }
    return md_device_copy(ddp->dist, ddp->seen, at, bytes) == 0 ? ddp->seen : NULL;
}

static int nonfinite_tell(struct muster_ddp *ddp, const struct muster_param *is, const char *values)
{
    size_t first = 0, n_bad = 0, width = muster_type_bytes(is->type);
    for (size_t i = 0; i < is->count; i++)
        if (!md_are_finite(values + i * width, is->type, 1) && n_bad++ == 0)
            first = i;
    return md_fail(ddp->dist, MUSTER_DIST_EDATA,
                   "the gradient of '%s', combined over the ranks, has values that are NaN or "
                   "infinite: %zu of %zu, the first at %zu",
                   is->name, n_bad, is->count, first);
}

int md_bucket_look(struct muster_ddp *ddp, const struct ddp_bucket *bucket)
{
    size_t width = muster_type_bytes(bucket->wire);
    const char *values = md_values_see(ddp, bucket->flat, true, bucket->count * width);
    if (!values)
        return muster_dist_code(ddp->dist);
    for (size_t i = bucket->first; i < bucket->first + bucket->n; i++) {
        const struct ddp_param *param = &ddp->params[i];
        if (!md_are_finite(values + param->at * width, param->is.type, param->is.count))
            return nonfinite_tell(ddp, &param->is, values + param->at * width);
    }
    return 0;
}
