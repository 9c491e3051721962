/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions on the whole model: broadcast of values, norm of the gradients, comparison of the
 * replicas.
 */
#include "ddp_inside.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int muster_ddp_broadcast(struct muster_ddp *ddp, uint32_t root)
{
    int rc = ddp ? md_check(ddp->dist) : MUSTER_DIST_ENOMEM;
    for (size_t i = 0; rc == 0 && i < ddp->n_params; i++) {
        const struct muster_param *is = &ddp->params[i].is;
        if (is->value)
            rc = muster_dist_broadcast(ddp->dist, is->value, is->count, is->type, root);
    }
    return rc;
}

/* ---- the norm ---- */

static void *gradient_see(struct muster_ddp *ddp, const struct ddp_param *param)
{
    return md_values_see(ddp, param->is.gradient, param->is_on_device,
                         param->is.count * muster_type_bytes(param->is.type));
}

/* All ranks have the same gradients, so nothing has to be exchanged. */
static int norm_find(struct muster_ddp *ddp, double *norm)
{
    double squares = 0;
    for (size_t i = 0; i < ddp->n_params; i++) {
        const struct ddp_param *param = &ddp->params[i];
        const void *gradient = gradient_see(ddp, param);
        if (!gradient)
            return muster_dist_code(ddp->dist);
        squares += md_squares(gradient, param->is.type, param->is.count);
    }
    *norm = sqrt(squares);
    return 0;
}

static int gradients_scale(struct muster_ddp *ddp, double factor)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < ddp->n_params; i++) {
        const struct ddp_param *param = &ddp->params[i];
        void *gradient = gradient_see(ddp, param);
        if (!gradient)
            return muster_dist_code(ddp->dist);
        md_scale(gradient, param->is.type, param->is.count, factor);
        if (param->is_on_device)
            rc = md_device_copy(ddp->dist, param->is.gradient, gradient,
                                param->is.count * muster_type_bytes(param->is.type));
    }
    return rc;
}

/* Before muster_ddp_finish, ranks have different gradients, or the thread still works on them. */
static int finished_check(struct muster_ddp *ddp, const char *function)
{
    if (ddp->is_finished)
        return 0;
    return md_fail(ddp->dist, MUSTER_DIST_EUSE, "rank %u: %s before muster_ddp_finish",
                   ddp->dist->place.rank, function);
}

int muster_ddp_norm(struct muster_ddp *ddp, double *norm)
{
    int rc = ddp ? md_check(ddp->dist) : MUSTER_DIST_ENOMEM;
    double found = 0;
    if (norm)
        *norm = 0;
    if (rc != 0)
        return rc;
    pthread_mutex_lock(&ddp->lock);
    rc = finished_check(ddp, "muster_ddp_norm");
    rc = rc ? rc : norm_find(ddp, &found);
    pthread_mutex_unlock(&ddp->lock);
    if (rc == 0 && norm)
        *norm = found;
    return rc;
}

static int clip(struct muster_ddp *ddp, double max_norm, double *norm)
{
    int rc = finished_check(ddp, "muster_ddp_clip");
    if (rc == 0 && !(max_norm >= 0))
        rc = md_fail(ddp->dist, MUSTER_DIST_EUSE, "rank %u: muster_ddp_clip to a norm of %g",
                     ddp->dist->place.rank, max_norm);
    rc = rc ? rc : norm_find(ddp, norm);
    if (rc != 0 || !isfinite(*norm) || *norm <= max_norm)
        return rc;
    return gradients_scale(ddp, max_norm / *norm);
}

int muster_ddp_clip(struct muster_ddp *ddp, double max_norm, double *norm)
{
    int rc = ddp ? md_check(ddp->dist) : MUSTER_DIST_ENOMEM;
    double found = 0;
    if (rc == 0) {
        pthread_mutex_lock(&ddp->lock);
        rc = clip(ddp, max_norm, &found);
        pthread_mutex_unlock(&ddp->lock);
    }
    if (norm)
        *norm = found;
    return rc;
}

/* ---- replicas ---- */

/*
 * Returns the most frequent of `size` hashes that lie `stride` apart. If several are as frequent,
 * the first of them counts.
 */
static uint64_t most_frequent(const uint64_t *hashes, size_t stride, uint32_t size)
{
    uint64_t best = hashes[0];
    uint32_t n_best = 0;
    for (uint32_t r = 0; r < size; r++) {
        uint32_t n = 0;
        for (uint32_t s = 0; s < size; s++)
            n += hashes[s * stride] == hashes[r * stride];
        if (n > n_best) {
            n_best = n;
            best = hashes[r * stride];
        }
    }
    return best;
}

static bool is_same(const uint64_t *hashes, size_t stride, uint32_t size)
{
    for (uint32_t r = 1; r < size; r++)
        if (hashes[r * stride] != hashes[0])
            return false;
    return true;
}

static int difference_tell(struct muster_ddp *ddp, const uint64_t *hashes, size_t param,
                           size_t n_different)
{
    uint32_t size = ddp->dist->place.size, n_odd = 0;
    uint64_t usual = most_frequent(hashes, ddp->n_params, size);
    char ranks[160] = "", more[60] = "";
    size_t len = 0;
    for (uint32_t r = 0; r < size; r++) {
        if (hashes[r * ddp->n_params] == usual)
            continue;
        if (len < sizeof(ranks) - 20)
            len += (size_t)snprintf(ranks + len, sizeof(ranks) - len, "%s%u", n_odd ? ", " : "", r);
        n_odd++;
    }
    if (n_different > 1)
        snprintf(more, sizeof(more), ", the first of %zu,", n_different);
    return md_fail(ddp->dist, MUSTER_DIST_EDATA,
                   "the replicas differ: parameter '%s'%s has other values on %s %s",
                   ddp->params[param].is.name, more, n_odd == 1 ? "rank" : "ranks", ranks);
}

static int hashes_compare(struct muster_ddp *ddp, const uint64_t *hashes)
{
    size_t n = ddp->n_params, first = n, n_different = 0;
    for (size_t i = 0; i < n; i++)
        if (!is_same(hashes + i, n, ddp->dist->place.size)) {
            first = first == n ? i : first;
            n_different++;
        }
    return first == n ? 0 : difference_tell(ddp, hashes + first, first, n_different);
}

static int values_hash(struct muster_ddp *ddp, uint64_t *hashes)
{
    int rc = 0;
    pthread_mutex_lock(&ddp->lock);
    for (size_t i = 0; rc == 0 && i < ddp->n_params; i++) {
        const struct muster_param *is = &ddp->params[i].is;
        size_t bytes = is->count * muster_type_bytes(is->type);
        const void *value = NULL;
        if (is->value)
            value = md_values_see(ddp, is->value, ddp->params[i].value_is_on_device, bytes);
        if (value)
            hashes[i] = md_hash(value, bytes);
        else if (is->value)
            rc = muster_dist_code(ddp->dist);
    }
    pthread_mutex_unlock(&ddp->lock);
    return rc;
}

int muster_ddp_check_replicas(struct muster_ddp *ddp)
{
    int rc = ddp ? md_check(ddp->dist) : MUSTER_DIST_ENOMEM;
    if (rc != 0)
        return rc;
    uint32_t size = ddp->dist->place.size;
    uint64_t *own = calloc((size_t)ddp->n_params * (size + 1), sizeof(*own));
    if (!own)
        return md_fail(ddp->dist, MUSTER_DIST_ENOMEM, "rank %u: no memory", ddp->dist->place.rank);
    uint64_t *all = own + ddp->n_params;
    rc = values_hash(ddp, own);
    rc = rc ? rc : muster_dist_all_gather(ddp->dist, own, all, ddp->n_params, MUSTER_INT64);
    rc = rc ? rc : hashes_compare(ddp, all);
    free(own);
    return rc;
}
