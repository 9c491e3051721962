/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "graph/file/file.h"

/* Fails the test if the file `f` with this text and at most 1000 jobs is not refused, or with another sentence. */
void check_refused(struct str text, const struct graph_file_opts *opts, const char *sentence);
