/* SPDX-License-Identifier: Apache-2.0
 *
 * `muster kge tracin --gpus`: the influences come from workers on devices instead of this process, through muster map.
 * What is done stands in a folder beside the output, from which the same command goes on.
 */
#pragma once

#include "cli/tracin_job.h"
#include "cli/tracin_request.h"

struct tracin_spread;

/*
 * Before anything is written. NULL in *out without --gpus. ERR_USAGE if the folder is somebody else's or was begun by
 * another command, ERR_UNAVAILABLE while another one is at work in it. With --force what is in it goes.
 */
MUST_CHECK int tracin_spread_open(struct tracin_spread **out, const struct tracin_request *ask,
                                  const struct app *app, struct err *err);
/*
 * Was an earlier command ended while it put results in place, or begun with --force? Then those that are there may be
 * replaced.
 */
bool tracin_spread_may_replace(const struct tracin_spread *spread);
/*
 * Computes, and hands the results over as tracin_run would; a matrix is filled. The models are unloaded. Positive: the
 * exit status of a muster map that did not come to its end, about which everything is said.
 */
MUST_CHECK int tracin_spread_run(struct tracin_spread *spread, const struct tracin_job *job,
                                 const struct tracin_sink *sink, struct err *err);
/* The training triples on themselves: a value for each. The same results. */
MUST_CHECK int tracin_spread_self(struct tracin_spread *spread, const struct kge_data *data,
                                  struct kge_models *models, double *values, struct err *err);
/* Nothing could be put in place: what is there when it is gone on with may not be replaced. */
void tracin_spread_unplace(const struct tracin_spread *spread);
/* Everything is in place: the folder goes. Says when fewer devices would have done. */
MUST_CHECK int tracin_spread_end(struct tracin_spread *spread, struct err *err);
void tracin_spread_close(struct tracin_spread *spread);

/* How many items it would be, a line. */
MUST_CHECK int tracin_spread_explain(const struct tracin_request *ask, const struct tracin_job *job,
                                     struct buf *out, struct err *err);
