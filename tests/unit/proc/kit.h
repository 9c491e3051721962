/* SPDX-License-Identifier: Apache-2.0
 *
 * What the process tests share: a folder of their own, and waits that end as soon as the thing has
 * happened.
 */
#pragma once

#include "unit/test.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "proc/proctree.h"

enum {
    DEADLINE_MS = 20000,
    PIDS_MAX = 64
};

static inline bool is_alive(pid_t pid)
{
    struct proc_stat stat;
    return proc_stat_read(pid, &stat) && !proc_is_dead(&stat);
}

/* Polls a condition until it holds; false if it still does not at the deadline. */
#define WAIT_UNTIL(condition)                                        \
    ({                                                               \
        uint64_t end_ms_ = clock_now_ms() + DEADLINE_MS;             \
        while (!(condition) && clock_now_ms() < end_ms_)             \
            nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL); \
        (condition);                                                 \
    })

static inline char *folder_new(void)
{
    char *folder = xstrdup("/tmp/muster-proc-XXXXXX");
    assert_non_null(mkdtemp(folder));
    return folder;
}

static inline void folder_free(char *folder)
{
    struct err err;
    assert_int_equal(remove_tree(folder, &err), 0);
    free(folder);
}

/* The pids in FOLDER/NAME, one a line. */
static inline size_t pids_read(const char *folder, const char *name, pid_t pids[PIDS_MAX])
{
    char *path = path_join(folder, name);
    struct buf text = BUF_INIT;
    size_t n = 0;
    if (file_read(path, 65536, &text, NULL) == 0 && text.len > 0 && text.at[text.len - 1] == '\n')
        for (char *at = text.at; *at != '\0' && n < PIDS_MAX; at = strchr(at, '\n') + 1)
            pids[n++] = (pid_t)strtol(at, NULL, 10);
    buf_release(&text);
    free(path);
    return n;
}
