/* SPDX-License-Identifier: Apache-2.0
 *
 * --on-finish: a command of the user's that runs when a run has ended and has let go of its folder, its
 * devices and its output, so that the command may start the next one or resume this one.
 */
#pragma once

#include "base/buf.h"

/* By sh, with `input` on its standard input; waits for its end. What fails is said. */
void hook_run(const char *command, struct str input);
