/* SPDX-License-Identifier: Apache-2.0
 *
 * The Slurm job that this process runs in: its nodes, its GPUs on each, and the command that starts an agent there.
 */
#pragma once

#include "base/env_list.h"
#include "base/err.h"

struct slurm_job {
    char *id, *description; /* what scontrol says; "" if it says nothing */
    struct env_list nodes;
};

/* ERR_UNAVAILABLE if this is no job; ERR_DATA. */
MUST_CHECK int slurm_job_read(struct slurm_job *job, struct err *err);
void slurm_job_release(struct slurm_job *job);
/* How many GPUs the job has on the node, by a text of `scontrol show job -d`. */
unsigned slurm_gpus(const char *description, const char *node);
/* Adds the words of a job step of one task on the node; the command follows. */
void slurm_step_words(const struct slurm_job *job, const char *node, struct env_list *out);
/* Adds the words that ask for a job of one node, with one task there; the command follows. `args`: further options, in
 * quotes as a shell has them; NULL: the whole node. ERR_USAGE. */
MUST_CHECK int slurm_job_words(const char *args, const char *name, struct env_list *out,
                               struct err *err);
/* Cancels the jobs of this name that wait in the queue. */
void slurm_jobs_cancel(const char *name);
/* Takes Slurm's variables out of an environment, which would change a step in many ways; SLURM_CONF stays. */
void slurm_step_environment(struct env_list *env);
