/* SPDX-License-Identifier: Apache-2.0
 *
 * What runs of a graph have made, in all their sessions: the run that goes on, and others of the same file or command
 * line, as --fresh leaves them.
 */
#pragma once

#include "base/name_index.h"
#include "graph/graph_impl.h"

struct made {
    struct name_index paths;  /* absolute, of files and folders that jobs have left */
    struct name_index begun;  /* jobs that began, by their command, folder and files */
    struct name_index undone; /* of these, those that the newest such run did not end well */
    bool is_read;
};

/* The first of the job's outs that is there and that no such run has made; NULL: none. Reads the runs when it has to. */
const char *made_foreign_out(struct made *made, const struct graph *graph,
                             const struct plan_job *job);
/* May the files at the places of the job's outs be incomplete ones of such a run? Reads the runs. */
bool made_by_half(struct made *made, const struct graph *graph, const struct plan_job *job);
void made_release(struct made *made);
