/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of ddp share: ddp.c (registration, buckets), ddp_step.c (a step), ddp_shards.c (a step
 * that is the same on any number of ranks), ddp_after.c (norm, comparison).
 */
#pragma once

#include <string.h>

#include "inside.h"
#include "muster/ddp.h"

struct ddp_param {
    struct muster_param is; /* with a gradient always */
    size_t bucket, at;      /* where its values lie in the bucket, in values */
    bool is_view;           /* the gradient is the bucket's own memory */
    bool owns_gradient;     /* it is memory of its own that the library made */
    bool is_ready;
};

/* Parameters [first, first + n), of one type. */
struct ddp_bucket {
    struct muster_ddp *ddp;
    size_t first, n, count;
    enum muster_type wire;
    void *flat; /* count values of the wire's type */
    size_t n_ready;
    uint64_t ticket, ready_ns;
    struct md_around around; /* there and back, done by the thread of the operations */
};

/* The sum of the shards [first, first + n): n is a power of two that divides first. */
struct ddp_node {
    uint32_t first, n;
    char *sums; /* float32 values, then float64 ones: ddp.n_single and n_double of them */
};

enum {
    DDP_NODES_MAX = 66 /* that a row of shards is made of: two of each power of two */
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
    uint64_t n_samples; /* of this rank, since the last finish */
    double samples[2]; /* in this step: of this rank, and of all, which the first operation tells */
    uint64_t ticket;   /* of the newest operation; when it is done the thread is in no bucket */

    size_t n_single, n_double; /* values of a node */
    struct ddp_node nodes[DDP_NODES_MAX];
    size_t n_nodes;
    uint32_t n_shards_done;
    char *spare;    /* for a node's sums */
    char *exchange; /* in which nodes of all ranks come together */
};

/* ---- ddp_loops.c: plain loops over values ---- */

/*
 * to[i] = from[i] × factor, rounded once to the wire's type. Returns whether all results are finite.
 * to may be from if the types are the same.
 */
bool md_pack(void *to, enum muster_type wire, const void *from, enum muster_type type, size_t count,
             double factor);
bool md_are_finite(const void *values, enum muster_type type, size_t count);
/* The other way, without a factor. */
void md_unpack(void *to, enum muster_type type, const void *from, enum muster_type wire,
               size_t count);
/* sums[i] = left[i] + right[i]; of float32, or float64. sums may be left. */
void md_add(void *sums, const void *left, const void *right, enum muster_type type, size_t count);
/* Of float32, or float64. */
void md_divide(void *values, enum muster_type type, size_t count, double divisor);
double md_squares(const void *values, enum muster_type type, size_t count);
void md_scale(void *values, enum muster_type type, size_t count, double factor);
uint64_t md_hash(const void *at, size_t bytes);

/* ---- ddp_step.c ---- */

/* Says which value of a gradient is not finite, or not on the wire. */
int md_nonfinite_tell(struct muster_ddp *ddp, const struct ddp_param *param, enum muster_type wire,
                      double factor);

/* ---- ddp_shards.c ---- */

int md_shards_init(struct muster_ddp *ddp);
void md_shards_release(struct muster_ddp *ddp);
int md_shards_finish(struct muster_ddp *ddp);
