/* SPDX-License-Identifier: Apache-2.0
 *
 * What rounding to 16 bits does to a training: a step over a batch of its own, with and without it.
 */
#pragma once

#include "train/trainer.h"

struct train_rounding {
    double gradients; /* |rounded - full| / |full|, all parameters together */
    double loss;      /* the same of it */
};

/*
 * By the trainer's format, which is not NUM_FULL, of the batch that is next. Training goes on as if
 * it had not been: only gradients are written, which each update sets. The errors of a step.
 */
MUST_CHECK int train_rounding_measure(struct trainer *trainer, struct train_rounding *out,
                                      struct err *err);
