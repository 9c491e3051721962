/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers that wait for their commit: which items' results stand where in the worker's part.
 */
#pragma once

#include "base/buf.h"

struct worker;
struct metrics;

/* A run of items that were answered, and where that stands in the part. */
struct answered_items {
    uint64_t first, count, offset, bytes;
    struct metrics *metrics; /* of a channel worker's result that waits for its batch; or NULL */
};

struct answers {
    struct answered_items *at;
    size_t len, cap;
};

void answers_note(struct worker *worker, struct answered_items items);
/* Records those of these items, and forgets them. */
void answers_commit(struct worker *worker, uint64_t first, uint64_t count);
void answers_forget(struct worker *worker);
