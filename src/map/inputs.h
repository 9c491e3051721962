/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether the files that a run reads stay as they were when it began. Items are read again and again
 * (a retry, a second copy, --join), so a file that somebody writes to gives results of two contents.
 *
 * A file that another one took the place of is no matter: what was opened is read on. Neither are
 * streams, nor compressed files once they were copied into the run's folder.
 */
#pragma once

#include <sys/types.h>

#include "base/err.h"

struct inputs;

/* As the files are now, before they are opened. The paths are borrowed. */
struct inputs *inputs_new(const char *const *paths, size_t n_paths);
void inputs_free(struct inputs *inputs);
/* ERR_DATA if one was written to since, naming it and the cure. */
MUST_CHECK int inputs_check(const struct inputs *inputs, struct err *err);
/* The same for one of them, another one at each call: a look at all may take long. */
MUST_CHECK int inputs_check_next(struct inputs *inputs, struct err *err);
/* All was read once: the copies of compressed files are whole, and what becomes of the files is no
 * matter any more. ERR_DATA if one was written to while it was copied. */
MUST_CHECK int inputs_copied(struct inputs *inputs, struct err *err);
