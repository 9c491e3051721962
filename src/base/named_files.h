/* SPDX-License-Identifier: Apache-2.0
 *
 * The files that one command names. What it writes must be neither what it reads nor what it writes as well.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct named_file {
    const char *path; /* NULL: not given */
    const char *name; /* in messages: "-o", "the input" */
    bool is_written;
};

/* The same file or folder, whether it exists or not: by its folder, through links, and its name. */
bool path_is_same(const char *a, const char *b);
/* True if `path` is `folder` or lies in it, at any depth. */
bool path_is_within(const char *path, const char *folder);
/* ERR_USAGE, with both names. Standard streams, devices and pipes may be named twice. */
MUST_CHECK int named_files_check(const struct named_file *files, size_t n, struct err *err);
/* The same, and ERR_USAGE if a file that is written exists and may not be replaced. */
MUST_CHECK int named_files_free(const struct named_file *files, size_t n, bool overwrite,
                                struct err *err);
