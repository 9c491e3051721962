/* SPDX-License-Identifier: Apache-2.0
 *
 * What guard.c and the program muster-guard agree on: descriptor numbers, arguments, orders.
 * Nothing here can meet the worker's own arguments or environment: the settings come first in the
 * argument list and at fixed places, the worker's command is everything after them.
 */
#pragma once

#include <signal.h>
#include <stdint.h>

/*
 * 0, 1, 2 and, if there is one, 3 are the worker's; the guard closes its copies once it runs. From
 * GUARD_FD_END on stand those that it is to hold open until all is gone.
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
    GUARD_ARG_HELD,   /* how many descriptors it holds for muster */
    GUARD_ARG_WORKER, /* argv of the worker from here on */
};

/* Orders travel over a SOCK_SEQPACKET pair, one a message; the end of the stream is one too. */
enum guard_order_kind {
    GUARD_ORDER_TERMINATE = 'T',
    GUARD_ORDER_KILL = 'K'
};

struct guard_order {
    uint8_t kind;
};

/*
 * In the environment of every worker: "muster pid.guard pid", one pair for each muster it runs
 * under, outermost first, with commas. It tells an orphan's origin after it has left the session.
 */
#define GUARD_MARKER "MUSTER_GUARD"

/* What the descriptor 3 and the rest need between clone and exec; more than enough. */
enum {
    GUARD_STACK_BYTES = 32768
};
