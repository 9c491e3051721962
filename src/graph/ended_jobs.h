/* SPDX-License-Identifier: Apache-2.0
 *
 * The jobs of a graph that does not go on, as its folder names them: first those of open_jobs.jsonl, which are not
 * done, in the order of the graph; then all others that have a row in run.db.
 */
#pragma once

#include "base/name_index.h"
#include "store/jobs.h"

struct ended_job {
    enum job_state state, before; /* of its row, now and as read; JOB_NONE: perhaps without a row */
    char *stage;
    char *why; /* what is said of it; NULL: nothing */
};

struct ended_jobs {
    const char *dir;
    struct name_index names;
    struct ended_job *at; /* [names.len], in the same order */
    size_t cap;
    bool has_open; /* the run said which jobs are not done */
};

/* ERR_USAGE for the folder of a run that is no graph. */
MUST_CHECK int ended_jobs_check(const char *dir, struct err *err);
/* Zeroed but for `dir`; release it also after an error. */
MUST_CHECK int ended_jobs_read(struct ended_jobs *jobs, struct store *store, struct err *err);
void ended_jobs_release(struct ended_jobs *jobs);

/* The name of a job, a new string. */
char *ended_job_name_new(const struct ended_jobs *jobs, size_t i);
/* Does a pattern mean job i? `exact`: the job that is called as the pattern is, or NAME_NONE. */
bool ended_job_is_meant(const struct ended_jobs *jobs, size_t i, size_t exact, const char *pattern);
/* "there is no job 'x'; did you mean 'y'?", ERR_USAGE. For a run that said which jobs are not done. */
int ended_job_unknown(const struct ended_jobs *jobs, const char *pattern, struct err *err);
