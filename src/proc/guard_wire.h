/* SPDX-License-Identifier: Apache-2.0
 *
 * What guard.c and the program muster-guard agree on: descriptor numbers, arguments, orders.
 */
#pragma once

#include <sched.h>
#include <signal.h>
#include <stdint.h>

/*
 * The guard's own descriptors 0, 1 and 2 are /dev/null. Those of its worker come with the order to
 * start it, and so do those that the guard holds open until all its descendants are gone.
 */
enum guard_fd {
    GUARD_FD_CHANNEL = 3, /* the worker's; the guard keeps the number occupied */
    GUARD_FD_CONTROL,
    GUARD_FD_REPORT,
    GUARD_FD_END,
    GUARD_STREAMS = GUARD_FD_CHANNEL + 1,
    GUARD_HELD_MAX = 192,
    GUARD_SENT_MAX = 1 + GUARD_STREAMS + GUARD_HELD_MAX /* SCM_RIGHTS takes 253 */
};

enum guard_arg {
    GUARD_ARG_SELF,
    GUARD_ARG_MUSTER_PID,
    GUARD_ARGS
};

/*
 * Orders travel over a SOCK_SEQPACKET pair, one per message. The end of the stream means TERMINATE.
 */
enum guard_order_kind {
    GUARD_ORDER_START = 'S',
    GUARD_ORDER_TERMINATE = 'T',
    GUARD_ORDER_KILL = 'K'
};

enum {
    GUARD_TEXTS_MAX = 32 * 1024 /* in a message; socket buffers take more by default */
};

/*
 * `signal` is for TERMINATE, all else but `kind` for START. The descriptors come in this order: the
 * file with the texts, the worker's streams, those that are held. The texts, each with its NUL: cwd
 * ("": inherit), argv, envp.
 */
struct guard_order {
    uint8_t kind;
    uint8_t streams; /* bit i: the worker's descriptor i is sent; else it is /dev/null, or closed */
    uint8_t is_last; /* no other worker will come: the guard ends after this one */
    uint8_t has_file;  /* the texts are in a file, because they are too long for a message */
    uint8_t is_pinned; /* to `cpus` */
    uint8_t signal;    /* by which the worker is asked to end */
    uint32_t n_argv, n_envp, n_text_bytes;
    uint64_t grace_ms;
    cpu_set_t cpus;
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
