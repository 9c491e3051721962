/* SPDX-License-Identifier: Apache-2.0
 *
 * The Slurm job that this process runs in: its nodes, its GPUs on each node, and the command that starts an agent on
 * a node. Also further jobs that this process asks for, and the times at which jobs end.
 */
#pragma once

#include "base/buf.h"
#include "base/env_list.h"
#include "base/err.h"

struct slurm_job {
    char *id, *description; /* what scontrol prints; "" if it prints nothing */
    struct env_list nodes;
};

/* Reads the job of this process. ERR_UNAVAILABLE if this process is in no job; ERR_DATA. */
MUST_CHECK int slurm_job_read(struct slurm_job *job, struct err *err);
void slurm_job_release(struct slurm_job *job);
/* How many GPUs the job has on the node. `description` is what `scontrol show job -d` prints. */
unsigned slurm_gpus(const char *description, const char *node);
/* Adds the words that start a job step of one task on the node. The caller adds the command of the task. */
void slurm_step_words(const struct slurm_job *job, const char *node, struct env_list *out);
/*
 * Adds the words that ask for a job of one task on one node. The caller adds the command of the task. `args`: further
 * options, quoted as for a shell; NULL: ask for the whole node. ERR_USAGE.
 */
MUST_CHECK int slurm_job_words(const char *args, const char *name, struct env_list *out,
                               struct err *err);
/* Cancels the jobs of this name that wait in the queue. */
void slurm_jobs_cancel(const char *name);
/*
 * Makes the environment of scancel: without variables of the user that make scancel cancel fewer jobs, ask first, or
 * talk to another cluster.
 */
void slurm_cancel_environment(struct env_list *env);
/* Removes Slurm's variables from an environment, because they would change a step in many ways. SLURM_CONF stays. */
void slurm_step_environment(struct env_list *env);

/* The number of the job that this process runs in; 0: none. */
uint64_t slurm_job_own(void);

/* When a job starts and ends, in seconds since 1970. */
struct slurm_time {
    uint64_t job, begin_s, end_s;
};
/*
 * Adds the words of the command that prints the times of running jobs; slurm_time_environment() sets the variables
 * that the command needs. `jobs`: "7,12".
 */
void slurm_time_words(const char *jobs, struct env_list *out);
void slurm_time_environment(struct env_list *env);
/*
 * Cuts the times of the next job off the output of that command, and passes over other lines. Returns false at the
 * end.
 */
bool slurm_time_next(struct str *answer, struct slurm_time *out);
