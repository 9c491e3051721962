/* SPDX-License-Identifier: Apache-2.0
 *
 * What squeue says of a user's jobs: one question for all of them, and the reading of its answer.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/env_list.h"

/* What is left to happen to a job. */
enum queue_phase {
    QUEUE_WAITS, /* it has not begun, or begins again */
    QUEUE_RUNS,
    QUEUE_OVER,
};

/* A job. The texts are views of the answer. */
struct queue_entry {
    uint64_t job;
    struct str state;  /* "PENDING" */
    struct str reason; /* "Resources"; "None" */
    struct str nodes;  /* "" until it has begun */
    struct str script; /* its path; "" in an answer that an earlier muster kept */
    uint64_t start_s,
        end_s;        /* since 1970; 0: unknown; the start of a job that waits is Slurm's guess */
    uint64_t limit_s; /* the time limit, counted from the start; UINT64_MAX: none; 0: unknown */
};

/* The words of the question, and what their environment needs. */
void queue_words(struct env_list *out);
/* How a job ended that the controller has forgotten: a line with the state of each of its tasks, "CANCELLED by 1000". */
void queue_past_words(uint64_t job, struct env_list *out);
void queue_environment(struct env_list *env);
/* Cuts the next job from what squeue printed; what is no such line is passed over. False: at the end. */
bool queue_next(struct str *answer, struct queue_entry *out);
/* When the time of a job that has begun is over; 0: unknown. (Once Slurm ends it before, end_s is the present.) */
uint64_t queue_time_over_s(const struct queue_entry *entry);
/* Is it ended by Slurm because its time is over? */
bool queue_is_at_limit(const struct queue_entry *entry);
/* Has Slurm begun to end a job that had begun? Its reason is then why, and "None" after scancel. */
bool queue_is_being_ended(const struct queue_entry *entry);
/* Does it wait until somebody releases it? */
bool queue_is_held(const struct queue_entry *entry);
/* The last line of that job; of an array, one about a task that runs, if there is any. */
bool queue_find(struct str answer, uint64_t job, struct queue_entry *out);

enum queue_phase queue_phase_of(struct str state);
/* Why a job waits, in words: "others are before it"; Slurm's own word if it is not known here. */
void queue_reason_add(struct str reason, struct buf *out);
/* How a job ended that is over, in words: "its time was over". */
void queue_end_add(struct str state, struct buf *out);

/* ---- another question: which jobs wait, and for what ---- */

/* The texts are views of the answer. */
struct queue_waiting {
    uint64_t job;
    struct str dependency; /* "afterok:7(unfulfilled),afterany:8(unfulfilled)"; "(null)" */
    struct str script;     /* its path */
};

void queue_waiting_words(struct env_list *out);
/* As queue_next(). */
bool queue_waiting_next(struct str *answer, struct queue_waiting *out);
/* Does it wait for the end of that job, however that ends, and for nothing else? */
bool queue_waits_for_end(const struct queue_waiting *waiting, uint64_t job);
