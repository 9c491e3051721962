/* SPDX-License-Identifier: Apache-2.0
 *
 * --precision of a training: what it rounds, and what that changes.
 */
#pragma once

#include "opt/say.h"
#include "train/trainer.h"

/* Measures on the batch that is next, and says what is rounded. Nothing with NUM_FULL. */
void train_precision_report(struct trainer *trainer, const struct app *app);
