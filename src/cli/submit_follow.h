/* SPDX-License-Identifier: Apache-2.0
 *
 * Watching a submitted run until it has ended, as if it ran here. For `muster submit --follow`.
 */
#pragma once

#include "opt/cmd.h"

/* Returns the exit status of the run; 130 if ctrl-c ended the watching, and not the run. */
int submit_follow(const struct app *app, const char *run_dir, struct err *err);
