/* SPDX-License-Identifier: Apache-2.0
 *
 * The names of the files that a run keeps in its folder, which may be a folder of the user's own (--run-dir).
 */
#pragma once

#include "base/named_files.h"

/* ERR_USAGE if the run writes to the path of this input. */
MUST_CHECK int own_files_check_input(const char *input, const char *run_dir, struct err *err);
/* ERR_USAGE if the path of this output is one of these files, or in one of the run's own folders. */
MUST_CHECK int own_files_check_output(const struct named_file *output, const char *run_dir,
                                      struct err *err);
