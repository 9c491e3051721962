/* SPDX-License-Identifier: Apache-2.0
 *
 * What every glibc has and musl lacks. Included before every file where it is missing (meson.build), so no
 * other file knows.
 */
#pragma once

#include <errno.h>
#include <stddef.h>

#define TEMP_FAILURE_RETRY(call)                 \
    (__extension__({                             \
        long result_;                            \
        do                                       \
            result_ = (long)(call);              \
        while (result_ == -1 && errno == EINTR); \
        result_;                                 \
    }))

/* <stdio.h> */
#define RENAME_NOREPLACE 1

/* <malloc.h>: settings of glibc's allocator. Other allocators have none. */
enum {
    M_TRIM_THRESHOLD = -1,
    M_MMAP_THRESHOLD = -3,
    M_ARENA_MAX = -8
};
int mallopt(int setting, int value);
int malloc_trim(size_t left_bytes);
