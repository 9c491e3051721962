/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/name_index.h"
#include "graph/plan.h"

/*
 * ERR_USAGE if two jobs leave the same file, or one leaves a file inside of what another leaves. Paths are compared
 * as text, with "." and ".." taken out; no link is followed. Linear in the length of all paths.
 */
MUST_CHECK int plan_outs_check(const struct plan *plan, struct err *err);
/* The same of two jobs. `cwd`: where muster was started. */
MUST_CHECK int plan_outs_apart(const struct plan_job *a, const struct plan_job *b, const char *cwd,
                               struct err *err);
/* Is `path`, which `reader` reads, what the job leaves, or in it, or above it? */
bool plan_job_leaves(const struct plan_job *job, const struct plan_job *reader, const char *path,
                     const char *cwd);

/* An index of what jobs leave, for questions about many paths. Zero it first. */
struct left_paths {
    struct name_index outs, above; /* above: the folders that they are in */
};
void left_paths_add(struct left_paths *left, const struct plan_job *job, const char *cwd);
/* Would plan_job_leaves() say so of any of the jobs? */
bool left_paths_have(const struct left_paths *left, const struct plan_job *reader, const char *path,
                     const char *cwd);
void left_paths_release(struct left_paths *left);
