/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a cluster can ever run what sbatch's options ask for. What is not known is not refused: sbatch decides.
 */
#pragma once

#include "base/env_list.h"
#include "slurm/cluster.h"

/* Sentences: what, why, and the cure. */
struct judgement {
    struct env_list errors;   /* the job would be refused, or wait for ever */
    struct env_list warnings; /* it would wait, or not do all that was meant */
};

/* `options`: as sbatch_words_read() gives them. */
void cluster_judge(const struct cluster *cluster, const struct env_list *options,
                   struct judgement *out);
void judgement_release(struct judgement *judgement);
/*
 * Adds what is meant and was not said: one node, and the whole of a node whose GPUs are all asked for. A sentence about
 * each comes into `told`.
 */
void cluster_complete(const struct cluster *cluster, struct env_list *options,
                      struct env_list *told);
