/* SPDX-License-Identifier: Apache-2.0
 *
 * --precision of a training: what it rounds, and the error it causes.
 */
#pragma once

#include "opt/say.h"
#include "train/trainer.h"

/* Prints what is rounded, and the error on the next batch. Does nothing with NUM_FULL. */
void train_precision_report(struct trainer *trainer, const struct app *app);
