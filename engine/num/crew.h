/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that take pieces of work in their order, and hand what came of them over in that order:
 * results, and the piece that fails first, are the same for any number of threads.
 */
#pragma once

#include <stddef.h>

#include "base/err.h"

struct crew_work {
    void *context;
    size_t n_pieces;
    /* On any thread; what it makes is the thread's until it was handed over. */
    void (*make)(void *context, unsigned thread, size_t piece);
    /* One at a time, in order; the first that is not 0 ends it. May be NULL. */
    int (*hand_over)(void *context, unsigned thread, size_t piece, struct err *err);
};

struct crew;

/* So many threads as the process may use processors. */
unsigned crew_processors(void);
/* 0: one a processor. The caller of crew_run() is thread 0; fewer where they cannot be had. */
struct crew *crew_open(unsigned n_threads);
unsigned crew_n_threads(const struct crew *crew);
/* One work at a time. */
MUST_CHECK int crew_run(struct crew *crew, const struct crew_work *work, struct err *err);
void crew_close(struct crew *crew);
