/* SPDX-License-Identifier: Apache-2.0
 *
 * Gathering facts that may block for ever (a folder on a dead network file system): done by a
 * forked child, which writes them into a pipe, while the parent does something else and waits only
 * so long.
 */
#pragma once

#include <sys/types.h>

#include "base/err.h"

struct task {
    pid_t pid;    /* 0: there is none */
    bool is_done; /* without a child */
    int fd;
    char *facts; /* the caller's, n_bytes large */
    size_t n_bytes, n_got;
};

/*
 * Runs gather(context, facts) in a child. `facts` is n_bytes large, holds no pointers, and is the
 * child's from its beginning; the parent's copy changes in task_end() only. Where no child can be
 * made (limits), it is run at once: better to wait than not to know.
 */
void task_begin(struct task *task, void (*gather)(const void *context, void *facts),
                const void *context, void *facts, size_t n_bytes);
/*
 * Wait until `until_ms` of the monotonic clock at most; then the child is ended. True: the facts
 * are there, whole. False: untouched. A child in D state is left to end when it can.
 */
MUST_CHECK bool task_end(struct task *task, uint64_t until_ms);
