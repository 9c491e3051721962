/* SPDX-License-Identifier: Apache-2.0
 *
 * Small files of the kernel. MUSTER_SYSFS names another root than /sys (tests); what else of such a
 * machine is asked for, as /dev/kfd, is looked for beside that root.
 */
#pragma once

#include "base/buf.h"

enum {
    SYSFS_PATH_MAX = 512
};

/* The path of a file under /sys. */
void sysfs_path(char out[SYSFS_PATH_MAX], const char *fmt, ...) PRINTF(2, 3);
/* The path of a file under /, or beside the root that stands for /sys. */
void sysfs_beside(char out[SYSFS_PATH_MAX], const char *path);
/* At most one page of a small file: sysfs answers whole in one read. False, and errno, if it cannot
 * be read or is empty. */
bool small_file(const char *path, struct buf *out);
bool sysfs_read(struct buf *out, const char *fmt, ...) PRINTF(2, 3);
