/* SPDX-License-Identifier: Apache-2.0
 *
 * This machine as a node: workers under guards, whose pipes are watched by a loop.
 */
#pragma once

#include <uv.h>

#include "node/node.h"
#include "proc/guard.h"

struct local_opts {
    uv_loop_t *loop;
    struct reaper *reaper;
    const char *guard_path;
    char *scratch; /* for one read at a time; no view of it is kept */
    size_t scratch_bytes;
};

/* All pointers are borrowed until node_close. */
struct node *local_open(const struct local_opts *opts);
/* Ends the guards that wait for another worker. Call it before waiting for the end of all children. */
void local_guards_end(struct node *node);
/* A child process has ended. If it is the guard of a worker, its last reports are read. */
void local_child_ended(struct node *node, pid_t pid);
