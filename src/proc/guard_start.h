/* SPDX-License-Identifier: Apache-2.0
 *
 * Start the worker, from inside muster-guard.
 */
#pragma once

#include "proc/guard.h"
#include "proc/guard_wire.h"

struct start {
    char *const *argv, *const *envp;
    const char *muster_pid; /* for the marker in the environment */
    const char *cwd;        /* "": inherit */
    const cpu_set_t *cpus;  /* NULL: leave alone */
    int fds[GUARD_STREAMS]; /* the worker's descriptors; -1: as the guard's */
};

/* Returns the worker's pid, or -1 with the step that failed in *stage and its errno in *sys. */
pid_t worker_start(const struct start *start, enum guard_stage *stage, int *sys);
