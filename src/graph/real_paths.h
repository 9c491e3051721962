/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths that can be compared: absolute, without "." and "..", and with the symbolic links of
 * folders followed. The last part of a path is followed only if the path ends with a slash, and so
 * is a folder: a job may replace a link by a file. Each folder is looked up once; below a folder
 * that does not exist, none is.
 */
#pragma once

#include "base/name_index.h"

struct real_paths {
    const char *cwd; /* the base of relative paths; absolute, without links */
    bool
        has_links; /* links were followed; if there are none, paths can be compared as they are written */
    struct name_index there;
    char **targets; /* [there.len]: the target of the link; NULL: the folder is no link */
    size_t cap;
    struct buf absent; /* the last folder that did not exist */
};

void real_paths_release(struct real_paths *real);
#define cleanup_real_paths __attribute__((cleanup(real_paths_release)))

/* Gives "/a/b" for "b/" in the folder `cwd`, "/a"; NULL: in real->cwd. The root folder is "". */
void real_path(struct real_paths *real, const char *cwd, const char *path, struct buf *out);
/* The same without following links, so no folder is read. */
void written_path(const struct real_paths *real, const char *cwd, const char *path,
                  struct buf *out);
