/* SPDX-License-Identifier: Apache-2.0
 *
 * A stage of several jobs, each of which begins when the one before it has ended well: --stage 'dump: --gpus 4 -- CMD'.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/env_list.h"
#include "base/err.h"

struct stage {
    char *name;
    struct env_list options; /* of sbatch: its own, and the common ones that it does not override */
    struct env_list typed;
    char **argv; /* the command; its texts are in `typed` */
    int argc;
};

/* `common`: sbatch's options for all stages. ERR_USAGE. */
MUST_CHECK int stage_parse(const char *text, const struct env_list *common, struct stage *out,
                           struct err *err);
void stage_release(struct stage *stage);

/* The name of its script, a new string. */
char *stage_script_new(const char *stage);
/* Makes jobs that wait for a good end of `job` wait for that of `next`. ERR_UNAVAILABLE, with Slurm's words. */
MUST_CHECK int stage_tie(uint64_t job, uint64_t next, struct err *err);
/* Adds a dependency as squeue prints it, with job `to` in the place of `from`. False: it has no afterok of `from`. */
bool stage_dependency_move(struct str text, uint64_t from, uint64_t to, struct buf *out);
