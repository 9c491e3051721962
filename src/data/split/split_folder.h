/* SPDX-License-Identifier: Apache-2.0
 *
 * A folder for parts that does not exist yet: filled under another name beside its place, and
 * renamed once, so that all parts appear in the same moment. Until then it is <folder>.new, or
 * <folder>.<pid>-<n>.new if that name is taken.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

struct split_folder {
    const char *path; /* borrowed */
    char *beside;     /* NULL: the folder existed, or is in its place now */
    struct buf made;  /* the missing folders above it that were made */
    int fd;           /* locked while this split is at work */
    bool is_new;      /* it was made by this split */
};

/*
 * Makes the folder, and the missing folders above it. Call split_folder_end() after a failure too.
 */
MUST_CHECK int split_folder_begin(struct split_folder *folder, const char *path, struct err *err);
/* The path under which the file of this name is to be written; a new string. */
char *split_folder_name_new(const struct split_folder *folder, const char *name);
/* Puts the folder in its place, when all files in it are complete and closed. */
MUST_CHECK int split_folder_place(struct split_folder *folder, struct err *err);
/* If `rc` is not 0, removes the folders that were made, as far as they are empty. */
void split_folder_end(struct split_folder *folder, int rc);
