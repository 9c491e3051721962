/* SPDX-License-Identifier: Apache-2.0
 *
 * Orders to the muster that works on a run: files in the run's folder. That muster looks for them once a second, so
 * that an order works over a shared file system too, and when SIGUSR1 arrives, which is sent if it is on this host.
 *
 *     stop                     "drain" or "now"; it stays until the run is resumed
 *     order-<time>-<number>    anything else, one file an order; carried out once, the oldest first
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

/* As run_stop(), with another order: at most ORDER_MAX_BYTES. Its name is that under which it is answered. */
MUST_CHECK int run_order_give(const char *dir, struct str text, char name[ORDER_NAME_MAX],
                              bool *was_running, struct err *err);
/* Takes an order back. False: the muster of the run has taken it. */
bool run_order_withdraw(const char *dir, const char *name);
/*
 * For the muster of the run: takes the oldest order behind `name` out of the folder ("": the oldest of all). ERR_USAGE,
 * ERR_DATA: it is not of this user, who alone may give such orders, or is no regular file of that size; it is removed
 * all the same. ERR_SYS: it cannot be removed, and is not to be carried out. *name "": there is none.
 */
MUST_CHECK int run_order_take(const char *dir, char name[ORDER_NAME_MAX], struct buf *text,
                              struct err *err);
/* Removes all orders: they were meant for an earlier muster. */
MUST_CHECK int run_orders_drop(const char *dir, struct err *err);
