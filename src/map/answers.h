/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers that wait for their commit: their items, and their places in the worker's part.
 */
#pragma once

#include "base/buf.h"

struct worker;
struct metrics;

/* A range of answered items, and where their results are in the part. */
struct answered_items {
    uint64_t first, count, offset, bytes;
    struct metrics *metrics; /* of a channel worker's result that waits for its batch; NULL: none */
};

struct answers {
    struct answered_items *at;
    size_t len, cap;
};

void answers_note(struct worker *worker, struct answered_items items);
/* Commits the answers of these items to the ledger, and forgets them. */
void answers_commit(struct worker *worker, uint64_t first, uint64_t count);
void answers_forget(struct worker *worker);
