/* SPDX-License-Identifier: Apache-2.0
 *
 * What rounding to 16 bits does to a training: a step over one of its batches is computed with and
 * without rounding.
 */
#pragma once

#include "train/trainer.h"

struct train_rounding {
    double gradients; /* |rounded - full| / |full|, all parameters together */
    double loss;      /* |rounded - full| / full */
};

/*
 * Measures the error of the trainer's format, which is not NUM_FULL, on the next batch. This does
 * not change the training: only the gradients are written, and each update sets these anew. Returns
 * the errors of train_step_run().
 */
MUST_CHECK int train_rounding_measure(struct trainer *trainer, struct train_rounding *out,
                                      struct err *err);
