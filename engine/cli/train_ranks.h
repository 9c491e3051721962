/* SPDX-License-Identifier: Apache-2.0
 *
 * The ranks of one training: what each rank takes of its machine, and what the ranks agree upon.
 * Without a team these functions do nothing.
 */
#pragma once

#include "base/buf.h"
#include "train/team.h"

/* Leaves one GPU visible of several that the process sees: the one of its local rank. */
MUST_CHECK int train_ranks_device(const struct team *team, struct err *err);
/* The number of threads that a rank takes if the user asked for none; 0: one for each processor. */
unsigned train_ranks_threads(const struct team *team);
/* True if a launcher has started the ranks, or the only one that is left, again after a failure. */
bool train_ranks_are_restarted(void);

/* ERR_USAGE: this rank has other settings than rank 0. The text names them. */
MUST_CHECK int train_ranks_compare(const struct team *team, struct str settings, struct err *err);
/* If any rank was told to stop, all ranks are. Rank 0 decides whether a save is due. */
MUST_CHECK int train_ranks_agree(const struct team *team, bool *is_told, bool *is_due,
                                 struct err *err);
/* The `join` of struct ranks_shared; `context` is the team. */
int train_ranks_join(void *context, int rc, double *ranks, size_t n, struct err *err);
/*
 * If this rank has failed, ends the other ranks. Leaves the team. Returns rc, or its exit status if
 * another rank prints the reason.
 */
int train_ranks_close(struct team *team, int rc, const struct err *err);
