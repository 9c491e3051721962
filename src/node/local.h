/* SPDX-License-Identifier: Apache-2.0
 *
 * This machine as a node: workers under guards, with pipes that a loop watches.
 */
#pragma once

#include <uv.h>

#include "node/node.h"
#include "proc/guard.h"

struct local_opts {
    uv_loop_t *loop;
    struct reaper *reaper;
    const char *guard_path;
    char *scratch; /* for one read at a time: nobody keeps a view of it */
    size_t scratch_bytes;
};

/* All pointers are borrowed until node_close. */
struct node *local_open(const struct local_opts *opts);
/* A child of ours has ended; if it is the guard of a worker, what it reported is read. */
void local_child_ended(struct node *node, pid_t pid);
