/* SPDX-License-Identifier: Apache-2.0
 *
 * External verbs: programs of their own, like git's external commands. `muster kge …` runs
 * muster-kge.
 */
#pragma once

#include "opt/program.h"

/* The external verbs that --help lists, whether they are installed or not; ends with a row
 * without a name. */
extern const struct external_verb external_verbs[];

/*
 * Executes muster-<argv[0]>, looked for beside this program, in libexec of the same prefix and
 * in PATH. Returns only if that fails: 0 if there is no such program; ERR_UNAVAILABLE if there
 * is none and the verb is one of external_verbs, or if it cannot be run.
 */
MUST_CHECK int external_verb_run(const struct app *app, char **argv, struct err *err);
/*
 * For words that are run later: returns 0, or the exit status with which the verb refuses the
 * words; the verb has printed the reason. Only muster's own programs are asked. ERR_USAGE if there
 * is no such program.
 */
MUST_CHECK int external_verb_check(const struct app *app, char **argv, struct err *err);
