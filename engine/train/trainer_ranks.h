/* SPDX-License-Identifier: Apache-2.0
 *
 * What a trainer does with the other ranks of its team; without one, nothing.
 */
#pragma once

#include "train/trainer.h"

/* Where the backend keeps a parameter; it may be changed there. */
float *param_at(const struct trainer *trainer, enum conve_param param);

MUST_CHECK int heads_open(struct trainer *trainer, struct err *err);
void heads_close(struct trainer *trainer);
/* The embeddings of the batch's heads come from the ranks that have them. */
void heads_refresh(struct trainer *trainer, const struct train_batch *batch);
