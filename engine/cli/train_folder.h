/* SPDX-License-Identifier: Apache-2.0
 *
 * The folder of a training: the state from which the training continues, the history, the models.
 * In a team, only rank 0 touches the folder; the other ranks call the same functions.
 */
#pragma once

#include "cli/train_job.h"
#include "graph/ranks.h"

/*
 * Makes and locks the folder. Continues from the state, if there is one; otherwise the folder must
 * not have a finished model. With opts.overwrite, the files of an earlier training are removed; but
 * after a restart (opts.is_restarted) the training continues that the first start has begun.
 */
MUST_CHECK int folder_begin(struct train_job *job, struct err *err);
MUST_CHECK int folder_state_save(struct train_job *job, struct err *err);
/*
 * Adds the line of the current epoch to the history, which folder_history_put() writes. valid may
 * be NULL.
 */
void folder_history_add(struct train_job *job, const struct rank_metrics *valid, uint64_t ms);
MUST_CHECK int folder_history_put(const struct train_job *job, struct err *err);

/*
 * Saves the model as it is after trainer_fetch(). The second function saves a checkpoint in the
 * epochs that get one.
 */
MUST_CHECK int folder_best_save(const struct train_job *job, struct err *err);
MUST_CHECK int folder_final_save(const struct train_job *job, struct err *err);
MUST_CHECK int folder_checkpoint_save(const struct train_job *job, struct err *err);
