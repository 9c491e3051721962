/* SPDX-License-Identifier: Apache-2.0
 *
 * What rounding to 16 bits does to influences: a sample of the run's own pairs is computed with and
 * without rounding.
 */
#pragma once

#include "tracin/tracin.h"

struct rounding_error {
    size_t n_tests, n_train; /* numbers of triples in the sample */
    /*
     * |rounded - full| / max(|full|, |g| |g'| / 100, 2^-126). Gradients are nearly orthogonal at
     * times: then |full| may be small beside the product of their lengths, and the error is
     * measured by a hundredth of this product. Below 2^-126 float32 itself loses digits.
     */
    double max_relative, median_relative;
    /*
     * The sum over the tests of the 10 strongest influences in the sample, and how many of these
     * rounding leaves there.
     */
    size_t n_strongest, n_kept;
};

/* opts name the format, which is not NUM_FULL. Returns the errors of tracin_run(). */
MUST_CHECK int rounding_measure(const struct tracin_checkpoint *checkpoints, size_t n_checkpoints,
                                const struct tracin_opts *opts, const struct triple *train,
                                size_t n_train, const struct tracin_test *tests, size_t n_tests,
                                struct rounding_error *out, struct err *err);
