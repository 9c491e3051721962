/* SPDX-License-Identifier: Apache-2.0
 *
 * Scope-bound release for what a function itself opens: `cleanup_fd int fd = open(…)`. Hand a value
 * out with steal_fd() or steal_ptr(), which leave the variable empty.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void cleanup_fd_(const int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

static inline void cleanup_free_(void *at)
{
    free(*(void **)at);
}

static inline void cleanup_file_(FILE *const *file)
{
    if (*file)
        fclose(*file);
}

#define cleanup_fd   __attribute__((cleanup(cleanup_fd_)))
#define cleanup_free __attribute__((cleanup(cleanup_free_)))
#define cleanup_file __attribute__((cleanup(cleanup_file_)))

static inline int steal_fd(int *fd)
{
    int taken = *fd;
    *fd = -1;
    return taken;
}

/* Close once and mark closed. */
static inline void fd_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

#define steal_ptr(p)                    \
    ({                                  \
        __typeof__(*(p)) taken_ = *(p); \
        *(p) = NULL;                    \
        taken_;                         \
    })
