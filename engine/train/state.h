/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of a training as a safetensors file: the model, which conve_load() reads like any
 * other; Adam's moments; and in the metadata, progress and settings. The file is replaced as a
 * whole.
 */
#pragma once

#include "train/trainer.h"

/*
 * Compares the words `key=value` of two lists by their keys, and adds the first few that differ,
 * with the word of `there` and that of `here`.
 */
void train_settings_differ(struct buf *out, struct str there, struct str here);

/* Lists of words `key=value`. */
struct train_settings {
    struct str training;   /* what the model depends on */
    struct str validation; /* settings that decide which model is the best; states of older
                            * versions do not have it */
};

/*
 * The id by which the files of a training are recognised, also after they were moved. It is a
 * number made of the training's settings, so a training in another folder with the same settings
 * has the same id.
 */
uint64_t train_settings_id(struct str training);
/* Reads the id in a state or a model. False: there is no id, or no such file. */
bool train_file_id(const char *path, uint64_t *id);
/*
 * Saves the model alone, with the id and the learning rate of its last update. Returns errors of
 * conve_save().
 */
MUST_CHECK int train_model_save(const struct trainer *trainer, uint64_t id, const char *path,
                                struct err *err);

/* Saves the state. A training continues only with the same settings. */
MUST_CHECK int train_state_save(struct trainer *trainer, const struct train_settings *settings,
                                const char *path, struct err *err);
/*
 * ERR_USAGE: the state was saved with other settings, which the text names. ERR_DATA: the file is
 * no such state, or it is the state of another model.
 */
MUST_CHECK int train_state_load(struct trainer *trainer, const struct train_settings *settings,
                                const char *path, struct err *err);
