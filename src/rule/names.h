/* SPDX-License-Identifier: Apache-2.0
 *
 * What the names of fields say about them, in metadata and in files of tensors alike.
 */
#pragma once

#include "base/buf.h"

/* Is it a number of things, which of several parts is their sum? */
bool is_count_name(const char *name);
/* Does it hold what was asked for, such as args and config? Nothing in there is a count. */
bool is_settings_name(struct str name);
/* "run7" of "run7_gpu_0": without what tells one share from another. */
struct str share_stem(struct str name);
