/* SPDX-License-Identifier: Apache-2.0
 *
 * The jobs of a graph, as `muster status` shows them: by its jobs.json, which the run renews every second.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"

/*
 * Adds a line with the stages, and one for each job whose waiting the run explains; nothing if the file cannot be read. What
 * a run that does not go on said last of jobs that ran, or were ready to, is not true any more.
 */
void graph_jobs_add(struct buf *out, const char *dir, bool goes_on);
