/* SPDX-License-Identifier: Apache-2.0 */
#include "store/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fs.h"
#include "base/ours.h"
#include "base/parse.h"
#include "base/shell.h"
#include "base/this_host.h"
#include "base/xalloc.h"

enum {
    DEAD_TRIES_MAX = 200,
    DEAD_PAUSE_NS = 10000000
};

static void holder_write(int fd)
{
    char space[64], host[256];
    pid_space(space);
    host_name(host);
    cleanup_buf struct buf text = BUF_INIT;
    buf_addf(&text, "pid %d\nhost %s\npidspace %s\n", (int)getpid(), host, space);
    /* The content is for messages and signals only, so a failure is ignored: a full disk will be
     * reported by a write to run.db. */
    if (ftruncate(fd, 0) != 0 || pwrite_all(fd, text.at, text.len, 0, NULL) != 0)
        return;
}

static bool field_of(struct str line, struct str name, struct str *value)
{
    if (!str_starts_with(line, name))
        return false;
    *value = str_trim((struct str){line.at + name.len, line.len - name.len});
    return true;
}

static void holder_read(int fd, struct run_holder *holder)
{
    char text[768], space[64], host[256];
    struct stat st;
    *holder = (struct run_holder){.owner = fstat(fd, &st) == 0 ? st.st_uid : (uid_t)-1};
    ssize_t len = pread(fd, text, sizeof(text), 0);
    struct str rest = {text, (size_t)MAX(len, 0)}, line, value;
    bool same_space = false;
    pid_space(space);
    host_name(host);
    while (str_next(&rest, '\n', &line)) {
        uint64_t pid = 0;
        if (field_of(line, STR("pid "), &value) && u64_parse(value, 1, INT32_MAX, &pid, NULL) == 0)
            holder->pid = (pid_t)pid;
        else if (field_of(line, STR("host "), &value))
            snprintf(holder->host, sizeof(holder->host), "%.*s", (int)value.len, value.at);
        else if (field_of(line, STR("pidspace "), &value))
            same_space = str_equal(value, str_of(space));
    }
    holder->is_here = same_space && holder->pid > 0 && strcmp(holder->host, host) == 0;
}

static int taken(int fd, const char *dir, struct err *err)
{
    struct run_holder holder;
    holder_read(fd, &holder);
    if (holder.pid == 0)
        return fail(err, ERR_UNAVAILABLE, "the run in %s is going on under another muster", dir);
    cleanup_buf struct buf word = BUF_INIT;
    buf_add_typed_word(&word, dir);
    return fail(err, ERR_UNAVAILABLE,
                "the run in %s is going on: pid %d on %s holds it (muster stop %s ends it)", dir,
                (int)holder.pid, holder.host, buf_text(&word));
}

static bool is_dead(const struct run_holder *holder)
{
    return holder->is_here && kill(holder->pid, 0) != 0 && errno == ESRCH;
}

/*
 * Waits a moment if the holder is dead. A muster that was killed while it started a guard leaves a
 * new process that holds its descriptors, and so the lock, until that process executes the guard a
 * few milliseconds later.
 */
static bool is_about_to_go(int fd, unsigned n_tries)
{
    struct run_holder holder;
    holder_read(fd, &holder);
    if (n_tries >= DEAD_TRIES_MAX || !is_dead(&holder))
        return false;
    nanosleep(&(struct timespec){.tv_nsec = DEAD_PAUSE_NS}, NULL);
    return true;
}

/* False, with errno, if one lock cannot be had; EAGAIN or EACCES: another process holds it. A
 * folder on NFS cannot be locked (ENOLCK, EBADF), which is no failure. */
static bool both_lock(int fd, int folder)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(fd, F_OFD_SETLK, &whole) != 0)
        return false;
    return folder < 0 || flock(folder, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

int run_lock_take(struct run_lock *lock, const char *dir, struct err *err)
{
    cleanup_free char *path = path_join(dir, "lock");
    struct err why = {0};
    cleanup_fd int fd = -1;
    int rc = ours_open(path, O_RDWR | O_CREAT, &fd, &why);
    if (rc && (why.sys == EACCES || why.sys == EROFS)) {
        errno = why.sys;
        return fail_errno_as(err, ERR_USAGE,
                             "the run's folder %s must be writable for who goes on with it", dir);
    }
    if (rc) {
        if (err)
            *err = why;
        return rc;
    }
    cleanup_fd int folder = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (unsigned n_tries = 0; !both_lock(fd, folder); n_tries++) {
        bool is_taken = errno == EAGAIN || errno == EACCES;
        if (is_taken && is_about_to_go(fd, n_tries))
            continue;
        if (is_taken)
            return taken(fd, dir, err);
        return fail_errno(
            err, "lock %s (a file system without locks? --run-dir names another place)", path);
    }
    holder_write(fd);
    lock->fd = steal_fd(&fd);
    lock->folder_fd = steal_fd(&folder);
    return 0;
}

void run_lock_release(struct run_lock *lock)
{
    fd_close(&lock->fd);
    fd_close(&lock->folder_fd);
}

static bool is_at(const struct stat *folder, const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && st.st_dev == folder->st_dev && st.st_ino == folder->st_ino;
}

enum run_place run_lock_place(const struct run_lock *lock, const char *dir, char **now_at)
{
    char link[64], path[PATH_MAX];
    struct stat folder;
    if (lock->folder_fd < 0 || fstat(lock->folder_fd, &folder) != 0)
        return folder_exists(dir) ? RUN_IN_PLACE : RUN_REMOVED;
    if (is_at(&folder, dir))
        return RUN_IN_PLACE;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", lock->folder_fd);
    ssize_t len = readlink(link, path, sizeof(path) - 1);
    path[MAX(len, (ssize_t)0)] = '\0';
    if (!is_at(&folder, path)) /* for a removed folder, the kernel's path is not its place */
        return RUN_REMOVED;
    *now_at = xstrdup(path);
    return RUN_MOVED;
}

/* The open lock file, or -1: nobody holds it. */
static int held_open(const char *dir, struct run_holder *holder)
{
    cleanup_free char *path = path_join(dir, "lock");
    cleanup_fd int fd = -1;
    if (plain_file_open(path, &fd, NULL) != 0)
        return -1;
    struct flock whole = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    if (fcntl(fd, F_OFD_GETLK, &whole) != 0 || whole.l_type == F_UNLCK)
        return -1;
    holder_read(fd, holder);
    return is_dead(holder) ? -1 : steal_fd(&fd);
}

bool run_is_locked(const char *dir, struct run_holder *holder)
{
    struct run_holder found;
    cleanup_fd int fd = held_open(dir, &found);
    if (fd >= 0 && holder)
        *holder = found;
    return fd >= 0;
}

int run_unlocked_check(const char *dir, struct err *err)
{
    struct run_holder holder;
    cleanup_fd int fd = held_open(dir, &holder);
    return fd >= 0 ? taken(fd, dir, err) : 0;
}
