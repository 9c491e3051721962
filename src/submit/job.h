/* SPDX-License-Identifier: Apache-2.0
 *
 * The job's side of a submitted run: the process that the batch script becomes. It starts the verb, and hands on
 * Slurm's signals: that the time is over soon, or that the job ends. When the verb ends before its work is done, it
 * submits the script again.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct job_request {
    const char *self_path;
    const char *run_dir;
    /* The folder of the verb's own run, which has a lock: run_dir, except for a stage. NULL: the verb has no run. */
    const char *ledger_dir;
    const char *stage; /* its name, if the run has several jobs; NULL: it has one */
    bool gains_unseen; /* no ledger tells the gain of its programs: they go on from checkpoints */
    bool is_program;   /* the words are of another program than muster */
    uint64_t n_tasks;  /* of the array that worked before this job; 0: there is none */
    uint64_t again_max;
    char **words; /* the verb and what follows, NULL-terminated */
};

/* The status of the verb, or a negative code. */
int job_run(const struct job_request *request, struct err *err);
