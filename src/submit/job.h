/* SPDX-License-Identifier: Apache-2.0
 *
 * The job's side of a submitted run: what its batch script becomes. It starts the verb, and hands on to it what Slurm says
 * to the script: that the time is over soon, or that the job ends. When the verb has ended before its work was done, it
 * submits the script again.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct job_request {
    const char *self_path;
    const char *run_dir;
    /* The verb's run, with a lock of its own: run_dir, but of a stage; NULL: it has none. */
    const char *ledger_dir;
    const char *stage; /* its name, if run_dir is that of several; NULL: it is none */
    bool gains_unseen; /* its programs may gain what is in no ledger: they go on from checkpoints */
    bool is_program;   /* the words are those of another program than muster */
    uint64_t n_tasks;  /* of the array that did the work before this job; 0: there is none */
    uint64_t again_max;
    char **words; /* the verb and what follows, NULL-terminated */
};

/* The status of the verb, or a negative code. */
int job_run(const struct job_request *request, struct err *err);
