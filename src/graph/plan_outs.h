/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "graph/plan.h"
#include "graph/real_paths.h"

/*
 * ERR_USAGE if two jobs leave the same file, or one a file in what another leaves; links of folders that are there now are
 * followed, and plan->has_links says whether there are any. Linear in the length of all paths.
 */
MUST_CHECK int plan_outs_check(struct plan *plan, struct err *err);
/* The same of two jobs. real->has_links: that of the plan, if `a` is one of its jobs; links above the outs of `b` are found. */
MUST_CHECK int plan_outs_apart(const struct plan_job *a, const struct plan_job *b,
                               struct real_paths *real, struct err *err);
/* Is `path`, which `reader` reads, what the job leaves, or in it, or above it? */
bool plan_job_leaves(const struct plan_job *job, const struct plan_job *reader, const char *path,
                     struct real_paths *real);
/* The same of what the job itself reads. `cwd`: where muster was started. */
bool plan_job_goes_on(const struct plan_job *job, const char *path, const char *cwd);

/* What jobs leave, for who asks of many paths. Zeroed at first, but for real.cwd. */
struct left_paths {
    struct real_paths real;
    struct name_index outs, above; /* above: the folders that they are in */
};
void left_paths_add(struct left_paths *left, const struct plan_job *job);
/* Would plan_job_leaves() say so of any of the jobs? */
bool left_paths_have(struct left_paths *left, const struct plan_job *reader, const char *path);
void left_paths_release(struct left_paths *left);
