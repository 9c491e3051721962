/* SPDX-License-Identifier: Apache-2.0
 *
 * Verbs that are programs of their own, as git has them: `muster kge …` runs muster-kge.
 */
#pragma once

#include "opt/program.h"

/* Those that muster knows of, whether they are installed or not. */
extern const struct outer_verb outer_verbs[];

/*
 * Becomes muster-<argv[0]>: beside this program, in libexec of the same prefix, or in PATH. 0 if there is
 * none; ERR_UNAVAILABLE if it is one of outer_verbs, or cannot be run.
 */
MUST_CHECK int outer_verb_run(const struct app *app, char **argv, struct err *err);
