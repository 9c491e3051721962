/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs one command of Slurm to its end: sbatch, squeue, scontrol or scancel.
 */
#pragma once

#include "base/buf.h"
#include "base/env_list.h"
#include "base/err.h"

/*
 * Adds the standard output of the command to `out`, and waits at most 20 s. ERR_UNAVAILABLE if there is no such
 * program (the error names the cure), if the status is not 0 (the error has the words of the command), or if the
 * command does not end in time.
 */
MUST_CHECK int slurm_command(const char *const *argv, struct buf *out, struct err *err);
/* As slurm_command(), but in `env`, on which env_end() was called, and with its own time limit; 0: the usual limit. */
MUST_CHECK int slurm_command_in(const char *const *argv, const struct env_list *env,
                                uint64_t longest_ms, struct buf *out, struct err *err);
