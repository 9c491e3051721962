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

/* The worker's pid, or -1 with *stage and *sys telling which step failed with which errno. */
pid_t worker_start(const struct start *start, enum guard_stage *stage, int *sys);
