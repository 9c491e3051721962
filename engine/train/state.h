/* SPDX-License-Identifier: Apache-2.0
 *
 * Where training stands, as a file: safetensors with the model, which conve_load() reads like any
 * other, Adam's moments beside it, and progress and settings in its metadata. Replaced as a whole.
 */
#pragma once

#include "train/trainer.h"

/* `settings`: words `key=value`, with which training goes on only if they are the same. */
MUST_CHECK int train_state_save(struct trainer *trainer, struct str settings, const char *path,
                                struct err *err);
/*
 * ERR_USAGE if it was made with other settings, which are said; ERR_DATA if it is no such file, or
 * of another model.
 */
MUST_CHECK int train_state_load(struct trainer *trainer, struct str settings, const char *path,
                                struct err *err);
