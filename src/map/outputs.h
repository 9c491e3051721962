/* SPDX-License-Identifier: Apache-2.0
 *
 * The outputs of a request: that of -o is number 0, those of --also follow. An output that ends with a slash is a
 * folder, into which files are put unchanged.
 *
 * {run} in the name of a shard command's output stands for the time at which the run began, followed by -2, -3 …
 * for further runs of the same second, as in the name of the run's folder. So the name can be made from the folder's
 * name again.
 */
#pragma once

#include "base/err.h"
#include "map/request.h"

enum {
    RUN_STAMP_LEN = 15,  /* YYYYmmdd_HHMMSS, without a -2 after it */
    RUN_STAMP_BYTES = 32 /* with the -2 and its NUL */
};

bool output_is_folder(const char *path);
/* The number of --also and --also-counted; the latter come last. */
size_t also_len(const struct map_request *request);
/* also_text: GLOB=FILE as it was typed. also_path: its FILE; NULL if the text is malformed. Borrowed. */
const char *also_text(const struct map_request *request, size_t index);
const char *also_path(const struct map_request *request, size_t index);

/* Reads the time and number in a folder's name. False: it has none, because the user named the folder. */
bool run_stamp_read(const char *run_dir, char out[RUN_STAMP_BYTES]);
/* Makes a stamp for a folder that the user named: the time, and a hash of its path, in which runs of the same
 * second differ. */
void run_stamp_make(const char *run_dir, int64_t wall_ms, char out[RUN_STAMP_BYTES]);
/* True if the name of an output of this shard command has {run}. */
bool outputs_have_run(const struct map_request *request);
/* ERR_USAGE for other placeholders, and for {run} if the folder's name will not have the time. */
MUST_CHECK int outputs_check_names(const struct map_request *request, struct err *err);
/* The name with {run} filled in; NULL if the folder's name does not have the time. */
char *output_path_new(const char *path, const char *run_dir);
/*
 * Fills in the name of the request's output; *name then owns it. ERR_USAGE if the folder's name does not have
 * the time. A request that is not for shards is left unchanged.
 */
MUST_CHECK int outputs_settle(struct map_request *request, const char *run_dir, char **name,
                              struct err *err);
