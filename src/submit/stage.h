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
    struct env_list options; /* sbatch's: those of all stages, but for what it says itself */
    struct env_list typed;
    char **argv; /* the command, in `typed` */
    int argc;
};

/* `common`: sbatch's options for all stages. ERR_USAGE. */
MUST_CHECK int stage_parse(const char *text, const struct env_list *common, struct stage *out,
                           struct err *err);
void stage_release(struct stage *stage);

/* The name of its script, a new string. */
char *stage_script_new(const char *stage);
/* Makes what waits for a good end of that job wait for that of the next one. ERR_UNAVAILABLE, with Slurm's words. */
MUST_CHECK int stage_tie(uint64_t job, uint64_t next, struct err *err);
/* A dependency as squeue tells it, with another job in the place of one; false: it does not wait for a good end of that. */
bool stage_dependency_move(struct str text, uint64_t from, uint64_t to, struct buf *out);
