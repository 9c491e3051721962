/* SPDX-License-Identifier: Apache-2.0 */
#include "data/split/split_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"

enum {
    BESIDE_TRIES = 1000
};

/*
 * Opens and locks the folder; the lock tells other splits that a split is at work in it. 0, or -1
 * with errno.
 */
static int folder_hold(struct split_folder *folder, const char *beside)
{
    folder->fd = open(beside, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder->fd >= 0 && flock(folder->fd, LOCK_EX | LOCK_NB) == 0)
        return 0;
    int why = errno;
    fd_close(&folder->fd);
    errno = why;
    return -1;
}

/*
 * Makes the folder, or takes an existing one that is empty and not locked, which a killed split
 * left.
 */
static bool beside_take(struct split_folder *folder, const char *beside)
{
    bool is_made = mkdir(beside, 0777) == 0;
    if (!is_made && errno != EEXIST)
        return false;
    if (folder_hold(folder, beside) == 0 && folder_is_empty(beside))
        return true;
    fd_close(&folder->fd);
    errno = is_made ? EIO : EEXIST;
    return false;
}

static int beside_make(struct split_folder *folder, struct err *err)
{
    cleanup_free char *beside = xasprintf("%s.new", folder->path);
    for (unsigned n = 1; !beside_take(folder, beside); n++) {
        if (errno != EEXIST || n > BESIDE_TRIES)
            return fail_errno(err, "create folder %s", beside);
        free(beside);
        beside = xasprintf("%s.%d-%u.new", folder->path, (int)getpid(), n);
    }
    folder->beside = steal_ptr(&beside);
    folder->is_new = true;
    return 0;
}

int split_folder_begin(struct split_folder *folder, const char *path, struct err *err)
{
    cleanup_free char *above = path_dirname(path);
    struct stat st;
    *folder = (struct split_folder){.path = path, .fd = -1};
    int rc = folders_make(above, 0777, &folder->made, err);
    if (rc)
        return rc;
    bool is_there = lstat(path, &st) == 0 || errno != ENOENT;
    return is_there ? folders_make(path, 0777, &folder->made, err) : beside_make(folder, err);
}

char *split_folder_name_new(const struct split_folder *folder, const char *name)
{
    return folder->beside ? path_join(folder->beside, path_basename(name)) : xstrdup(name);
}

int split_folder_place(struct split_folder *folder, struct err *err)
{
    cleanup_fd int above = -1;
    if (!folder->beside)
        return 0;
    if (fsync(folder->fd) != 0 && errno != EINVAL)
        return fail_errno(err, "sync folder %s", folder->beside);
    int rc = parent_open(folder->path, &above, err);
    if (rc == 0 && rename(folder->beside, folder->path) != 0)
        rc = errno == ENOTEMPTY || errno == EEXIST
                 ? fail(err, ERR_USAGE, "folder %s has come to be there meanwhile", folder->path)
                 : fail_errno(err, "rename folder %s", folder->beside);
    if (rc)
        return rc;
    free(steal_ptr(&folder->beside));
    return parent_sync(above, folder->path, err);
}

void split_folder_end(struct split_folder *folder, int rc)
{
    fd_close(&folder->fd);
    if (rc && folder->is_new)
        rmdir(folder->beside ? folder->beside : folder->path);
    if (rc)
        folders_unmake(&folder->made);
    free(steal_ptr(&folder->beside));
    buf_release(&folder->made);
}
