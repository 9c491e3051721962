/* SPDX-License-Identifier: Apache-2.0
 *
 * The batch script of a verb, as text. It holds all that its job needs, so that the same script can be submitted
 * again.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/env_list.h"
#include "base/err.h"

/* All pointers are borrowed. */
struct script_request {
    const char *program;            /* muster, absolute */
    const char *run_dir, *cwd;      /* absolute */
    const struct env_list *options; /* of sbatch, from sbatch_words_read() */
    const char *setup;              /* a line before muster; NULL: none */
    const char *const *words;       /* the verb and what follows, NULL-terminated */
    const char *name;               /* of the job; NULL: the verb's */
    bool is_program;                /* the words are those of another program than muster */
    uint64_t n_tasks;               /* of an array that this job waits for; 0: none */
    const char *tasks;              /* "0-15%4" if this script is an array; NULL: it is none */
    const char *stage_dir;          /* of a stage: the folder of its verb's run; NULL: no stage */
    /* The verb has its run in run_dir, or stage_dir, and goes on with it. */
    bool has_ledger;
    bool gains_unseen; /* no ledger tells the gain of its programs */
    uint64_t drain_s, again_max;
};

/* ERR_USAGE for an option that cannot stand in a script. */
MUST_CHECK int script_format(const struct script_request *request, struct buf *out,
                             struct err *err);
/* Adds the options that are not in the script, but are given to sbatch when the user submits it: --hold, --begin. */
void script_first_add(const struct env_list *options, struct env_list *out);
/*
 * How long before the time limit the work is drained, if the user has not said so: two minutes, but at most a quarter
 * of the job's time. time_s 0: unknown.
 */
uint64_t script_drain_s(uint64_t time_s);
