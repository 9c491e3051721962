/* SPDX-License-Identifier: Apache-2.0
 *
 * `muster kge tracin --gpus`: workers on devices compute the influences, and this process maps the
 * items to them. Finished work is kept in a folder beside the output, from which the same
 * command continues.
 */
#pragma once

#include "cli/tracin_job.h"
#include "cli/tracin_request.h"

struct tracin_spread;

/*
 * To be called before anything is written. *out is NULL without --gpus. With --force the run in the
 * folder is removed. ERR_USAGE: the folder has other files, belongs to another user, or was begun
 * by another command. ERR_UNAVAILABLE: another command works in it. front_fd: as for
 * spread_map_run().
 */
MUST_CHECK int tracin_spread_open(struct tracin_spread **out, const struct tracin_request *ask,
                                  const struct app *app, int front_fd, struct err *err);
/*
 * True if existing results may be replaced: the command that began the run had --force, or an
 * earlier command was ended while it put results in place. spread may be NULL.
 */
bool tracin_spread_may_replace(const struct tracin_spread *spread);
/* True if an earlier command began the run. spread may be NULL. */
bool tracin_spread_goes_on(const struct tracin_spread *spread);
/*
 * Computes, and calls the sink as tracin_run() would; a job with a matrix gets its results there.
 * Unloads the models. A positive result is the exit status of a map that did not complete; the
 * messages about that are printed by then.
 */
MUST_CHECK int tracin_spread_run(struct tracin_spread *spread, const struct tracin_job *job,
                                 const struct tracin_sink *sink, struct err *err);
/*
 * Computes the influence of each training triple on itself. Returns what tracin_spread_run()
 * returns.
 */
MUST_CHECK int tracin_spread_self(struct tracin_spread *spread, const struct kge_data *data,
                                  struct kge_models *models, double *values, struct err *err);
/*
 * To be called if nothing could be put in place: a command that continues the run may then replace
 * existing results only if the run was begun with --force.
 */
void tracin_spread_unplace(const struct tracin_spread *spread);
/*
 * To be called when everything is in place: removes the folder, and says if fewer devices would
 * have been enough.
 */
MUST_CHECK int tracin_spread_end(struct tracin_spread *spread, struct err *err);
void tracin_spread_close(struct tracin_spread *spread);

/* Adds a line that says how many items there would be. */
MUST_CHECK int tracin_spread_explain(const struct tracin_request *ask, const struct tracin_job *job,
                                     struct buf *out, struct err *err);
