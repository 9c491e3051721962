/* SPDX-License-Identifier: Apache-2.0
 *
 * A command of Slurm's that is run to its end: sbatch, squeue, scontrol, scancel.
 */
#pragma once

#include "base/buf.h"
#include "base/env_list.h"
#include "base/err.h"

/*
 * Adds what it prints on its standard output to `out`, and waits at most 20 s. ERR_UNAVAILABLE: there is no such program,
 * with the cure; it has ended with another status than 0, with its own words; or it has not ended in time.
 */
MUST_CHECK int slurm_command(const char *const *argv, struct buf *out, struct err *err);
/* As slurm_command(), in that environment, which env_end() has closed, and for no longer than that; 0: the usual time. */
MUST_CHECK int slurm_command_in(const char *const *argv, const struct env_list *env,
                                uint64_t longest_ms, struct buf *out, struct err *err);
