/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides whether a cluster can ever run the job that sbatch's options ask for. Where the facts are not known, the
 * job is accepted here, and sbatch decides.
 */
#pragma once

#include "base/env_list.h"
#include "slurm/cluster.h"

/* Each entry is a sentence: what is wrong, why, and the cure. */
struct judgement {
    struct env_list errors;   /* Slurm would refuse the job, or the job would wait for ever */
    struct env_list warnings; /* the job would wait, or do less than the user means */
};

/* Judges the job. `options`: from sbatch_words_read(). */
void cluster_judge(const struct cluster *cluster, const struct env_list *options,
                   struct judgement *out);
void judgement_release(struct judgement *judgement);
/*
 * Adds options that the user means but has not given: one node, and the whole node if the job asks for all GPUs of a
 * node. For --exclusive it adds a sentence to `told`.
 */
void cluster_complete(const struct cluster *cluster, struct env_list *options,
                      struct env_list *told);
