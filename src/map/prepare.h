/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "map/request.h"

/* What can be refused before anything is touched. ERR_USAGE, or ERR_UNAVAILABLE for the program. */
MUST_CHECK int request_check(const struct map_request *request, struct err *err);
/* The output as the manifest names it: its absolute path, or "-". A new string. */
char *output_name_new(const char *out_path);
/* What of the request decides about the results, beside inputs, command and seed: a JSON object. */
void request_work(const struct map_request *request, struct buf *json_out);

struct session;
/* folder.c: s->shell.run_dir and run_id, the folder made. */
MUST_CHECK int run_folder_take(struct session *s, struct err *err);
