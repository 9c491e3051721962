/* SPDX-License-Identifier: Apache-2.0
 *
 * What the cluster says to a request before it is submitted.
 */
#pragma once

#include "base/env_list.h"
#include "base/err.h"

/*
 * Adds to sbatch's options what is meant and was not said, and says what is to be known about that. ERR_UNAVAILABLE, with
 * the cure, if the cluster can never run the job. A Slurm that cannot be asked refuses nothing here. `array`: of a job beside
 * that of the options; NULL: there is none.
 */
MUST_CHECK int preflight(struct env_list *options, const char *array, struct err *err);
