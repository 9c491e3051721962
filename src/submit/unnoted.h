/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs of a run that are not in the run's folder yet: the user has submitted its script by sbatch, and a job notes
 * itself only when it begins to work.
 */
#pragma once

#include "base/buf.h"
#include "store/submission.h"

/* Adds the ones that wait or run, from squeue's list of the user's jobs. */
void unnoted_jobs_add(const char *run_dir, struct str answer, struct submission *submission);
