/* SPDX-License-Identifier: Apache-2.0
 *
 * The jobs of a graph, as `muster status` shows them: by its jobs.json, which the run renews every second.
 */
#pragma once

#include "base/buf.h"

/* Adds a line for each stage, and one for each job whose waiting the run explains; nothing if the file cannot be read. */
void graph_jobs_add(struct buf *out, const char *dir);
