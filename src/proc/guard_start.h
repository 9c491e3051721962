/* SPDX-License-Identifier: Apache-2.0
 *
 * Start the worker, from inside muster-guard.
 */
#pragma once

#include "proc/guard.h"

struct start {
    char *const *argv;
    char *const *envp;
    const char *muster_pid; /* for the marker in the environment */
    const char *cwd;        /* "": inherit */
    const char *cpus;       /* as GUARD_ARG_CPUS */
};

/* Returns the worker's pid, or -1 with the step that failed in *stage and its errno in *sys. */
pid_t worker_start(const struct start *start, enum guard_stage *stage, int *sys);
