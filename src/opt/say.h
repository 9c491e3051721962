/* SPDX-License-Identifier: Apache-2.0
 *
 * The output of a verb: results on stdout, messages on stderr.
 */
#pragma once

#include "opt/cmd.h"

/* Writes a finished text to stdout; ERR_SYS if that fails. */
MUST_CHECK int stdout_put(struct str text, struct err *err);
/* The same of lines of JSON, in which foreign text is made harmless for a terminal. */
MUST_CHECK int objects_put(struct str text, struct err *err);
/*
 * stdout_put() after work that is done, named by `done` ("the parts are in place"): a reader that has closed the pipe
 * is not a failure; any other failure is ERR_FAILED, whose message has `done`.
 */
MUST_CHECK int stdout_put_after(struct str text, const char *done, struct err *err);
/* Prints a message line on stderr, unless --quiet. */
void say(const struct app *app, const char *fmt, ...) PRINTF(2, 3);
