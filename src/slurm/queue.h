/* SPDX-License-Identifier: Apache-2.0
 *
 * What squeue prints about a user's jobs. One command asks about all jobs; this module reads the answer.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/env_list.h"

/* Whether a job waits, runs or is over. */
enum queue_phase {
    QUEUE_WAITS, /* the job has not begun, or will begin again */
    QUEUE_RUNS,
    QUEUE_OVER,
};

/* A job. Its texts borrow from the answer. */
struct queue_entry {
    uint64_t job;
    struct str state;  /* "PENDING" */
    struct str reason; /* "Resources"; "None" */
    struct str nodes;  /* "" until the job has begun */
    struct str script; /* its path; "" in an answer that an earlier muster kept */
    uint64_t start_s,
        end_s;        /* since 1970; 0: unknown; for a job that waits, the start is Slurm's guess */
    uint64_t limit_s; /* the time limit, counted from the start; UINT64_MAX: none; 0: unknown */
};

/*
 * Adds the words of the command that asks about all jobs; queue_environment() sets the variables that the commands
 * need.
 */
void queue_words(struct env_list *out);
/*
 * Adds the words of a command that asks how a job ended which the controller has forgotten. The command prints a line
 * for each task of the job, with its state: "CANCELLED by 1000".
 */
void queue_past_words(uint64_t job, struct env_list *out);
void queue_environment(struct env_list *env);
/* Cuts the next job off the output of squeue, and passes over other lines. Returns false at the end. */
bool queue_next(struct str *answer, struct queue_entry *out);
/*
 * When the time of a job that has begun is over; 0: unknown. (end_s is no help while Slurm ends a job: then it is the
 * present.)
 */
uint64_t queue_time_over_s(const struct queue_entry *entry);
/* Does Slurm end the job because its time is over? */
bool queue_is_at_limit(const struct queue_entry *entry);
/* Has Slurm begun to end a job that had begun? The job's `reason` then has the cause; it is "None" after scancel. */
bool queue_is_being_ended(const struct queue_entry *entry);
/* Does the job wait until somebody releases it? */
bool queue_is_held(const struct queue_entry *entry);
/* Finds the last line about that job. For an array, prefers a line about a task that runs. */
bool queue_find(struct str answer, uint64_t job, struct queue_entry *out);

enum queue_phase queue_phase_of(struct str state);
/*
 * Adds why a job waits, in words: "others are before it". A reason that is not in the table is added as Slurm writes
 * it.
 */
void queue_reason_add(struct str reason, struct buf *out);
/* Adds how a job ended, in words: "its time was over". */
void queue_end_add(struct str state, struct buf *out);

/* ---- another question: which jobs wait, and for what ---- */

/* A job that waits. Its texts borrow from the answer. */
struct queue_waiting {
    uint64_t job;
    struct str dependency; /* "afterok:7(unfulfilled),afterany:8(unfulfilled)"; "(null)" */
    struct str script;     /* its path */
};

void queue_waiting_words(struct env_list *out);
/* As queue_next(), for the answer about waiting jobs. */
bool queue_waiting_next(struct str *answer, struct queue_waiting *out);
/* Does the job wait only for the end of `job`, whether that fails or not? */
bool queue_waits_for_end(const struct queue_waiting *waiting, uint64_t job);
