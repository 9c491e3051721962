/* SPDX-License-Identifier: Apache-2.0
 *
 * A command that is typed again resumes the run that it began, unless that run has finished.
 */
#pragma once

#include "map/request.h"

/*
 * r->resume_dir and *again become the folder of the newest unfinished run of this command into this output, and
 * r->is_typed_again is set; they stay as they are if there is none, if a later run of the same work has come to its
 * end, or with --fresh. With r->goes_on_failed it may be a run of the same input that has ended and set items aside;
 * then r->retry_failed is set. Only a run of our own is resumed (run_check_ours). Another user's run of the same
 * work, and runs that cannot be read, are named on stderr unless `quiet`. ERR_UNAVAILABLE if a run of our own is
 * writing to this output.
 */
MUST_CHECK int run_again_find(struct map_request *r, bool quiet, char **again, struct err *err);
