/* SPDX-License-Identifier: Apache-2.0
 *
 * What a verb says: its product on stdout, talk on stderr.
 */
#pragma once

#include "opt/cmd.h"

/* Hand finished text to stdout; ERR_SYS if it does not take it. */
MUST_CHECK int stdout_put(struct str text, struct err *err);
/*
 * The same behind work that is done, `done` ("the parts are in place"): a reader that has seen enough
 * is no failure, and any other is ERR_FAILED, which says so.
 */
MUST_CHECK int stdout_put_after(struct str text, const char *done, struct err *err);
/* A line of talk on stderr, unless --quiet. */
void say(const struct app *app, const char *fmt, ...) PRINTF(2, 3);
