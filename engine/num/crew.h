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

/* The caller is thread 0. Fewer threads where they cannot be had. */
MUST_CHECK int crew_run(unsigned n_threads, const struct crew_work *work, struct err *err);
