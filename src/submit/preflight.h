/* SPDX-License-Identifier: Apache-2.0
 *
 * A check of a request against the cluster, before it is submitted.
 */
#pragma once

#include "base/env_list.h"
#include "base/err.h"

/*
 * Adds options of sbatch that are implied, and tells the user. ERR_UNAVAILABLE, with the cure, if the cluster can
 * never run the job. If Slurm cannot be asked, nothing is refused. `array`: the --array of a second job with these
 * options; NULL: there is none.
 */
MUST_CHECK int preflight(struct env_list *options, const char *array, struct err *err);
