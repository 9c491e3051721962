/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads bytes at an offset of a file: all of them, or an error.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* ERR_DATA, naming the path, if the file ends before the last of them. */
MUST_CHECK int pread_exact(int fd, void *at, size_t len, uint64_t offset, const char *path,
                           struct err *err);
