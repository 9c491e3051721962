/* SPDX-License-Identifier: Apache-2.0
 *
 * The lock of a run: an open-file-description lock on the file `lock` in its folder, with the
 * holder's pid and host as text inside. The kernel releases the lock when its holder ends, however
 * that happens. The file may be deleted while it is locked, and another process could then lock a
 * new file of the same name. So the folder itself is locked as well (flock), where the file system
 * can do that: a folder cannot be deleted while anything is in it.
 *
 * OFD locks rather than flock, because F_OFD_GETLK tests a lock without taking it: otherwise a `muster ls` could make
 * a `muster resume` at the same moment believe that the run is taken. NFS passes OFD locks to the server.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

struct run_lock {
    int fd, folder_fd; /* -1: not held */
};

#define RUN_LOCK_INIT             \
    {                             \
        .fd = -1, .folder_fd = -1 \
    }

struct run_holder {
    pid_t pid;      /* 0: the holder is not known */
    char host[256]; /* "" if not known */
    uid_t owner;    /* of the lock file, not from its content */
    bool is_here;   /* same host and same pid namespace: pid can be signalled from here */
};

/* ERR_UNAVAILABLE, naming the holder, if another process has the lock. */
MUST_CHECK int run_lock_take(struct run_lock *lock, const char *dir, struct err *err);
void run_lock_release(struct run_lock *lock);

enum run_place {
    RUN_IN_PLACE,
    RUN_MOVED,
    RUN_REMOVED
};
/*
 * Is the folder whose lock is held still at `dir`? Its descriptor tells a moved folder from a removed one. *now_at, a
 * new string, is set if it was moved.
 */
enum run_place run_lock_place(const struct run_lock *lock, const char *dir, char **now_at);
/* True while a process holds the lock of the run in `dir`. `holder` may be NULL. */
bool run_is_locked(const char *dir, struct run_holder *holder);
/* Fails as run_lock_take() would if another process holds the run; does not take the lock. */
MUST_CHECK int run_unlocked_check(const char *dir, struct err *err);
