/* SPDX-License-Identifier: Apache-2.0
 *
 * jobs.jsonl: the Slurm jobs that a run was submitted as, in the run's folder. `muster submit` and the jobs themselves add
 * a line for each thing that happens; no line is changed.
 *
 *     {"at":1769846887123,"job":12,"event":"submitted","verb":"map"}
 *     {"at":1769846888001,"job":12,"event":"started","nodes":"n[1-2]","restarts":0}
 *     {"at":1769846890000,"job":12,"event":"ended","status":75,"why":"its time was over, and work is left"}
 *     {"at":1769846890010,"job":13,"event":"submitted"}
 *     {"at":1769846890900,"job":13,"event":"cancelled"}
 *     {"at":1769846887100,"job":11,"event":"submitted","verb":"map","role":"tasks"}
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* id, name */
#define JOB_EVENTS(X)                                                           \
    X(SUBMITTED, "submitted")                                                   \
    X(STARTED, "started")                                                       \
    X(INTERRUPTED, "interrupted") /* by Slurm, which may start the job again */ \
    X(ENDED, "ended")                                                           \
    X(CANCELLED, "cancelled") /* by muster stop */

enum job_event {
#define X(id, name) JOB_##id,
    JOB_EVENTS(X)
#undef X
};

/* A line. The texts are borrowed for writing; NULL: not said. */
struct job_record {
    enum job_event event;
    uint64_t job;
    const char *verb; /* of a job that the user submitted, and not the job before it */
    const char *role; /* of one of several jobs: "tasks" (of an array), or the name of a stage */
    const char *nodes, *why;
    uint64_t restarts; /* by Slurm, of the same job */
    int status;        /* of one that was interrupted or has ended */
};

/* A job, by what was last written of it. */
struct submitted_job {
    uint64_t id, restarts;
    enum job_event event;
    bool is_again;                    /* it was submitted by the job before it */
    int64_t submitted_ms, changed_ms; /* wall clock */
    int status;
    char *role;        /* NULL: none */
    char *nodes, *why; /* NULL: unknown */
};

struct submission {
    char *verb;
    struct submitted_job *jobs; /* in the order in which they were submitted */
    size_t n_jobs;
};

/* Adds a line, durably. */
MUST_CHECK int submission_add(const char *dir, const struct job_record *record, struct err *err);
/* Without the file there are no jobs, which is no error. A line that is no such record is passed over. */
MUST_CHECK int submission_read(const char *dir, struct submission *out, struct err *err);
/* The same of the file's text. */
void submission_parse(struct str text, struct submission *out);
/* Adds a job of that role that has no line yet, as one that the user has submitted. One that has lines stays as it is. */
void submission_add_unnoted(struct submission *submission, uint64_t id, const char *role);
void submission_release(struct submission *submission);
/* An array, whose tasks write no lines here. */
bool submitted_job_is_array(const struct submitted_job *job);
/* The array behind which muster submitted that job; 0: there is none, or the user's own sbatch submitted the job. */
uint64_t submission_array_before(const struct submission *submission, uint64_t id);
/*
 * The last job; an array too while the job behind it is to come, which it is not when the job that submitted the array has
 * ended. Of stages, the first that has not ended well. NULL: there is none.
 */
const struct submitted_job *submission_last(const struct submission *submission);
/* Can there be more of it, as far as the lines tell? */
static inline bool submitted_job_is_open(const struct submitted_job *job)
{
    return job->event < JOB_ENDED;
}
/* When the user submitted the work of that role (NULL: without one), if it has begun since then; 0: it has not. */
int64_t submission_since_ms(const struct submission *submission, const char *role);
/* How often jobs of that role (NULL: without one) have submitted one again since the user did. */
uint64_t submission_count_again(const struct submission *submission, const char *role);
/* The last job of the stage that was submitted next to this one; NULL: this is the last one. */
const struct submitted_job *submission_stage_after(const struct submission *submission,
                                                   const char *role);
/* Of several jobs of one stage, the first in the list stands for its place. NULL: the job is not the first. */
const struct submitted_job *submission_stage_at(const struct submission *submission, size_t index);
