/* SPDX-License-Identifier: Apache-2.0
 *
 * The jobs of a graph, as `muster status` shows them: from the run's jobs.json, which the run
 * renews every second.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"

/*
 * Adds a line with the stages, and one for each job whose waiting the run explains; adds nothing if
 * the file cannot be read. If the run does not go on, its last words about jobs that ran, or were
 * ready to run, are left out.
 */
void graph_jobs_add(struct buf *out, const char *dir, bool goes_on);
