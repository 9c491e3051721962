/* SPDX-License-Identifier: Apache-2.0
 *
 * What sbatch's options ask for, in numbers. A number is 0 if no option gives it, or if only sbatch understands the
 * option.
 */
#pragma once

#include "base/buf.h"
#include "base/env_list.h"

enum sbatch_gpus_per {
    SBATCH_PER_JOB,
    SBATCH_PER_NODE,
    SBATCH_PER_SOCKET,
    SBATCH_PER_TASK
};

struct sbatch_gpus {
    const char *option; /* "gpus-per-node" */
    enum sbatch_gpus_per per;
    struct str type; /* "h200"; empty: any type */
    uint64_t count;
};

enum {
    SBATCH_GPUS_MAX = 8
};

/* The request. Its texts borrow from the options. */
struct sbatch_request {
    uint64_t nodes_min, nodes_max;
    uint64_t n_tasks, tasks_per_node, cpus_per_task;
    uint64_t node_mib, cpu_mib, gpu_mib; /* memory */
    uint64_t time_s;                     /* UINT64_MAX: no limit */
    uint64_t n_array, array_last;        /* tasks of --array, and the highest number of a task */
    struct sbatch_gpus gpus[SBATCH_GPUS_MAX];
    size_t n_gpus;
};

/* Reads the request. `options`: from sbatch_words_read(). */
void sbatch_request_read(const struct env_list *options, struct sbatch_request *out);

/* Reads a time: "30", "30:00", "2:00:00", "1-12", "1-00:00:00", "UNLIMITED" (UINT64_MAX); 0 if `text` is no time. */
uint64_t slurm_seconds(struct str text);
/* Reads a size, "16G" or "4000", in MiB; 0 if `text` is no size. */
uint64_t slurm_mib(struct str text);
/*
 * Cuts the next entry about GPUs off a list. `name` is "gpu" for a list of generic resources,
 * "gpu:h200:8(S:0-1),license:2", and "" for a list of GPUs alone, "h200:4,2". Returns false at the end.
 */
bool slurm_gres_next(struct str *list, struct str name, struct str *type, uint64_t *count);
