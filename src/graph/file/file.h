/* SPDX-License-Identifier: Apache-2.0
 *
 * Experiments as a YAML file describes them (muster-graph(5)): stages, each of which is one job for each combination of
 * values of its variables, and what they need of each other. Nothing in a file is evaluated as code.
 *
 * The file becomes a tree (yaml.h); variables become lists of values (file_vars.c); a stage's coordinates become rows, a
 * job each (file_rows.c); needs become edges between rows, by a hash join over the coordinates (file_needs.c,
 * file_edges.c); the rows are put in order (file_order.c), and become jobs of the plan (file_job.c).
 */
#pragma once

#include "graph/plan.h"

enum {
    GRAPH_FILE_BYTES_MAX = 64 << 20
};

struct graph_file_opts {
    /* Words "vars.x=…", "defaults.gpus=2", "jobs.train.retries=3"; the value is YAML, and replaces what the file says. */
    const char *const *overrides;
    size_t n_overrides;
    /* Of `map`, `launch` and `merge`: ERR_USAGE if the verb has no such long option. NULL: any name is taken. */
    int (*option_check)(const char *verb, const char *name, struct err *err);
};

/*
 * The plan of a file. `opts` may be NULL. *out needs plan_release() in any case.
 *
 * ERR_USAGE: "path:line:column: …", with what is wrong and what to do about it.
 */
MUST_CHECK int graph_file_read(const char *path, const struct graph_file_opts *opts,
                               struct plan *out, struct err *err);
/* The same of a text, with at most n_jobs_max jobs; `path` is its name in messages. */
MUST_CHECK int graph_text_read(const char *path, struct str text,
                               const struct graph_file_opts *opts, uint32_t n_jobs_max,
                               struct plan *out, struct err *err);
