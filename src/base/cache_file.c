/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cache_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/ours.h"
#include "base/xalloc.h"

enum {
    LOCK_PATIENCE_MS = 5000, /* the owner of the lock only writes a small file */
    LOCK_LOOK_MS = 20
};

/* NULL: there is no place for it. */
static char *folder_new(void)
{
    const char *own = getenv("MUSTER_CACHE_DIR"), *cache = getenv("XDG_CACHE_HOME"),
               *home = getenv("HOME");
    if (own && *own)
        return xstrdup(own);
    if (cache && *cache == '/') /* by its specification, other values are to be ignored */
        return path_join(cache, "muster");
    return home && *home == '/' ? path_join(home, ".cache/muster") : NULL;
}

/* NULL: there is no place for it. */
static char *path_new(const char *name)
{
    cleanup_free char *folder = folder_new();
    return folder ? path_join(folder, name) : NULL;
}

int cache_file_read(const char *name, uint64_t bytes_max, struct buf *out, struct err *err)
{
    cleanup_free char *path = path_new(name), *folder = path ? path_dirname(path) : NULL;
    if (!path || !path_exists(path))
        return 0;
    int rc = ours_check_folder(folder, err);
    if (rc == 0)
        rc = ours_check_file(path, err);
    if (rc == 0)
        rc = plain_file_read(path, bytes_max, out, err);
    return rc ? rc : 1;
}

int cache_file_damaged(const char *name, struct err *err)
{
    cleanup_free char *path = path_new(name);
    return fail(err, ERR_DATA, "%s is damaged", path ? path : name);
}

static int lock_take(const char *path, int *fd, struct err *err)
{
    int rc = ours_open(path, O_RDWR | O_CREAT, fd, err);
    for (int waited_ms = 0; rc == 0 && flock(*fd, LOCK_EX | LOCK_NB) != 0;
         waited_ms += LOCK_LOOK_MS) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return fail_errno(err, "lock %s", path);
        if (waited_ms >= LOCK_PATIENCE_MS)
            return fail(err, ERR_USAGE, "%s is locked by another process", path);
        nanosleep(&(struct timespec){.tv_nsec = LOCK_LOOK_MS * 1000000L}, NULL);
    }
    return rc;
}

/* "fit.json" has the lock "fit.lock". */
int cache_file_lock(const char *name, int *lock_fd, struct err *err)
{
    cleanup_free char *folder = folder_new();
    if (!folder)
        return fail(err, ERR_USAGE, "there is no folder for it; set MUSTER_CACHE_DIR, or HOME");
    int rc = mkdir_parents(folder, 0700, err);
    if (rc == 0)
        rc = ours_check_folder(folder, err);
    cleanup_free char *path = xasprintf("%s/%.*s.lock", folder, (int)strcspn(name, "."), name);
    return rc ? rc : lock_take(path, lock_fd, err);
}

int cache_file_write(const char *name, struct str text, bool is_fast, struct err *err)
{
    cleanup_free char *path = path_new(name);
    if (!path)
        return fail(err, ERR_USAGE, "there is no folder for it");
    return is_fast ? file_replace_fast(path, text, err) : file_replace(path, text, err);
}
