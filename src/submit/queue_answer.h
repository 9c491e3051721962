/* SPDX-License-Identifier: Apache-2.0
 *
 * squeue's answer, which all verbs of a user share: it is asked once for all jobs, and not again for 15 seconds. The
 * answer is kept in the user's cache folder.
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

/* ERR_UNAVAILABLE if squeue cannot be asked, or does not answer another process; then wall_ms is 0. is_brief: nobody wants to
 * wait long for it. */
MUST_CHECK int queue_answer_get(struct queue_answer *out, bool is_brief, struct err *err);
/* Asks now, and keeps the answer, or why there is none, for those that get it later. */
MUST_CHECK int queue_answer_renew(struct queue_answer *out, struct err *err);
/* Asks now, whatever was asked before. */
MUST_CHECK int queue_ask(struct buf *answer, struct err *err);
/* Was it, or a task of it, ended by scancel? The controller is asked, and the accounting if that has forgotten it; false also
 * where neither knows. */
bool queue_was_cancelled(uint64_t job);
/* Which jobs wait, for queue_waiting_next(). */
MUST_CHECK int queue_waiting_ask(struct buf *answer, struct err *err);
void queue_answer_release(struct queue_answer *answer);
