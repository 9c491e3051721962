/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables `jobs` and `job_attempts` of run.db: the jobs of a graph. A job has a row as soon as it begins (NONE);
 * it is done only if its row says so. AGAIN: it was done, and has to run again in the present graph. DROPPED: it was
 * done, and the present graph does not have it. The rows of both keep all other columns, since after the next edit
 * the job may count as done.
 */
#pragma once

#include "store/store.h"

/* id, name in the table */
#define JOB_STATES(X)         \
    X(NONE, "")               \
    X(DONE, "done")           \
    X(FAILED, "failed")       \
    X(CANCELLED, "cancelled") \
    X(HELD, "held")           \
    X(AGAIN, "again")         \
    X(DROPPED, "dropped")

enum job_state {
#define X(id, name) JOB_##id,
    JOB_STATES(X)
#undef X
};
const char *job_state_name(enum job_state state);
/* Was the job done in some version of the graph? */
static inline bool job_was_done(enum job_state state)
{
    return state == JOB_DONE || state == JOB_AGAIN || state == JOB_DROPPED;
}

/* Texts are borrowed; NULL: none. */
struct job_row {
    const char *name;
    enum job_state state;
    bool has_state_alone;               /* for writing: changes only the state of an existing row */
    uint32_t attempts;                  /* of all sessions */
    const char *definition;             /* digests, "command:environment:files" */
    const char *proof;                  /* JSON array of the files that it left */
    const char *inputs;                 /* JSON array of the files that it read */
    uint64_t outs_digest, needs_digest; /* of its outs; of its needs' outs, when it started */
    int64_t started_wall_ms, ended_wall_ms;
    const char *end; /* "status 7", "killed by SIGSEGV", "out of device memory" */
    const char *log; /* names of its logs, without _stdout.log and _stderr.log */
    uint64_t batch, mem_peak_bytes, rss_peak_bytes;
    uint32_t n_halvings; /* of the batch, for lack of device memory */
};

struct job_attempt_row {
    const char *name;
    uint32_t attempt;
    const char *devices; /* "gpu 0+1"; NULL: none */
    int64_t started_wall_ms, ended_wall_ms;
    const char *end;
    bool is_well;
    uint64_t batch, mem_peak_bytes, rss_peak_bytes;
};

/* Makes the tables where they are missing, and what older versions did not have in them. */
MUST_CHECK int store_jobs_begin(struct store *store, struct err *err);
struct job_batch {
    const struct job_row *jobs;
    size_t n_jobs;
    const struct job_attempt_row *attempts;
    size_t n_attempts;
    const struct event_row *events;
    size_t n_events;
    const struct sample_row *samples;
    size_t n_samples;
};
/*
 * Commits all rows or none. When it returns, the rows outlive this process; they outlive a power cut after
 * store_sync(). So many short jobs need not wait for the disk one by one.
 */
MUST_CHECK int store_jobs_commit(struct store *store, const struct job_batch *batch,
                                 struct err *err);

/* In no order. A run without such tables has no rows. */
MUST_CHECK int job_reader_open(struct row_reader **out, struct store *store, struct err *err);
int job_reader_next(struct row_reader *reader, struct job_row *row, struct err *err);
MUST_CHECK int job_attempt_reader_open(struct row_reader **out, struct store *store,
                                       struct err *err);
int job_attempt_reader_next(struct row_reader *reader, struct job_attempt_row *row,
                            struct err *err);
