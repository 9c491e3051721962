/* SPDX-License-Identifier: Apache-2.0
 *
 * A folder for parts that is not there yet: filled beside its place, and renamed once, so that all parts appear in
 * the same moment. Until then it is <folder>.new, or <folder>.<pid>-<n>.new where that is somebody's.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

struct split_folder {
    const char *path; /* borrowed */
    char *beside;     /* NULL: the folder was there, or is in its place */
    struct buf made;  /* folders above it */
    int fd;           /* locked while this split is at work */
    bool is_new;      /* it was made by this split */
};

/* Above it what is missing is made. To be ended after a failure too. */
MUST_CHECK int split_folder_begin(struct split_folder *folder, const char *path, struct err *err);
/* Where the file of this name is to be written: a new string. */
char *split_folder_name_new(const struct split_folder *folder, const char *name);
/* All is in it and closed: into its place. */
MUST_CHECK int split_folder_place(struct split_folder *folder, struct err *err);
/* With `rc` not 0 what was made is removed, where it is empty. */
void split_folder_end(struct split_folder *folder, int rc);
