/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks of one training: what each of them takes of its machine, and what they agree upon. Without
 * a team these functions do nothing.
 */
#pragma once

#include "base/buf.h"
#include "train/team.h"

/* Of several GPUs that the process sees, leaves one to be seen: that of its local rank. */
MUST_CHECK int train_ranks_device(const struct team *team, struct err *err);
/* How many threads a rank takes if none were asked for; 0: one for each processor. */
unsigned train_ranks_threads(const struct team *team);
/* Whether a launcher has started the ranks again after a failure. */
bool train_ranks_are_restarted(const struct team *team);

/* ERR_USAGE: this rank has other settings than rank 0, which are named. */
MUST_CHECK int train_ranks_compare(const struct team *team, struct str settings, struct err *err);
/* If any rank was told to stop, all are; whether a save is due, rank 0 knows. */
MUST_CHECK int train_ranks_agree(const struct team *team, bool *is_told, bool *is_due,
                                 struct err *err);
/* struct ranks_shared's join, for the team that `context` is. */
int train_ranks_join(void *context, int rc, double *ranks, size_t n, struct err *err);
/*
 * Ends the other ranks if this one has failed, and leaves them. Returns rc; or its exit status, if
 * another rank prints why.
 */
int train_ranks_close(struct team *team, int rc, const struct err *err);
