/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks that the files that a run, a merge or a split reads stay as they were when it began. Items
 * are read repeatedly (a retry, a second copy, --join), so results could come from two contents of
 * a file that is written to; and records that are added to a file while it is merged or split would
 * be left out.
 *
 * A file that is replaced by another does not matter, because the opened one is still read. Streams
 * do not matter either, nor do compressed files once they are copied into the run's folder.
 */
#pragma once

#include <sys/types.h>

#include "base/err.h"

struct inputs;

/* Notes how the files are now; call it before they are opened. The paths are borrowed. */
struct inputs *inputs_new(const char *const *paths, size_t n_paths);
void inputs_free(struct inputs *inputs);
/* ERR_DATA if a file was written to since; the message names the file and the cure. */
MUST_CHECK int inputs_check(const struct inputs *inputs, struct err *err);
/*
 * As inputs_check() for one file, the next one at each call, because a check of all files may take
 * long.
 */
MUST_CHECK int inputs_check_next(struct inputs *inputs, struct err *err);
/*
 * To be called when the whole input was read once: the copies of compressed files are complete, and
 * those files no longer matter. ERR_DATA if one of them was written to while it was copied.
 */
MUST_CHECK int inputs_copied(struct inputs *inputs, struct err *err);
