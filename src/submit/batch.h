/* SPDX-License-Identifier: Apache-2.0
 *
 * Submitting the script of a run.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/env_list.h"
#include "base/err.h"

/* A script that is to be submitted. */
struct batch_wish {
    const char *script; /* its name in the run's folder; NULL: job.sh */
    const char *verb;   /* for a script that the user submits, and not the job before it */
    const char *role;   /* if it is one of several jobs; NULL: it is not */
    uint64_t after;     /* begins when that job has ended; 0: at once */
    bool needs_success; /* begins only if that job ended well */
    const char *array;  /* tasks, instead of those of the script; NULL: those */
    const struct env_list
        *options; /* of sbatch, if the user submits it (script_first_add); NULL: none */
};

/* A script in the run's folder, by its name (NULL: job.sh); a new string. */
char *batch_script_path(const char *run_dir, const char *name);
/* Submits a script, and notes the job in the run's folder. ERR_UNAVAILABLE, with Slurm's words. */
MUST_CHECK int batch_submit(const char *run_dir, const struct batch_wish *wish, uint64_t *job,
                            struct err *err);
/*
 * Finds a job of that script which waits for the end of wish->after: sbatch may have submitted it although it got no
 * answer. Notes the job in the run's folder as well. *job 0: there is none. ERR_UNAVAILABLE if squeue cannot be
 * asked.
 */
MUST_CHECK int batch_find(const char *run_dir, const struct batch_wish *wish, uint64_t *job,
                          struct err *err);
/*
 * Cancels all jobs of the run that may wait or run, except `but`; failures are ignored. Jobs that the user submitted
 * by sbatch are found in squeue's last answer.
 */
void batch_cancel_others(const char *run_dir, uint64_t but);
/* Cancels a job, and notes that with its role (NULL: none, or noted already). */
MUST_CHECK int batch_cancel(const char *run_dir, uint64_t job, const char *role, struct err *err);
