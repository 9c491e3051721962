/* SPDX-License-Identifier: Apache-2.0
 *
 * What a cluster has: its partitions with their limits, and nodes of one kind together, as sinfo groups them. So the
 * facts stay small, however many nodes there are.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/env_list.h"

/* Nodes of a partition that are alike. */
struct cluster_kind {
    struct str partition;
    uint64_t n_nodes, n_cpus, mib;
    bool is_up;      /* neither down nor drained */
    struct str gres; /* "gpu:h200:8(S:0-1)" */
};

struct cluster_partition {
    struct str name;
    struct str state;                     /* "UP" */
    bool is_default, is_exclusive;        /* it gives whole nodes only */
    uint64_t time_max_s, nodes_max;       /* UINT64_MAX: without a limit; 0: unknown */
    struct str accounts, accounts_denied; /* "a,b"; "ALL"; empty: unknown */
};

struct cluster {
    struct cluster_partition *partitions;
    size_t n_partitions;
    struct cluster_kind *kinds;
    size_t n_kinds;
    uint64_t array_max;   /* numbers of an array's tasks are below; 0: unknown */
    bool may_change_jobs; /* a plugin of the site may give a job another partition */
};

/* Texts of Slurm's commands that cluster_read() takes. */
enum cluster_text {
    CLUSTER_CONFIG,
    CLUSTER_PARTITIONS,
    CLUSTER_NODES,
    CLUSTER_TEXTS
};

/* Adds the words of the command that prints the text. */
void cluster_words(enum cluster_text text, struct env_list *out);
/* Reads them; "" for one that is not known. What cannot be read is passed over. The cluster borrows from the texts. */
void cluster_read(const struct str texts[CLUSTER_TEXTS], struct cluster *out);
void cluster_release(struct cluster *cluster);
/* NULL: there is none of this name. */
const struct cluster_partition *cluster_partition_find(const struct cluster *cluster,
                                                       struct str name);
/* The GPUs of that type on a node; the empty type is any. */
uint64_t cluster_kind_gpus(const struct cluster_kind *kind, struct str type);
