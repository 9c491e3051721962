/* SPDX-License-Identifier: Apache-2.0
 *
 * Gathers facts in a forked child, because that may block for ever (a folder on a dead network file
 * system). The child writes the facts into a pipe; the parent meanwhile does something else, and
 * waits for them for a limited time only.
 */
#pragma once

#include <sys/types.h>

#include "base/err.h"

struct task {
    pid_t pid;    /* 0: there is none */
    bool is_done; /* the facts were gathered without a child */
    int fd;
    char *facts; /* the caller's, n_bytes large */
    size_t n_bytes, n_got;
};

/*
 * Runs gather(context, facts) in a child. `facts` is n_bytes large and holds no pointers. The child
 * begins with a copy of it; the parent's `facts` change in task_end() only. If no child can be
 * started (limits), gather() runs in this process before task_begin() returns, and may block it.
 */
void task_begin(struct task *task, void (*gather)(const void *context, void *facts),
                const void *context, void *facts, size_t n_bytes);
/*
 * Waits until `until_ms` of the monotonic clock at most, then kills the child. True: the facts are
 * complete. False: they are untouched. A child in D state is left to end when it can.
 */
MUST_CHECK bool task_end(struct task *task, uint64_t until_ms);
