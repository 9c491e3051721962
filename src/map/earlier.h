/* SPDX-License-Identifier: Apache-2.0
 *
 * A run that goes on: what its earlier sessions have done.
 */
#pragma once

#include "base/err.h"

struct item_span;
struct session;

struct earlier {
    struct item_span *done; /* by first item; those that failed as well */
    size_t n_done;
    uint64_t n_failed;
};

/* ERR_USAGE: a run is of records or of shards from its beginning to its end. */
MUST_CHECK int earlier_work_match(struct session *s, struct err *err);
/* s->earlier, after the input was found to be what it was. */
MUST_CHECK int earlier_take(struct session *s, struct err *err);
/* The feeder has one slot an item where there is an order. ERR_DATA: the ledger says more, so it is not this run's. */
MUST_CHECK int earlier_check(const struct session *s, struct err *err);
/* Of a run that goes on, what is left; said on stdout. */
MUST_CHECK int session_plan_left(struct session *s, struct err *err);
