/* SPDX-License-Identifier: Apache-2.0
 *
 * Which file is this run's own output? Between the moment when the output is put in place and the
 * moment when the run is recorded as finished, muster may be killed; the run that goes on must then
 * not refuse an output that "exists". So the file is noted just before it gets its name.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* Note the file behind fd, whole and on disk, as output number `output` of the run in run_dir: 0 is that
 * of -o. */
MUST_CHECK int output_identity_note(const char *run_dir, size_t output, int fd, struct err *err);
/* Is `path` the very file that was noted, and unchanged since? */
bool output_identity_is(const char *run_dir, size_t output, const char *path);
/* The same for an output that is a folder: from now on what is in it is this run's to replace. */
MUST_CHECK int output_folder_begin(const char *run_dir, size_t output, struct err *err);
bool output_folder_is_begun(const char *run_dir, size_t output);
