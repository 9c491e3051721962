/* SPDX-License-Identifier: Apache-2.0
 *
 * How a run is cut: what fits into the memory that it may have.
 */
#pragma once

#include "tracin/factor.h"

struct cut {
    size_t tests_at_once, train_tile;
    unsigned n_threads;
    uint64_t bytes;
};

struct cut_ask {
    const struct factor_plan *plan;
    const struct tracin_opts *opts;
    const struct num_backend *be;           /* NULL: one of the host */
    size_t n_checkpoints, n_tests, n_train; /* n_tests 0: self-influences */
    uint64_t memory_bytes; /* 0: those of opts, or from what is free where the backend computes */
};

/*
 * The tile does not depend on the number of threads, so that results do not. ERR_USAGE if not even
 * one thread with a tile of one fits.
 */
MUST_CHECK int cut_choose(const struct cut_ask *ask, struct cut *cut, struct err *err);

/* What run.c, self.c and check.c ask of their arguments. */
MUST_CHECK int arguments_check(const struct tracin_checkpoint *checkpoints, size_t n_checkpoints,
                               const struct tracin_opts *opts, struct err *err);
/* "training triple 17: …" */
MUST_CHECK int triples_check(const struct conve_shape *shape, const char *what,
                             const struct triple *triples, size_t n, struct err *err);
