/* SPDX-License-Identifier: Apache-2.0
 *
 * A walk through a file or a folder with all that is in it. (fts(3) is not in every C library.)
 */
#pragma once

#include <sys/stat.h>

#include "base/err.h"

enum {
    TREE_SKIP = 1, /* not into this folder */
    TREE_END = 2,  /* nothing more is visited */
    TREE_DEPTH_MAX = 1000
};

struct tree_entry {
    const char *path, *below; /* below: the path without that of the root: "", "/a", "/a/b" */
    const char *name;         /* the last part of the path */
    struct stat st;           /* of a link, its own; of the root, what it leads to */
    unsigned depth;           /* 0: the root */
};

/*
 * Visits the root, and if it is a folder all in it: a folder before what is in it, names in the order of their bytes.
 * `visit` returns 0, TREE_SKIP, TREE_END or an error, which ends the walk. ERR_SYS if something cannot be read.
 */
MUST_CHECK int tree_walk(const char *root,
                         int (*visit)(void *context, const struct tree_entry *entry,
                                      struct err *err),
                         void *context, struct err *err);
