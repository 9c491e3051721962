/* SPDX-License-Identifier: Apache-2.0
 *
 * A step that is the same on any number of ranks. The shards are the leaves of a complete binary
 * tree. A rank has a row of them, and adds up the nodes that are complete within its row: a node is
 * the sum of its two halves, the left one first. The remaining nodes of all rows, at most two of
 * each height and rank, are gathered on every rank, piece by piece, and added up in the same way.
 * No sum depends on which rank computed it.
 */
#include "ddp_inside.h"
#include "muster/sampler.h"

#include <stdlib.h>
#include <string.h>

enum {
    PIECE_BYTES = 1 << 16 /* bytes of each node in an exchange */
};

/* A part of a node's sums, all of one type. */
struct piece {
    enum muster_type type;
    size_t at, count; /* bytes from the beginning; values */
};

static size_t node_bytes(const struct muster_ddp *ddp)
{
    return ddp->n_single * sizeof(float) + ddp->n_double * sizeof(double);
}

/*
 * Returns where a rank's shards begin, by the rule by which the sampler gives whole shards to ranks.
 * rank may be the number of ranks: that is the end of the last row.
 */
static uint32_t row_begin(const struct muster_ddp *ddp, uint32_t rank)
{
    uint64_t begin;
    muster_share(ddp->opts.n_shards, rank, ddp->dist->place.size, &begin);
    return (uint32_t)begin;
}

void muster_ddp_shards(const struct muster_ddp *ddp, uint32_t *first, uint32_t *end)
{
    *first = *end = 0;
    if (!ddp || ddp->opts.n_shards == 0)
        return;
    *first = row_begin(ddp, ddp->dist->place.rank);
    *end = row_begin(ddp, ddp->dist->place.rank + 1);
}

/* True if two neighbouring nodes are the halves of one node. */
static bool are_halves(const struct ddp_node *left, const struct ddp_node *right)
{
    return left->n == right->n && left->first % (2 * left->n) == 0;
}

/* Finds the nodes that remain of a row, and returns their number. `nodes` have no sums. */
static size_t row_nodes(const struct muster_ddp *ddp, uint32_t rank, struct ddp_node *nodes)
{
    uint32_t end = row_begin(ddp, rank + 1);
    size_t n = 0;
    for (uint32_t i = row_begin(ddp, rank); i < end; i++) {
        nodes[n++] = (struct ddp_node){i, 1, NULL};
        while (n > 1 && are_halves(&nodes[n - 2], &nodes[n - 1]))
            nodes[--n - 1].n *= 2;
    }
    return n;
}

/* The largest number of remaining nodes of any rank. */
static size_t row_nodes_max(const struct muster_ddp *ddp)
{
    struct ddp_node nodes[DDP_NODES_MAX];
    size_t max = 0;
    for (uint32_t r = 0; r < ddp->dist->place.size; r++) {
        size_t n = row_nodes(ddp, r, nodes);
        max = n > max ? n : max;
    }
    return max;
}

/* ---- memory ---- */

int md_shards_init(struct muster_ddp *ddp)
{
    for (size_t i = 0; i < ddp->n_params; i++) {
        bool is_double = ddp->params[i].is.type == MUSTER_FLOAT64;
        size_t *n = is_double ? &ddp->n_double : &ddp->n_single;
        ddp->params[i].at = *n;
        *n += ddp->params[i].is.count;
    }
    ddp->n_single += ddp->n_single & 1; /* so that the float64 values are aligned */
    size_t n = row_nodes_max(ddp);
    ddp->exchange =
        muster_dist_buffer_new(ddp->dist, n * (ddp->dist->place.size + 1) * PIECE_BYTES);
    return ddp->exchange ? 0 : muster_dist_code(ddp->dist);
}

void md_shards_release(struct muster_ddp *ddp)
{
    for (size_t i = 0; i < ddp->n_nodes; i++)
        free(ddp->nodes[i].sums);
    ddp->n_nodes = 0;
    free(ddp->spare);
    if (ddp->exchange)
        muster_dist_buffer_free(ddp->dist, ddp->exchange);
}

static char *sums_new(struct muster_ddp *ddp)
{
    char *sums = ddp->spare ? ddp->spare : malloc(node_bytes(ddp));
    ddp->spare = NULL;
    if (sums)
        memset(sums, 0, node_bytes(ddp));
    else
        md_fail(ddp->dist, MUSTER_DIST_ENOMEM,
                "rank %u: no memory for a shard's gradients, %zu bytes", ddp->dist->place.rank,
                node_bytes(ddp));
    return sums;
}

/* ---- a shard ---- */

static char *param_sums(const struct muster_ddp *ddp, const struct ddp_param *param, char *sums)
{
    if (param->is.type == MUSTER_FLOAT64)
        return sums + ddp->n_single * sizeof(float) + param->at * sizeof(double);
    return sums + param->at * sizeof(float);
}

/* Fills a leaf, in the type of sums: float32 for 16-bit floats. A leaf without samples is 0. */
static int leaf_fill(struct muster_ddp *ddp, char *sums, uint64_t n_samples)
{
    double factor = ddp->opts.gradients_are_sums ? 1 : (double)n_samples;
    for (size_t i = 0; i < ddp->n_params; i++) {
        const struct muster_param *is = &ddp->params[i].is;
        bool is_double = is->type == MUSTER_FLOAT64;
        enum muster_type type = is_double ? MUSTER_FLOAT64 : MUSTER_FLOAT32;
        char *to = param_sums(ddp, &ddp->params[i], sums);
        if (n_samples > 0) {
            md_unpack(to, type, is->gradient, is->type, is->count);
            bool is_finite = md_pack(to, type, to, type, is->count, factor);
            if (!is_finite && !ddp->opts.allows_nonfinite)
                return md_nonfinite_tell(ddp, &ddp->params[i], to, type);
        }
        memset(is->gradient, 0, is->count * muster_type_bytes(is->type));
    }
    return 0;
}

static void halves_join(struct muster_ddp *ddp)
{
    struct ddp_node *left = &ddp->nodes[ddp->n_nodes - 2], *right = left + 1;
    size_t singles = ddp->n_single * sizeof(float);
    md_add(left->sums, left->sums, right->sums, MUSTER_FLOAT32, ddp->n_single);
    md_add(left->sums + singles, left->sums + singles, right->sums + singles, MUSTER_FLOAT64,
           ddp->n_double);
    left->n *= 2;
    ddp->n_nodes--;
    free(ddp->spare);
    ddp->spare = right->sums;
    right->sums = NULL;
}

static int shard_deposit(struct muster_ddp *ddp, uint64_t n_samples)
{
    uint32_t first, end;
    muster_ddp_shards(ddp, &first, &end);
    if (first + ddp->n_shards_done >= end)
        return md_fail(ddp->dist, MUSTER_DIST_EUSE,
                       "rank %u: muster_ddp_shard, where %u shards of this rank are done",
                       ddp->dist->place.rank, end - first);
    char *sums = sums_new(ddp);
    if (!sums)
        return muster_dist_code(ddp->dist);
    ddp->is_finished = false;
    ddp->nodes[ddp->n_nodes++] = (struct ddp_node){first + ddp->n_shards_done++, 1, sums};
    ddp->n_samples += n_samples;
    int rc = leaf_fill(ddp, sums, n_samples);
    while (rc == 0 && ddp->n_nodes > 1 &&
           are_halves(&ddp->nodes[ddp->n_nodes - 2], &ddp->nodes[ddp->n_nodes - 1]))
        halves_join(ddp);
    return rc;
}

int muster_ddp_shard(struct muster_ddp *ddp, uint64_t n_samples)
{
    int rc = ddp ? md_check(ddp->dist) : MUSTER_DIST_ENOMEM;
    if (rc != 0)
        return rc;
    pthread_mutex_lock(&ddp->lock);
    rc = shard_deposit(ddp, n_samples);
    pthread_mutex_unlock(&ddp->lock);
    return rc;
}

/* ---- the end ---- */

/* Adds up the nodes of all ranks, which lie `stride` bytes apart, into the first. */
static const char *piece_join(struct muster_ddp *ddp, char *all, size_t n_row,
                              const struct piece *piece)
{
    struct ddp_node nodes[DDP_NODES_MAX] = {0}, row[DDP_NODES_MAX];
    size_t n = 0, stride = piece->count * muster_type_bytes(piece->type);
    for (uint32_t r = 0; r < ddp->dist->place.size; r++) {
        size_t n_here = row_nodes(ddp, r, row);
        for (size_t i = 0; i < n_here; i++) {
            nodes[n++] = (struct ddp_node){row[i].first, row[i].n, all + (r * n_row + i) * stride};
            for (; n > 1 && are_halves(&nodes[n - 2], &nodes[n - 1]); n--) {
                md_add(nodes[n - 2].sums, nodes[n - 2].sums, nodes[n - 1].sums, piece->type,
                       piece->count);
                nodes[n - 2].n *= 2;
            }
        }
    }
    return nodes[0].sums;
}

static int piece_exchange(struct muster_ddp *ddp, size_t n_row, const struct piece *piece)
{
    size_t bytes = piece->count * muster_type_bytes(piece->type);
    char *own = ddp->exchange, *all = ddp->exchange + n_row * PIECE_BYTES;
    for (size_t i = 0; i < n_row; i++) {
        if (i < ddp->n_nodes)
            memcpy(own + i * bytes, ddp->nodes[i].sums + piece->at, bytes);
        else
            memset(own + i * bytes, 0, bytes);
    }
    int rc = muster_dist_all_gather(ddp->dist, own, all, n_row * piece->count, piece->type);
    if (rc == 0)
        memcpy(ddp->nodes[0].sums + piece->at, piece_join(ddp, all, n_row, piece), bytes);
    return rc;
}

/* Puts the whole tree's sums into the place of this rank's first node. */
static int sums_exchange(struct muster_ddp *ddp)
{
    size_t n_row = row_nodes_max(ddp), begin = 0;
    const struct piece areas[] = {
        {MUSTER_FLOAT32, 0, ddp->n_single},
        {MUSTER_FLOAT64, ddp->n_single * sizeof(float), ddp->n_double},
    };
    for (size_t a = 0; a < 2; a++) {
        size_t width = muster_type_bytes(areas[a].type), most = PIECE_BYTES / width;
        for (begin = 0; begin < areas[a].count; begin += most) {
            size_t left = areas[a].count - begin;
            const struct piece piece = {areas[a].type, areas[a].at + begin * width,
                                        left < most ? left : most};
            int rc = piece_exchange(ddp, n_row, &piece);
            if (rc != 0)
                return rc;
        }
    }
    return 0;
}

static void gradients_fill(struct muster_ddp *ddp, double n_samples)
{
    char *sums = ddp->nodes[0].sums;
    md_divide(sums, MUSTER_FLOAT32, ddp->n_single, n_samples);
    md_divide(sums + ddp->n_single * sizeof(float), MUSTER_FLOAT64, ddp->n_double, n_samples);
    for (size_t i = 0; i < ddp->n_params; i++) {
        const struct muster_param *is = &ddp->params[i].is;
        enum muster_type type = is->type == MUSTER_FLOAT64 ? MUSTER_FLOAT64 : MUSTER_FLOAT32;
        const char *from = param_sums(ddp, &ddp->params[i], sums);
        if (type == is->type)
            memcpy(is->gradient, from, is->count * muster_type_bytes(type));
        else
            md_pack(is->gradient, is->type, from, type, is->count, 1);
    }
}

int md_shards_finish(struct muster_ddp *ddp)
{
    uint32_t first, end;
    int64_t n_samples = (int64_t)ddp->n_samples;
    muster_ddp_shards(ddp, &first, &end);
    if (ddp->n_shards_done != end - first)
        return md_fail(ddp->dist, MUSTER_DIST_EUSE,
                       "rank %u: muster_ddp_finish after %u of its %u shards",
                       ddp->dist->place.rank, ddp->n_shards_done, end - first);
    int rc = muster_dist_all_reduce(ddp->dist, &n_samples, 1, MUSTER_INT64, MUSTER_SUM);
    if (rc == 0 && n_samples == 0)
        rc = md_fail(ddp->dist, MUSTER_DIST_EUSE, "no rank has samples in this step");
    rc = rc ? rc : sums_exchange(ddp);
    if (rc == 0)
        gradients_fill(ddp, (double)n_samples);
    while (ddp->n_nodes > 0) {
        free(ddp->spare);
        ddp->spare = ddp->nodes[--ddp->n_nodes].sums;
    }
    ddp->n_shards_done = 0;
    ddp->n_samples = 0;
    return rc;
}
