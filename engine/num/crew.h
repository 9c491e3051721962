/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that take pieces of work in their order, and hand what came of them over in that order:
 * results, and the piece that fails first, are the same for any number of threads.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct crew_work {
    void *context;
    size_t n_pieces;
    /* On any thread; what it makes is the thread's until it was handed over. */
    void (*make)(void *context, unsigned thread, size_t piece);
    /* One at a time, in order; the first that is not 0 ends it. May be NULL. */
    int (*hand_over)(void *context, unsigned thread, size_t piece, struct err *err);
    bool always_ends; /* though the crew was told to stop */
};

struct crew;

/* So many threads as the process may use processors. */
unsigned crew_processors(void);
/* How much more the process may map (ulimit -v); UINT64_MAX without a limit. */
uint64_t crew_addresses_free(void);
/*
 * 0: one a processor. The caller of crew_run() is thread 0. Fewer where they cannot be had, or have
 * no room to compute in (ulimit -v).
 */
struct crew *crew_open(unsigned n_threads);
unsigned crew_n_threads(const struct crew *crew);
/* When *is_told is set, no piece is begun any more. Borrowed; a handler of signals may set it. */
void crew_stop_when(struct crew *crew, const atomic_bool *is_told);
bool crew_is_stopped(const struct crew *crew);
/* One work at a time. ERR_STOPPED if the crew was told to stop and pieces are left. */
MUST_CHECK int crew_run(struct crew *crew, const struct crew_work *work, struct err *err);
void crew_close(struct crew *crew);
