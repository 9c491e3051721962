/* SPDX-License-Identifier: Apache-2.0
 *
 * The outputs of a request: that of -o is number 0, those of --also follow. One with a slash at its end is a folder,
 * for files as they are.
 *
 * {run} in the name of a shard command's output is the time at which the run began, and which run of that second
 * it is from the second one on, which its folder's name has too. So the name is known again whenever the folder
 * is.
 */
#pragma once

#include "base/err.h"
#include "map/request.h"

enum {
    RUN_STAMP_LEN = 15,  /* YYYYmmdd_HHMMSS, and -2 behind it */
    RUN_STAMP_BYTES = 32 /* and room */
};

bool output_is_folder(const char *path);
/* How many --also there are; those of --also-counted are the last. */
size_t also_len(const struct map_request *request);
/* GLOB=FILE as it was typed; and where its files go, NULL: it is malformed. Borrowed. */
const char *also_text(const struct map_request *request, size_t index);
const char *also_path(const struct map_request *request, size_t index);

/* The time and number in a folder's name; false: it has none, since the user named it. */
bool run_stamp_read(const char *run_dir, char out[RUN_STAMP_BYTES]);
/* Of a folder that the user named: the time, and what tells it from those that begin in the same second. */
void run_stamp_make(const char *run_dir, int64_t wall_ms, char out[RUN_STAMP_BYTES]);
/* Has an output of this shard command the time in its name? */
bool outputs_have_run(const struct map_request *request);
/* ERR_USAGE for other placeholders, and where the folder's name will not tell the time. */
MUST_CHECK int outputs_check_names(const struct map_request *request, struct err *err);
/* A name with {run} filled in, NULL if the folder's name does not tell it. */
char *output_path_new(const char *path, const char *run_dir);
/*
 * The request with the name of its output filled in, which *name then holds. ERR_USAGE if the folder
 * does not tell. Of a request that is for no shards nothing is touched.
 */
MUST_CHECK int outputs_settle(struct map_request *request, const char *run_dir, char **name,
                              struct err *err);
