/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads small files of the kernel. MUSTER_SYSFS names another root than /sys (tests); other files
 * of such a machine, such as /dev/kfd, are then looked for beside that root.
 */
#pragma once

#include "base/buf.h"

enum {
    SYSFS_PATH_MAX = 512
};

/* Makes the path of a file under /sys. */
void sysfs_path(char out[SYSFS_PATH_MAX], const char *fmt, ...) PRINTF(2, 3);
/* Makes the path of a file under /, or beside the root that stands for /sys. */
void sysfs_beside(char out[SYSFS_PATH_MAX], const char *path);
/* Reads at most one page, in one read(): sysfs gives a whole file at once. False, with errno, if
 * the file cannot be read or is empty. */
bool small_file(const char *path, struct buf *out);
bool sysfs_read(struct buf *out, const char *fmt, ...) PRINTF(2, 3);
