/* SPDX-License-Identifier: Apache-2.0
 *
 * What a cluster has: its partitions with their limits, and its kinds of nodes. sinfo groups equal nodes into one
 * kind, so these facts stay small, however many nodes the cluster has.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/env_list.h"

/* All nodes of a partition that are alike. */
struct cluster_kind {
    struct str partition;
    uint64_t n_nodes, n_cpus, mib;
    bool is_up;      /* neither down nor drained */
    struct str gres; /* "gpu:h200:8(S:0-1)" */
};

struct cluster_partition {
    struct str name;
    struct str state;                     /* "UP" */
    bool is_default, is_exclusive;        /* is_exclusive: a job always gets whole nodes */
    uint64_t time_max_s, nodes_max;       /* UINT64_MAX: no limit; 0: unknown */
    struct str accounts, accounts_denied; /* "a,b"; "ALL"; empty: unknown */
};

struct cluster {
    struct cluster_partition *partitions;
    size_t n_partitions;
    struct cluster_kind *kinds;
    size_t n_kinds;
    uint64_t array_max;   /* the number of an array's task is smaller than this; 0: unknown */
    bool may_change_jobs; /* a plugin of the site may move a job to another partition */
};

/* The texts that cluster_read() takes. Each is what one command of Slurm prints. */
enum cluster_text {
    CLUSTER_CONFIG,
    CLUSTER_PARTITIONS,
    CLUSTER_NODES,
    CLUSTER_TEXTS
};

/* Adds the words of the command that prints this text. */
void cluster_words(enum cluster_text text, struct env_list *out);
/*
 * Reads the texts; "" stands for a text that is not known. A line that cannot be read is passed over. The cluster
 * borrows from the texts.
 */
void cluster_read(const struct str texts[CLUSTER_TEXTS], struct cluster *out);
void cluster_release(struct cluster *cluster);
/* The partition of that name; NULL if the cluster has none. */
const struct cluster_partition *cluster_partition_find(const struct cluster *cluster,
                                                       struct str name);
/* How many GPUs of that type a node of this kind has. An empty type means any type. */
uint64_t cluster_kind_gpus(const struct cluster_kind *kind, struct str type);
