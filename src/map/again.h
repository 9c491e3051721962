/* SPDX-License-Identifier: Apache-2.0
 *
 * The same command typed again goes on with the run that it began, if that has not finished.
 */
#pragma once

#include "map/request.h"

/*
 * r->resume_dir and *again become the folder of the newest unfinished run of this command into this
 * output; both stay NULL if there is none, or with --fresh. Only a run of our own is gone on with
 * (run_check_ours); one that is not, and others that cannot be looked at, get a line on stderr, unless `quiet`.
 * ERR_UNAVAILABLE if one of ours is at work on this output.
 */
MUST_CHECK int run_again_find(struct map_request *r, bool quiet, char **again, struct err *err);
