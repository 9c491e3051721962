/* SPDX-License-Identifier: Apache-2.0
 *
 * The worker's state, shared by worker.c (credits out, items in), report.c (results out) and late.c
 * (results that have waited long enough).
 */
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include "channel.h"

struct muster_worker {
    struct mw_channel channel; /* only the thread that calls next uses its input */
    pthread_mutex_t lock;      /* for channel.out and all fields below */
    size_t concurrency;        /* items in hand at once; 0: an adaptive window */
    size_t window;             /* adaptive: how many credits and unfinished items to allow */
    size_t limit;              /* on items in hand, from muster's "batch"; 0: none */
    size_t pending;            /* credits given whose item has not been handed out */
    size_t held;               /* items handed out and not finished */
    uint64_t last_index;       /* the newest item handed out */
    uint64_t granted_ns;       /* adaptive: when credits were last given … */
    size_t n_since_grant;      /* … and how many items came since */
    bool is_waiting;           /* the thread in next waits for muster */
    bool has_stopped;
    bool is_closing;
    pthread_t late; /* late.c's thread; valid if late_of is not 0 */
    pid_t late_of;  /* the process that made the thread; 0: there is none */
    pthread_cond_t late_wake;
    bool late_is_idle;
    int code; /* the sticky error */
    char error[256];
};

/* Keep the first error; returns code. */
int mw_keep_error(struct muster_worker *worker, int code);
__attribute__((format(printf, 3, 4))) int mw_fail(struct muster_worker *worker, int code,
                                                  const char *fmt, ...);
int mw_out_of_memory(struct muster_worker *worker);
int mw_flush(struct muster_worker *worker);
/* Give the credits for a call of next (items_max 1) or batch, in blocks if there are many. */
int mw_top_up(struct muster_worker *worker, size_t items_max);

void mw_late_init(struct muster_worker *worker);
/* Called with the lock, when bytes are left in channel.out. False: no thread will write them. */
bool mw_late_expect(struct muster_worker *worker);
/* Called without the lock. */
void mw_late_end(struct muster_worker *worker);
