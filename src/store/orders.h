/* SPDX-License-Identifier: Apache-2.0
 *
 * Orders to the muster that works on a run: files in the run's folder. That muster looks for them once a second, so
 * that an order works over a shared file system too, and when SIGUSR1 arrives, which is sent if it is on this host.
 *
 *     stop                     "drain" or "now"; it stays until the run is resumed
 *     order-<time>-<number>    other orders, a file for each; carried out once, the oldest first
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

enum {
    ORDER_NAME_MAX = 64,
    ORDER_MAX_BYTES = 65536
};

enum stop_how {
    STOP_DRAIN, /* items in flight are finished */
    STOP_NOW,   /* workers are ended */
};

/* Asks the muster of this run to end. *was_running tells whether the run was going on; if not, nothing is written. */
MUST_CHECK int run_stop(const char *dir, enum stop_how how, bool *was_running, struct err *err);
/* For the muster of the run: true if a stop was asked for. */
bool run_stop_asked(const char *dir, enum stop_how *how);

/* As run_stop(), for other orders, of at most ORDER_MAX_BYTES. The answer has the order's name. */
MUST_CHECK int run_order_give(const char *dir, struct str text, char name[ORDER_NAME_MAX],
                              bool *was_running, struct err *err);
/* Takes an order back. False: the muster of the run has taken it. */
bool run_order_withdraw(const char *dir, const char *name);
/*
 * For the muster of the run: takes the oldest order after `name` out of the folder ("": the oldest of all); *name "":
 * there is none. ERR_USAGE, ERR_DATA: the order is another user's, who may not give orders, or is no regular file, or
 * is too large; it is removed all the same. ERR_SYS: it cannot be removed, and must not be carried out.
 */
MUST_CHECK int run_order_take(const char *dir, char name[ORDER_NAME_MAX], struct buf *text,
                              struct err *err);
/* Removes all orders: they were meant for an earlier muster. */
MUST_CHECK int run_orders_drop(const char *dir, struct err *err);
