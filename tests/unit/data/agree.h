/* SPDX-License-Identifier: Apache-2.0
 *
 * Read one file in every way a source can be read, and compare with the naive splitter. Used by the
 * unit tests and by the fuzz target; aborts on a difference.
 */
#pragma once

#include "data/source.h"

/* windows: 0 for the real size, else a multiple of 64. */
void agree_check(const char *path, struct str text, enum record_format format, size_t window_bytes,
                 uint64_t seed);
