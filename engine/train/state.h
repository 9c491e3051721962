/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a training as a safetensors file: the model, which conve_load() reads like any
 * other, Adam's moments, and in the metadata progress and settings. The file is replaced as a
 * whole.
 */
#pragma once

#include "train/trainer.h"

/* `settings`: words `key=value`. A training continues only with the same settings. */
MUST_CHECK int train_state_save(struct trainer *trainer, struct str settings, const char *path,
                                struct err *err);
/*
 * ERR_USAGE: the state was saved with other settings, which the text names. ERR_DATA: the file is
 * no such state, or one of another model.
 */
MUST_CHECK int train_state_load(struct trainer *trainer, struct str settings, const char *path,
                                struct err *err);
