/* SPDX-License-Identifier: Apache-2.0
 *
 * A folder of the test's own, with files in it; removed at the end.
 */
#pragma once

#include "base/buf.h"

/* The folder, made at the first call. */
const char *scratch_dir(void);
/* A path in it, valid until the process ends. */
const char *scratch_path(const char *name);
/* Writes the file and returns its path. */
const char *scratch_file(const char *name, struct str content);
void scratch_remove(void);
