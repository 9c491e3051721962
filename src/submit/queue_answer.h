/* SPDX-License-Identifier: Apache-2.0
 *
 * squeue's answer, which all verbs of a user share: squeue is asked once for all jobs, and not again for 15 seconds.
 * The answer is kept in the user's cache folder.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct queue_answer {
    int64_t wall_ms; /* when it was asked; 0: never */
    struct buf text;
};

/*
 * ERR_UNAVAILABLE if squeue cannot be asked, or has not answered another process; then wall_ms is 0. is_brief: waits
 * for 2 seconds at most.
 */
MUST_CHECK int queue_answer_get(struct queue_answer *out, bool is_brief, struct err *err);
/* Asks now, and keeps the answer, or why there is none, for later calls of queue_answer_get(). */
MUST_CHECK int queue_answer_renew(struct queue_answer *out, struct err *err);
/* Asks now, and keeps nothing. */
MUST_CHECK int queue_ask(struct buf *answer, struct err *err);
/*
 * Was the job, or a task of it, ended by scancel? Asks the controller, or the accounting if the controller has
 * forgotten the job. False also if neither knows.
 */
bool queue_was_cancelled(uint64_t job);
/* Asks which jobs wait, for queue_waiting_next(). */
MUST_CHECK int queue_waiting_ask(struct buf *answer, struct err *err);
void queue_answer_release(struct queue_answer *answer);
