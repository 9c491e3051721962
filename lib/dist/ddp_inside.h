/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of ddp share: ddp.c (registration, buckets), ddp_step.c (a step), ddp_shards.c (a step
 * that is the same on any number of ranks), ddp_device.c (gradients in device memory), ddp_after.c (norm,
 * comparison).
 */
#pragma once

#include <string.h>

#include "ddp_loops.h"
#include "device.h"
#include "muster/ddp.h"

struct ddp_param {
    struct muster_param is; /* always has a gradient */
    size_t bucket, at;      /* its place in the bucket, in values */
    bool is_on_device, value_is_on_device;
    bool is_view;       /* the gradient is the bucket's own memory */
    bool owns_gradient; /* the library allocated it */
    bool is_ready;
};

/* Parameters [first, first + n), of one type, whose gradients are in one kind of memory. */
struct ddp_bucket {
    struct muster_ddp *ddp;
    size_t first, n, count;
    enum muster_type wire;
    bool is_on_device;
    void *flat; /* count values of the wire's type */
    size_t n_ready;
    uint64_t ticket, ready_ns;
    struct md_around around; /* packing and unpacking, by the thread of the operations */
};

/* The sum of the shards [first, first + n): n is a power of two that divides first. */
struct ddp_node {
    uint32_t first, n;
    char *sums; /* float32 values, then float64 values: ddp.n_single and n_double */
};

enum {
    DDP_NODES_MAX = 66 /* of a row of shards: at most two of each power of two */
};

struct muster_ddp {
    struct muster_dist *dist;
    struct muster_ddp_opts opts;
    pthread_mutex_t lock; /* for all below */
    struct ddp_param *params;
    size_t n_params;
    struct ddp_bucket *buckets;
    size_t n_buckets, n_started;
    bool is_begun;
    bool is_finished;   /* the gradients are those of all ranks */
    uint64_t n_samples; /* of this rank, since the last finish */
    double *samples;    /* in this step, of each rank: the first operation gathers them */
    double n_all;       /* of all of them; like weights, when that operation is done */
    double *weights;    /* of each rank's gradients in the sum over ranks */
    bool is_weighted;   /* the weights are not the same */
    struct md_around samples_around;
    uint64_t samples_ticket;
    uint64_t ticket; /* of the newest operation; when it is done the thread is in no bucket */
    char *seen;      /* values of device memory, where they can be looked at */
    size_t seen_bytes;

    size_t n_single, n_double; /* values of a node */
    struct ddp_node nodes[DDP_NODES_MAX];
    size_t n_nodes;
    uint32_t n_shards_done;
    char *spare;    /* for a node's sums */
    char *exchange; /* for the nodes of all ranks */
};

/* ---- ddp_step.c ---- */

/* Says which value of a gradient is not finite, or not as it travels: `packed`, of type `wire`. */
int md_nonfinite_tell(struct muster_ddp *ddp, const struct ddp_param *param, const void *packed,
                      enum muster_type wire);

/* ---- ddp_device.c; with the lock ---- */

/* Finds which memory a parameter is in, and whether ddp supports it there. */
int md_param_place(struct muster_ddp *ddp, struct ddp_param *param);
/* Values in host memory: the values themselves, or a copy that lasts until the next call. NULL: failed. */
void *md_values_see(struct muster_ddp *ddp, void *at, bool is_on_device, size_t bytes);
/* Fails, and names the values, if a bucket's result has values that are not finite. */
int md_bucket_look(struct muster_ddp *ddp, const struct ddp_bucket *bucket);

/* ---- ddp_shards.c ---- */

int md_shards_init(struct muster_ddp *ddp);
void md_shards_release(struct muster_ddp *ddp);
int md_shards_finish(struct muster_ddp *ddp);
