/* SPDX-License-Identifier: Apache-2.0
 *
 * What guard.c and the program muster-guard agree on: descriptor numbers, arguments, orders.
 * The settings cannot be confused with the worker's own arguments: they come first in the argument
 * list and at fixed places, and the worker's command is everything after them.
 */
#pragma once

#include <signal.h>
#include <stdint.h>

/*
 * Descriptors 0, 1, 2 and, if there is a channel, 3 are the worker's; the guard closes its copies
 * once the worker runs. From GUARD_FD_END on come the descriptors that the guard holds open until
 * all its descendants are gone.
 */
enum guard_fd {
    GUARD_FD_CHANNEL = 3,
    GUARD_FD_CONTROL,
    GUARD_FD_REPORT,
    GUARD_FD_END,
    GUARD_HELD_MAX = 192
};

enum guard_arg {
    GUARD_ARG_SELF,
    GUARD_ARG_GRACE_MS,
    GUARD_ARG_MUSTER_PID,
    GUARD_ARG_CPUS,   /* hexadecimal mask, lowest CPU in the last digit; "-": leave alone */
    GUARD_ARG_CWD,    /* "": inherit */
    GUARD_ARG_HELD,   /* how many descriptors the guard holds for muster */
    GUARD_ARG_WORKER, /* argv of the worker from here on */
};

/* Orders travel over a SOCK_SEQPACKET pair, one per message. The end of the stream means TERMINATE. */
enum guard_order_kind {
    GUARD_ORDER_TERMINATE = 'T',
    GUARD_ORDER_KILL = 'K'
};

struct guard_order {
    uint8_t kind;
};

/*
 * A variable in the environment of every worker: "MUSTER_PID.GUARD_PID", one such pair for each
 * muster that the worker runs under, outermost first, separated by commas. It tells where an orphan
 * comes from even after the orphan has left its session.
 */
#define GUARD_MARKER "MUSTER_GUARD"

/* The stack of a child between clone and exec; more than it needs. */
enum {
    GUARD_STACK_BYTES = 32768
};
