/* SPDX-License-Identifier: Apache-2.0
 *
 * What a trainer exchanges with the other ranks of its team. Without a team these functions do
 * nothing.
 */
#pragma once

#include "train/trainer.h"

/* Returns where the backend keeps a parameter, which may be changed there. */
float *param_at(const struct trainer *trainer, enum conve_param param);

MUST_CHECK int heads_open(struct trainer *trainer, struct err *err);
void heads_close(struct trainer *trainer);
/* Gets the embeddings of the batch's heads from the ranks that have them. */
void heads_refresh(struct trainer *trainer, const struct train_batch *batch);
