/* SPDX-License-Identifier: Apache-2.0
 *
 * Recognises the run's own output. muster may be killed after the output is put in place and before the run is
 * recorded as finished; the resumed run must then not refuse an output that "exists". So the file is noted just
 * before it gets the output's name.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* Notes the file of fd, which is complete, on disk, and about to be put at `path`, as output number `output` of the run
 * in run_dir; 0 is that of -o. A file of the run that is at `path` already stays noted: muster may be killed before it
 * is replaced. */
MUST_CHECK int output_identity_note(const char *run_dir, size_t output, const char *path, int fd,
                                    struct err *err);
/* True if `path` is a file that was noted, unchanged. */
bool output_identity_is(const char *run_dir, size_t output, const char *path);
/*
 * True if a file was noted, and the one at `path` has another size or time: it was changed, replaced or copied. The
 * numbers of device and inode are not compared here: they change if a file system is mounted again, or a folder is
 * moved.
 */
bool output_identity_differs(const char *run_dir, size_t output, const char *path);
/* For an output that is a folder: notes that this run may replace the files in it from now on. */
MUST_CHECK int output_folder_begin(const char *run_dir, size_t output, struct err *err);
bool output_folder_is_begun(const char *run_dir, size_t output);
