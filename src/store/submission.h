/* SPDX-License-Identifier: Apache-2.0
 *
 * jobs.jsonl, in the run's folder: the Slurm jobs of a submitted run. `muster submit` and the jobs themselves add a
 * line for each event; no line is changed.
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

/* A line. Texts are borrowed; NULL: left out. */
struct job_record {
    enum job_event event;
    uint64_t job;
    const char *verb; /* if the user submitted the job, and not the job before it */
    const char *role; /* if the run has several jobs: "tasks" (an array), or the name of a stage */
    const char *nodes, *why;
    uint64_t restarts; /* of this job, by Slurm */
    int status;        /* if the job was interrupted or has ended */
};

/* A job, by its last line. */
struct submitted_job {
    uint64_t id, restarts;
    enum job_event event;
    bool is_again;                    /* submitted by the job before it */
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
/* A missing file means no jobs, and is no error. Malformed lines are passed over. */
MUST_CHECK int submission_read(const char *dir, struct submission *out, struct err *err);
/* The same of the file's text. */
void submission_parse(struct str text, struct submission *out);
/* Adds a job of that role that has no line yet, as submitted by the user. A job that has lines stays as it is. */
void submission_add_unnoted(struct submission *submission, uint64_t id, const char *role);
void submission_release(struct submission *submission);
/* Is the job an array? Its tasks write no lines here. */
bool submitted_job_is_array(const struct submitted_job *job);
/* The array after which muster submitted that job; 0: none, or the user submitted the job by sbatch. */
uint64_t submission_array_before(const struct submission *submission, uint64_t id);
/*
 * The last job; an array too while the job behind it is to come, which it is not when the job that submitted the array has
 * ended. Of stages, the first that has not ended well. NULL: there is none.
 */
const struct submitted_job *submission_last(const struct submission *submission);
/* May the job still wait or run, by its lines? */
static inline bool submitted_job_is_open(const struct submitted_job *job)
{
    return job->event < JOB_ENDED;
}
/* When the user submitted the work of that role (NULL: no role), if that work has begun since; 0: it has not. */
int64_t submission_since_ms(const struct submission *submission, const char *role);
/* How often jobs of that role (NULL: no role) have submitted the script again since the user submitted it. */
uint64_t submission_count_again(const struct submission *submission, const char *role);
/* The last job of the next stage; NULL: this is the last stage. */
const struct submitted_job *submission_stage_after(const struct submission *submission,
                                                   const char *role);
/* The last job of the stage whose first job is at `index`; NULL: the job there is not the first of its stage. */
const struct submitted_job *submission_stage_at(const struct submission *submission, size_t index);
