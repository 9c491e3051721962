/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a training as a safetensors file: the model, which conve_load() reads like any
 * other, Adam's moments, and in the metadata progress and settings. The file is replaced as a
 * whole.
 */
#pragma once

#include "train/trainer.h"

/*
 * Compares two lists of words `key=value` place by place, and adds the first few that differ: "what
 * was there and what is here".
 */
void train_settings_differ(struct buf *out, struct str there, struct str here);

/* `settings`: words `key=value`. A training continues only with the same settings. */
MUST_CHECK int train_state_save(struct trainer *trainer, struct str settings, const char *path,
                                struct err *err);
/*
 * ERR_USAGE: the state was saved with other settings, which the text names. ERR_DATA: the file is
 * no such state, or one of another model.
 */
MUST_CHECK int train_state_load(struct trainer *trainer, struct str settings, const char *path,
                                struct err *err);
