/* SPDX-License-Identifier: Apache-2.0 */
#include "device/sysfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"

static const char *other_root(void)
{
    const char *root = getenv("MUSTER_SYSFS");
    return root && *root ? root : NULL;
}

static void path_make(char out[SYSFS_PATH_MAX], const char *fmt, va_list args)
{
    const char *root = other_root();
    int used = snprintf(out, SYSFS_PATH_MAX, "%s/", root ? root : "/sys");
    if (used < SYSFS_PATH_MAX)
        vsnprintf(out + used, SYSFS_PATH_MAX - (size_t)used, fmt, args);
}

void sysfs_path(char out[SYSFS_PATH_MAX], const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    path_make(out, fmt, args);
    va_end(args);
}

void sysfs_beside(char out[SYSFS_PATH_MAX], const char *path)
{
    const char *root = other_root();
    snprintf(out, SYSFS_PATH_MAX, "%s%s%s", root ? root : "", root ? "/.." : "", path);
}

bool small_file(const char *path, struct buf *out)
{
    char text[4096];
    buf_reset(out);
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text));
    if (got > 0)
        buf_add(out, text, (size_t)got);
    else if (got == 0)
        errno = ENODATA;
    return got > 0;
}

bool sysfs_read(struct buf *out, const char *fmt, ...)
{
    char path[SYSFS_PATH_MAX];
    va_list args;
    va_start(args, fmt);
    path_make(path, fmt, args);
    va_end(args);
    return small_file(path, out);
}
