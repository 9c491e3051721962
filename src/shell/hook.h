/* SPDX-License-Identifier: Apache-2.0
 *
 * --on-finish: the user's command, which is run when the run has ended and has released its folder, its
 * devices and its output, so that the command may start another run or resume this one.
 */
#pragma once

#include "base/buf.h"

/* Runs the command by sh, with `input` on its standard input, and waits for its end. Failures are reported on
 * stderr. */
void hook_run(const char *command, struct str input);
