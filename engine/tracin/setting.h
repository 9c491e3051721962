/* SPDX-License-Identifier: Apache-2.0
 *
 * What every computation of influences needs: the checkpoints' weights in memory of the backend,
 * the cut of the work, and the thread pool.
 */
#pragma once

#include "num/thread_pool.h"
#include "tracin/plan.h"

struct setting {
    const struct num_backend *be;
    struct num_backend own; /* the backend, if the caller gave none */
    const struct tracin_checkpoint *checkpoints;
    size_t n_checkpoints;
    struct factor_plan plan;
    struct cut_ask ask;
    struct cut cut;
    struct conve_weights *weights; /* by checkpoint */
    struct thread_pool *pool;
};

/* n_tests 0: the setting is for self-influences. The caller has checked the arguments. */
MUST_CHECK int setting_open(struct setting *setting, const struct tracin_checkpoint *checkpoints,
                            size_t n_checkpoints, const struct tracin_opts *opts, size_t n_tests,
                            size_t n_train, struct err *err);
void setting_close(struct setting *setting);

/*
 * Allocates the memory of a run by `make`, which returns the errors of allocate. While that is
 * ERR_UNAVAILABLE, `release` frees what `make` has allocated, the cut is made smaller (down to a
 * single pair), and `make` is called again.
 */
struct room_maker {
    void *context;
    int (*make)(void *context, struct err *err);
    void (*release)(void *context);
};
MUST_CHECK int setting_make_room(struct setting *setting, const struct room_maker *maker,
                                 struct err *err);
