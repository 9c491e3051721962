/* SPDX-License-Identifier: Apache-2.0
 *
 * Submitting the script of a run.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"

/* The script in the run's folder; a new string. */
char *batch_script_path(const char *run_dir);
/*
 * Submits it, and notes the job in the run's folder. `verb`: of a script that the user submits; NULL: the job `after`
 * submits it, and the new one begins when that has ended. ERR_UNAVAILABLE, with Slurm's words.
 */
MUST_CHECK int batch_submit(const char *run_dir, const char *verb, uint64_t after, uint64_t *job,
                            struct err *err);
/* Cancels it, and notes that. */
MUST_CHECK int batch_cancel(const char *run_dir, uint64_t job, struct err *err);
