/* SPDX-License-Identifier: Apache-2.0
 *
 * How a run is cut into tiles, so that they fit into the memory that it may use.
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
    const struct num_backend *be;           /* NULL: a backend of the host */
    size_t n_checkpoints, n_tests, n_train; /* n_tests 0: self-influences */
    uint64_t memory_bytes; /* 0: that of opts; if opts have 0 as well, it follows from the free
                            * memory of the backend */
};

/*
 * The size of a tile does not depend on the number of threads, so that results do not either.
 * ERR_USAGE if not even one thread with a tile of one triple fits.
 */
MUST_CHECK int cut_choose(const struct cut_ask *ask, struct cut *cut, struct err *err);

/* The checks of arguments that run.c and self.c share. */
MUST_CHECK int arguments_check(const struct tracin_checkpoint *checkpoints, size_t n_checkpoints,
                               const struct tracin_opts *opts, struct err *err);
/*
 * ERR_DATA if a triple is outside the tables. The text begins with `what`: "training triple 17: …".
 */
MUST_CHECK int triples_check(const struct conve_shape *shape, const char *what,
                             const struct triple *triples, size_t n, struct err *err);
