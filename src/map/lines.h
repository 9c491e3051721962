/* SPDX-License-Identifier: Apache-2.0
 *
 * Counting lines in bytes and in files.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

/*
 * The length up to and including newline number `want`, or the last newline if there are fewer. *found: the newlines
 * within that length.
 */
size_t lines_skip(struct str bytes, uint64_t want, uint64_t *found);
/*
 * *out: the length of the first n_lines lines of the `bytes` at `offset` of the file.
 * ERR_DATA if there are fewer lines.
 */
MUST_CHECK int part_lines_skip(int fd, uint64_t offset, uint64_t bytes, uint64_t n_lines,
                               uint64_t *out, struct err *err);
