/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths as two jobs can be compared by them: absolute, without "." and "..", and with the links of folders followed. The last
 * part of a path is followed only if a slash says that it is a folder: a job may replace the link of a file. Each folder is
 * looked at once; what is below one that is not there needs no look.
 */
#pragma once

#include "base/name_index.h"

struct real_paths {
    const char *cwd; /* of relative paths: absolute, without links */
    bool has_links;  /* some were followed: without, paths as they are written are enough */
    struct name_index there;
    char **targets; /* [there.len]: where the link leads; NULL: it is none */
    size_t cap;
    struct buf absent; /* the last one that was not there */
};

void real_paths_release(struct real_paths *real);
#define cleanup_real_paths __attribute__((cleanup(real_paths_release)))

/* "/a/b" for "b/" in `cwd`, which may be NULL: real->cwd. "" is the root folder. */
void real_path(struct real_paths *real, const char *cwd, const char *path, struct buf *out);
/* The same without a look at any folder: links are not followed. */
void written_path(const struct real_paths *real, const char *cwd, const char *path,
                  struct buf *out);
