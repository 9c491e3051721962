/* SPDX-License-Identifier: Apache-2.0 */
#include "base/ours.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"

enum {
    OTHERS_BYTES_MAX = 4 << 20,
    OWN_FILE_MODE = 0664 /* never writable by everybody, whatever the umask is */
};

void owner_name(char out[80], uid_t uid)
{
    char space[1024];
    struct passwd entry, *found = NULL;
    getpwuid_r(uid, &entry, space, sizeof(space), &found);
    if (found)
        snprintf(out, 80, "%.50s (uid %u)", found->pw_name, (unsigned)uid);
    else
        snprintf(out, 80, "uid %u", (unsigned)uid);
}

static const char *kind_name(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFREG:
        return "a file";
    case S_IFDIR:
        return "a folder";
    case S_IFLNK:
        return "a symbolic link";
    case S_IFIFO:
        return "a FIFO";
    case S_IFSOCK:
        return "a socket";
    default:
        return "a device";
    }
}

static int not_plain(const char *path, mode_t mode, struct err *err)
{
    return fail(err, ERR_DATA, "%s is %s, but must be a regular file", path, kind_name(mode));
}

/* How this file system shows a file of mode 0600 that this process makes in the folder; false: none
 * can be made there. The file has no name, or one that is removed at once. */
static bool private_file_look(const char *folder, struct stat *st)
{
    cleanup_fd int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR)) {
        cleanup_free char *name = xasprintf("%s/.muster-%d.owner", folder, (int)getpid());
        fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd >= 0)
            unlink(name);
    }
    return fd >= 0 && fstat(fd, st) == 0;
}

bool ours_is(const struct stat *st, const char *folder)
{
    struct stat ours;
    if (st->st_uid == geteuid() && !(st->st_mode & S_IWOTH))
        return true;
    return private_file_look(folder, &ours) && st->st_uid == ours.st_uid &&
           !(st->st_mode & S_IWOTH & ~ours.st_mode);
}

static int not_ours(const char *path, const struct stat *st, struct err *err)
{
    char owner[80], caller[80];
    owner_name(owner, st->st_uid);
    owner_name(caller, geteuid());
    if (st->st_uid == geteuid())
        return fail(err, ERR_USAGE, "%s is writable by everybody; run chmod o-w on it", path);
    return fail(err, ERR_USAGE, "%s belongs to %s, and this muster runs as %s", path, owner,
                caller);
}

/* Fails if `st`, of a descriptor or of a name, is not that of a regular file of ours with one
 * name. */
static int file_judge(const char *path, const struct stat *st, struct err *err)
{
    cleanup_free char *folder = path_dirname(path);
    if (!S_ISREG(st->st_mode))
        return not_plain(path, st->st_mode, err);
    if (!ours_is(st, folder))
        return not_ours(path, st, err);
    if (st->st_nlink > 1)
        return fail(err, ERR_DATA,
                    "%s has %lu names (hard links), and writing to it would change the others",
                    path, (unsigned long)st->st_nlink);
    return 0;
}

/* The error of a failed open(). If it failed because something other than a regular file has the
 * name, it says so. */
static int open_failed(const char *path, int code, struct err *err)
{
    int sys = errno;
    struct stat st;
    if ((sys == ELOOP || sys == ENXIO || sys == EISDIR) && lstat(path, &st) == 0 &&
        !S_ISREG(st.st_mode))
        return not_plain(path, st.st_mode, err);
    errno = sys;
    return fail_errno_as(err, code, "open %s", path);
}

int plain_file_open(const char *path, int *fd, struct err *err)
{
    struct stat st;
    cleanup_fd int found = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (found < 0)
        return open_failed(path, ERR_USAGE, err);
    if (fstat(found, &st) != 0)
        return fail_errno_as(err, ERR_USAGE, "look at %s", path);
    if (!S_ISREG(st.st_mode))
        return not_plain(path, st.st_mode, err);
    *fd = steal_fd(&found);
    return 0;
}

int plain_file_read(const char *path, uint64_t max_bytes, struct buf *out, struct err *err)
{
    struct stat st;
    cleanup_fd int fd = -1;
    int rc = plain_file_open(path, &fd, err);
    if (rc)
        return rc;
    if (fstat(fd, &st) != 0)
        return fail_errno_as(err, ERR_USAGE, "look at %s", path);
    cleanup_free char *folder = path_dirname(path);
    if (st.st_size > OTHERS_BYTES_MAX && !ours_is(&st, folder))
        max_bytes = MIN(max_bytes, (uint64_t)OTHERS_BYTES_MAX);
    if ((uint64_t)st.st_size > max_bytes)
        return fail(err, ERR_DATA, "%s is larger than %lu bytes", path, max_bytes);
    return file_read_fd(fd, path, (size_t)max_bytes, out, err);
}

int plain_file_check(const char *path, struct err *err)
{
    struct stat st;
    return lstat(path, &st) != 0 || S_ISREG(st.st_mode) ? 0 : not_plain(path, st.st_mode, err);
}

int ours_open(const char *path, int flags, int *fd, struct err *err)
{
    struct stat st;
    cleanup_fd int found = open(path, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, OWN_FILE_MODE);
    if (found < 0)
        return open_failed(path, ERR_SYS, err);
    if (fstat(found, &st) != 0)
        return fail_errno(err, "look at %s", path);
    int rc = file_judge(path, &st, err);
    if (rc == 0)
        *fd = steal_fd(&found);
    return rc;
}

int ours_check_file(const char *path, struct err *err)
{
    struct stat st;
    if (lstat(path, &st) != 0)
        return errno == ENOENT ? 0 : fail_errno_as(err, ERR_USAGE, "look at %s", path);
    return file_judge(path, &st, err);
}

int ours_check_owner(const char *path, struct err *err)
{
    struct stat st;
    cleanup_free char *folder = path_dirname(path);
    if (lstat(path, &st) != 0)
        return errno == ENOENT ? 0 : fail_errno_as(err, ERR_USAGE, "look at %s", path);
    if (!S_ISREG(st.st_mode))
        return not_plain(path, st.st_mode, err);
    st.st_mode &= ~(mode_t)S_IWOTH;
    return ours_is(&st, folder) ? 0 : not_ours(path, &st, err);
}

int ours_check_folder(const char *path, struct err *err)
{
    struct stat st;
    if (lstat(path, &st) != 0)
        return errno == ENOENT ? 0 : fail_errno_as(err, ERR_USAGE, "look at %s", path);
    if (!S_ISDIR(st.st_mode))
        return fail(err, ERR_DATA, "%s is %s, but must be a folder", path, kind_name(st.st_mode));
    return ours_is(&st, path) ? 0 : not_ours(path, &st, err);
}
