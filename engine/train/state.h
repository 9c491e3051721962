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

/* Words `key=value`. */
struct train_settings {
    struct str training;   /* what the model depends on */
    struct str validation; /* what decides which model is the best; states of old do not have it */
};

/*
 * What a training is known by in the files that it writes, also when they are moved: a number made
 * of its settings, so that a training in another folder with the same ones has the same.
 */
uint64_t train_settings_id(struct str training);
/* The id in a state or a model. False: there is none, or no such file. */
bool train_file_id(const char *path, uint64_t *id);
/*
 * Saves the model alone, with the id and the learning rate of its last update. Returns errors of
 * conve_save().
 */
MUST_CHECK int train_model_save(const struct trainer *trainer, uint64_t id, const char *path,
                                struct err *err);

/* A training continues only with the same settings. */
MUST_CHECK int train_state_save(struct trainer *trainer, const struct train_settings *settings,
                                const char *path, struct err *err);
/*
 * ERR_USAGE: the state was saved with other settings, which the text names. ERR_DATA: the file is
 * no such state, or one of another model.
 */
MUST_CHECK int train_state_load(struct trainer *trainer, const struct train_settings *settings,
                                const char *path, struct err *err);
