/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs of a run that the run's folder does not tell of yet: the user went on with it by sbatch, and a job notes itself
 * when it begins to work.
 */
#pragma once

#include "base/buf.h"
#include "store/submission.h"

/* Adds those that wait or run, by what squeue printed of the user's jobs. */
void unnoted_jobs_add(const char *run_dir, struct str answer, struct submission *submission);
