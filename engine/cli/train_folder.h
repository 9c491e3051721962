/* SPDX-License-Identifier: Apache-2.0
 *
 * The folder of a training: the state that it goes on from, the history, the models. Of a team,
 * rank 0 alone touches it; the others call the same functions.
 */
#pragma once

#include "cli/train_job.h"
#include "graph/ranks.h"

/*
 * Makes and locks the folder. Continues from the state, if there is one; else the folder must not
 * have a finished model. With opts.overwrite, what is there is removed.
 */
MUST_CHECK int folder_begin(struct train_job *job, struct err *err);
MUST_CHECK int folder_state_save(struct train_job *job, struct err *err);
/* Adds the line of the current epoch to the history, which is then put. valid may be NULL. */
void folder_history_add(struct train_job *job, const struct rank_metrics *valid, uint64_t ms);
MUST_CHECK int folder_history_put(const struct train_job *job, struct err *err);

/* The model as it is after trainer_fetch(). A checkpoint is saved in the epochs that get one. */
MUST_CHECK int folder_best_save(const struct train_job *job, struct err *err);
MUST_CHECK int folder_final_save(const struct train_job *job, struct err *err);
MUST_CHECK int folder_checkpoint_save(const struct train_job *job, struct err *err);
