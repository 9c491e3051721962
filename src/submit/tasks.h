/* SPDX-License-Identifier: Apache-2.0
 *
 * A job array whose tasks are runs of their own, each with a part of a map (map --part), in the folders tasks/0 … of the
 * run that takes their results.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define TASKS_SCRIPT "tasks.sh"

enum {
    TASKS_MAX = 100000,
    TASKS_ROUNDS = 3 /* how often an array is submitted, at most */
};

/* "16": that many tasks; "16%4": four at once; "0-15%4": the same. ERR_USAGE. */
MUST_CHECK int tasks_parse(const char *text, uint64_t *n_tasks, char **indexes, struct err *err);
/* The tasks whose runs have not ended, as sbatch takes them: "0,3-5". Returns how many. */
uint64_t tasks_left(const char *run_dir, uint64_t n_tasks, struct buf *out);
/* How often arrays were submitted for the run. */
uint64_t tasks_count_rounds(const char *run_dir);
