/* SPDX-License-Identifier: Apache-2.0
 *
 * Ordered thread pool: its threads take the pieces of a work in order, and hand over the results in
 * the same order. So the results, and the piece that fails first, are the same for any number of
 * threads.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct thread_pool_work {
    void *context;
    size_t n_pieces;
    /* Called on any thread. The result belongs to that thread until it is handed over. */
    void (*make)(void *context, unsigned thread, size_t piece);
    /* Called for one piece at a time, in order; a result that is not 0 ends the work. May be
     * NULL. */
    int (*hand_over)(void *context, unsigned thread, size_t piece, struct err *err);
    bool always_ends; /* the work is finished even if the pool is told to stop */
};

struct thread_pool;

/* Returns how many processors the process may use. */
unsigned thread_pool_processors(void);
/* Returns how many more bytes the process may map (ulimit -v); UINT64_MAX without a limit. */
uint64_t thread_pool_addresses_free(void);
/*
 * n_threads 0: one for each processor. The caller of thread_pool_run() is thread 0. The pool has
 * fewer threads where no more can be started, or where the address space is too small for more
 * (ulimit -v).
 */
struct thread_pool *thread_pool_open(unsigned n_threads);
unsigned thread_pool_n_threads(const struct thread_pool *pool);
/* Once *is_told is set, no further piece is begun. Borrowed; a signal handler may set it. */
void thread_pool_stop_when(struct thread_pool *pool, const atomic_bool *is_told);
bool thread_pool_is_stopped(const struct thread_pool *pool);
/* Runs one work at a time. ERR_STOPPED if the pool was told to stop and pieces are left. */
MUST_CHECK int thread_pool_run(struct thread_pool *pool, const struct thread_pool_work *work,
                               struct err *err);
void thread_pool_close(struct thread_pool *pool);
