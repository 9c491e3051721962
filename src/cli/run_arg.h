/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the verbs about runs (ls, status, logs, stop, results, …): the option that says where
 * runs are, and the operand that names one.
 */
#pragma once

#include "opt/cmd.h"
#include "opt/say.h"
#include "store/manifest.h"

/* For a request with a field `const char *runs_dir`. */
#define RUNS_DIR_OPT(request)                                                                     \
    {                                                                                             \
        .kind = OPT_PATH, .name = "runs-dir", .arg = "DIR",                                       \
        .help = "where the runs are (default muster-runs)", .offset = offsetof(request, runs_dir) \
    }

/*
 * Finds the folder of the run that argv[0] names, or of the latest; *dir_out is a new string.
 * ERR_USAGE for more than one operand.
 */
MUST_CHECK int run_arg_find(const char *runs_dir, int argc, char **argv, char **dir_out,
                            struct err *err);
/*
 * Adds the members "run" and "dir", which identify a run in JSON: its folder's name and path, any
 * bytes.
 */
void run_names_add(struct buf *out, const char *dir);
/*
 * Gives an order (store/orders.h) to the muster that works on the run, and waits for its answer.
 * *told: the text of the answer, a new string; NULL: there is none. ERR_USAGE if the order names
 * something that is not there; ERR_UNAVAILABLE if the order is refused, or if the run does not go
 * on; ERR_TIMEOUT.
 */
MUST_CHECK int run_order(const char *dir, struct str text, char **told, struct err *err);
/* The command line of an earlier run, parsed again. The request borrows from its words. */
struct replay {
    char **old, **again;
    int n_operands;
    char **operands, **command;
};

MUST_CHECK int replay_parse(struct replay *replay, const struct cmd *cmd,
                            const struct manifest *manifest, void *request, struct err *err);
/* The options of this process replace those of the run. */
MUST_CHECK int replay_overlay(struct replay *replay, const struct cmd *cmd, const struct app *app,
                              void *request, struct err *err);
void replay_release(struct replay *replay);
/* Waits between two looks at something that sends no event. */
void pause_ms(unsigned ms);
/* Waits for so long. Returns false at once if nobody reads stdout any more. */
bool reader_pause_ms(uint64_t ms);
