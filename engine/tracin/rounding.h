/* SPDX-License-Identifier: Apache-2.0
 *
 * What rounding to 16 bits does to influences: a sample of the run's own pairs, computed with and
 * without it.
 */
#pragma once

#include "tracin/tracin.h"

struct rounding_error {
    size_t n_tests, n_train; /* of the sample */
    /*
     * |rounded - full| / max(|full|, |g| |g'| / 100, 2^-126): gradients are nearly orthogonal at
     * times, and below a hundredth of their lengths' product that is what counts; below the last
     * number float32 has no digits to lose.
     */
    double max_relative, median_relative;
    size_t n_strongest, n_kept; /* of each test the 10 strongest of the sample; those that stay */
};

/* By opts, whose format is not NUM_FULL. The errors of tracin_run(). */
MUST_CHECK int rounding_measure(const struct tracin_checkpoint *checkpoints, size_t n_checkpoints,
                                const struct tracin_opts *opts, const struct triple *train,
                                size_t n_train, const struct tracin_test *tests, size_t n_tests,
                                struct rounding_error *out, struct err *err);
