/* SPDX-License-Identifier: Apache-2.0
 *
 * {run} in the name of a shard command's output: the time at which the run began, and which run of that second
 * it is from the second one on, which its folder's name has too. So the name is known again whenever the folder
 * is.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "run/request.h"

enum {
    RUN_STAMP_LEN = 15,  /* YYYYmmdd_HHMMSS, and -2 behind it */
    RUN_STAMP_BYTES = 32 /* and room */
};

/* The time and number in a folder's name; false: it has none, since the user named it. */
bool run_stamp_read(const char *run_dir, char out[RUN_STAMP_BYTES]);
/* Of a folder that the user named: the time, and what tells it from those that begin in the same second. */
void run_stamp_make(const char *run_dir, int64_t wall_ms, char out[RUN_STAMP_BYTES]);
/* Has an output of this shard command the time in its name? */
bool outname_has_run(const struct map_request *request);
/* ERR_USAGE for other placeholders, and where the folder's name will not tell the time. */
MUST_CHECK int outname_check(const struct map_request *request, struct err *err);
/* A name with {run} filled in, NULL if the folder's name does not tell it. */
char *outname_new(const char *path, const char *run_dir);
/*
 * The request with the name of its output filled in, which *name then holds. ERR_USAGE if the folder
 * does not tell. Of a request that is for no shards nothing is touched.
 */
MUST_CHECK int outname_settle(struct map_request *request, const char *run_dir, char **name,
                              struct err *err);
