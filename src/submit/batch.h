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
    const char *verb;   /* of one that the user submits, and not the job before it */
    const char *role;   /* of one of several jobs; NULL: none */
    uint64_t after;     /* it begins when that job has ended; 0: at once */
    bool needs_success; /* and only if that ended well */
    const char *array;  /* other tasks than the script says; NULL: those */
    const struct env_list
        *options; /* sbatch's, of one that the user submits (script_first_add); NULL: none */
};

/* A script in the run's folder, by its name (NULL: job.sh); a new string. */
char *batch_script_path(const char *run_dir, const char *name);
/* Submits it, and notes the job in the run's folder. ERR_UNAVAILABLE, with Slurm's words. */
MUST_CHECK int batch_submit(const char *run_dir, const struct batch_wish *wish, uint64_t *job,
                            struct err *err);
/* A job of that script which waits for the end of wish->after: sbatch may have submitted it, and have been told nothing.
 * Notes it in the run's folder as well. *job 0: there is none. ERR_UNAVAILABLE if squeue cannot be asked. */
MUST_CHECK int batch_find(const char *run_dir, const struct batch_wish *wish, uint64_t *job,
                          struct err *err);
/* Cancels the jobs of the run that may wait or run, but for that one, whatever Slurm says to it. Those by which the user
 * went on are known by what squeue has said last. */
void batch_cancel_others(const char *run_dir, uint64_t but);
/* Cancels it, and notes that, with its role (NULL: none, or noted already). */
MUST_CHECK int batch_cancel(const char *run_dir, uint64_t job, const char *role, struct err *err);
