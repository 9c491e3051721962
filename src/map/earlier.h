/* SPDX-License-Identifier: Apache-2.0
 *
 * What the earlier sessions of a resumed run have done.
 */
#pragma once

#include "base/err.h"

struct item_span;
struct session;

struct earlier {
    struct item_span *done; /* ordered by first item; includes failed items */
    size_t n_done;
    uint64_t n_failed;
    bool only_failed_left; /* all items that are left were set aside, and the run has results */
    bool has_results;      /* of the command that the run has now */
};

/* ERR_USAGE if the run was one of records and is now one of shards, or the reverse. */
MUST_CHECK int earlier_work_match(struct session *s, struct err *err);
/* Checks that the input is unchanged, and fills s->earlier. */
MUST_CHECK int earlier_take(struct session *s, struct err *err);
/* Counts the items that the run is not about as settled. */
void earlier_limit(struct session *s);
/* With an order: ERR_DATA if the ledger has items that the input has not, because the feeder then has
 * one slot for each item of the input. */
MUST_CHECK int earlier_check(const struct session *s, struct err *err);
/* Notes in run.db that the run goes on; before this call, an error leaves the run as it was. */
MUST_CHECK int earlier_begin(const struct session *s, struct err *err);
/* Prints on stdout what is left of a resumed run. */
MUST_CHECK int session_plan_left(struct session *s, struct err *err);
