/* SPDX-License-Identifier: Apache-2.0 */
#include "device/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/xalloc.h"

enum {
    HOLDER_MAX = 200
};

static const char *lock_folder(void)
{
    const char *folder = getenv("MUSTER_LOCK_DIR");
    return folder && *folder ? folder : "/tmp/muster-locks";
}

/*
 * The folder, as a descriptor. In a folder that somebody else owns and that is not sticky, that
 * somebody, or anybody, could swap files under us; a symbolic link could lead anywhere.
 */
static int folder_open(struct err *err)
{
    const char *folder = lock_folder();
    bool is_new = mkdir(folder, 0700) == 0;
    if (!is_new && errno != EEXIST)
        return fail_errno(err, "create lock folder %s", folder);
    cleanup_fd int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return fail_errno(err, "lock folder %s", folder);
    /* mkdir's mode is cut by the umask, and mkdir ignores the sticky bit on some systems */
    if (is_new && fchmod(fd, 01777) != 0)
        return fail_errno(err, "open lock folder %s to all users", folder);
    struct stat st;
    if (fstat(fd, &st) != 0)
        return fail_errno(err, "lock folder %s", folder);
    bool is_others = st.st_uid != geteuid() && st.st_uid != 0;
    bool is_writable = (st.st_mode & (S_IWGRP | S_IWOTH)) != 0;
    if (!(st.st_mode & S_ISVTX) && (is_others || is_writable))
        return fail(err, ERR_UNAVAILABLE,
                    "lock folder %s is not sticky (chmod 1777 it, or remove it)", folder);
    return steal_fd(&fd);
}

static void file_name(const struct device *device, char out[112])
{
    snprintf(out, 112, "%s.lock", device->uuid);
    for (char *at = out; *at; at++)
        if (*at == '/')
            *at = '_';
}

/*
 * Opened without O_CREAT first: with fs.protected_regular set, O_CREAT on somebody else's file in
 * a sticky folder is refused. A hard link would let ftruncate() hit a file of ours elsewhere.
 */
static int file_open(int folder, const struct device *device, bool create)
{
    char name[112];
    file_name(device, name);
    int flags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    cleanup_fd int fd = openat(folder, name, O_RDWR | flags);
    if (fd < 0 && errno == ENOENT && create) {
        fd = openat(folder, name, O_RDWR | O_CREAT | O_EXCL | flags, 0666);
        if (fd >= 0)
            (void)!fchmod(fd, 0666); /* past the umask, for the other users */
        else if (errno == EEXIST)
            fd = openat(folder, name, O_RDWR | flags);
    }
    if (fd < 0 && errno == EACCES)
        fd = openat(folder, name, O_RDONLY | flags);
    struct stat st;
    if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_nlink > 1)) {
        errno = EPERM;
        return -1;
    }
    return steal_fd(&fd);
}

/* What the holder wrote; anybody may have written it, so only plain characters are passed on. */
static void read_holder(int fd, struct buf *out)
{
    char text[HOLDER_MAX];
    ssize_t got = pread(fd, text, sizeof(text), 0);
    for (ssize_t i = 0; i < got && text[i] != '\n'; i++)
        buf_add_char(out, text[i] >= ' ' && text[i] <= '~' ? text[i] : '?');
    if (out->len == 0)
        buf_add_text(out, "another muster");
}

static void write_holder(int fd, const char *held_by)
{
    char text[HOLDER_MAX];
    const struct passwd *user = getpwuid(geteuid());
    int len = snprintf(text, sizeof(text) - 1, "pid %d, user %s, run %s", (int)getpid(),
                       user ? user->pw_name : "?", held_by ? held_by : "?");
    len = MIN(len, (int)sizeof(text) - 2);
    text[len++] = '\n';
    /* For people only: the lock itself is the kernel's, so a failure here costs a name. */
    if (ftruncate(fd, 0) == 0)
        (void)!pwrite(fd, text, (size_t)len, 0);
}

/*
 * Somebody who only asks (device_is_locked) holds a shared lock for some microseconds: try again
 * before believing it.
 */
static bool lock_now(int fd)
{
    for (int attempt = 0; attempt < 5; attempt++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            return true;
        if (errno != EWOULDBLOCK && errno != EINTR)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    return false;
}

static int lock_one(int folder, const struct device *device, const char *held_by, struct err *err)
{
    char label[24];
    device_label(device, label);
    cleanup_fd int fd = file_open(folder, device, true);
    if (fd < 0)
        return fail_errno(err, "lock %s: open %s/%s.lock", label, lock_folder(), device->uuid);
    if (!lock_now(fd)) {
        if (errno != EWOULDBLOCK)
            return fail_errno(err, "lock %s", label);
        cleanup_buf struct buf holder = BUF_INIT;
        read_holder(fd, &holder);
        return fail(err, ERR_UNAVAILABLE, "%s is taken by %s", label, buf_text(&holder));
    }
    write_holder(fd, held_by);
    return steal_fd(&fd);
}

static bool needs_lock(const struct device *device)
{
    return device->kind != DEVICE_CPU && device->kind != DEVICE_SIM;
}

int device_locks_take(struct device_locks *locks, const struct device_list *devices,
                      const size_t *chosen, size_t n_chosen, const char *held_by, struct err *err)
{
    *locks = (struct device_locks){.fds = xcalloc(n_chosen + 1, sizeof(int))};
    cleanup_fd int folder = -1;
    for (size_t i = 0; i < n_chosen; i++) {
        const struct device *device = &devices->at[chosen[i]];
        if (!needs_lock(device))
            continue;
        if (folder < 0)
            folder = folder_open(err);
        int fd = folder < 0 ? folder : lock_one(folder, device, held_by, err);
        if (fd < 0) {
            device_locks_release(locks);
            return fd;
        }
        locks->fds[locks->len++] = fd;
    }
    return 0;
}

bool device_is_locked(const struct device *device, struct buf *holder)
{
    if (!needs_lock(device))
        return false;
    cleanup_fd int folder = open(lock_folder(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0)
        return false;
    cleanup_fd int fd = file_open(folder, device, false);
    if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return false;
    if (holder)
        read_holder(fd, holder);
    return true;
}

void device_locks_release(struct device_locks *locks)
{
    for (size_t i = 0; i < locks->len; i++)
        fd_close(&locks->fds[i]);
    free(locks->fds);
    *locks = (struct device_locks){0};
}
