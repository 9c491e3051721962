/* SPDX-License-Identifier: Apache-2.0
 *
 * What is asked of the whole model: values made equal, the norm of the gradients, whether the replicas
 * are still the same.
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

/* All ranks have the same gradients, so nothing has to be exchanged. */
int muster_ddp_norm(struct muster_ddp *ddp, double *norm)
{
    int rc = ddp ? md_check(ddp->dist) : MUSTER_DIST_ENOMEM;
    double squares = 0;
    for (size_t i = 0; rc == 0 && i < ddp->n_params; i++) {
        const struct muster_param *is = &ddp->params[i].is;
        squares += md_squares(is->gradient, is->type, is->count);
    }
    *norm = sqrt(squares);
    return rc;
}

int muster_ddp_clip(struct muster_ddp *ddp, double max_norm, double *norm)
{
    int rc = muster_ddp_norm(ddp, norm);
    if (rc != 0 || !isfinite(*norm) || *norm <= max_norm)
        return rc;
    for (size_t i = 0; i < ddp->n_params; i++) {
        const struct muster_param *is = &ddp->params[i].is;
        md_scale(is->gradient, is->type, is->count, max_norm / *norm);
    }
    return 0;
}

/* ---- replicas ---- */

/* The hash that most ranks have, of hashes that lie `stride` apart; the first of those, if several. */
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

int muster_ddp_check_replicas(struct muster_ddp *ddp)
{
    int rc = ddp ? md_check(ddp->dist) : MUSTER_DIST_ENOMEM;
    if (rc != 0)
        return rc;
    uint32_t size = ddp->dist->place.size;
    uint64_t *own = calloc((size_t)ddp->n_params * (size + 1), sizeof(*own));
    if (!own)
        return md_fail(ddp->dist, MUSTER_DIST_ENOMEM, "rank %u: no memory", ddp->dist->place.rank);
    for (size_t i = 0; i < ddp->n_params; i++) {
        const struct muster_param *is = &ddp->params[i].is;
        if (is->value)
            own[i] = md_hash(is->value, is->count * muster_type_bytes(is->type));
    }
    uint64_t *all = own + ddp->n_params;
    rc = muster_dist_all_gather(ddp->dist, own, all, ddp->n_params, MUSTER_INT64);
    rc = rc ? rc : hashes_compare(ddp, all);
    free(own);
    return rc;
}
