/* SPDX-License-Identifier: Apache-2.0
 *
 * The map of a spread run: workers on devices, which this program starts and looks after as
 * `muster map` would.
 */
#pragma once

#include "cli/tracin_request.h"

/*
 * Begins a map over the items in `dir` (spread_files.h), or resumes the one that an earlier command
 * began. No other thread may be at work meanwhile. front_fd: from front_begin(); it is closed.
 * Returns 0 when the answers are there; a positive exit status of a map that did not complete,
 * which has printed why; or a negative code.
 */
MUST_CHECK int spread_map_run(const struct tracin_request *ask, const struct app *app,
                              const char *dir, int front_fd, struct err *err);
/* True if the map has made its run: spread_map_run() then resumes it. */
bool spread_map_has_begun(const char *dir);
