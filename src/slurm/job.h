/* SPDX-License-Identifier: Apache-2.0
 *
 * The Slurm job that this process runs in: its nodes, its GPUs on each, and the command that starts an agent there; jobs of
 * its own that it asks for; and the time that jobs have.
 */
#pragma once

#include "base/buf.h"
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
/* The environment of scancel, without variables of the user that narrow down what is cancelled, make scancel ask first, or
 * name another cluster. */
void slurm_cancel_environment(struct env_list *env);
/* Takes Slurm's variables out of an environment, which would change a step in many ways; SLURM_CONF stays. */
void slurm_step_environment(struct env_list *env);

/* The number of the job that this process runs in; 0: none. */
uint64_t slurm_job_own(void);

/* The time that a job has: seconds since 1970. */
struct slurm_time {
    uint64_t job, begin_s, end_s;
};
/* Adds the words, and what their environment needs, that ask for the times of running jobs: "7,12". */
void slurm_time_words(const char *jobs, struct env_list *out);
void slurm_time_environment(struct env_list *env);
/* Cuts the next job's time from what that command printed; what is no such line is passed over. False: at the end. */
bool slurm_time_next(struct str *answer, struct slurm_time *out);
