/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "proc/orphans.h"

enum {
    LOOK_EVERY_MS = 100
};

static void close_between(int from, int end)
{
    if (from >= end || syscall(SYS_close_range, from, end - 1, 0) == 0)
        return;
    end = MIN(end, (int)sysconf(_SC_OPEN_MAX));
    for (int fd = from; fd < end; fd++)
        close(fd);
}

/* The lowest descriptor in `held` that is not below `from`; INT_MAX: none. */
static int held_next(const int *held, size_t n_held, int from)
{
    int next = INT_MAX;
    for (size_t i = 0; i < n_held; i++)
        if (held[i] >= from && held[i] < next)
            next = held[i];
    return next;
}

/*
 * Closes muster's other descriptors: the keeper must not hold the run's lock or workers' pipes
 * open.
 */
static int alone_with(int fd, const int *held, size_t n_held)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    setsid();
    prctl(PR_SET_NAME, "run-keeper");
    if (dup2(fd, STDIN_FILENO) < 0)
        _exit(1);
    for (int from = STDOUT_FILENO, next; from < INT_MAX; from = next + (next < INT_MAX)) {
        next = held_next(held, n_held, from);
        close_between(from, next);
    }
    return chdir("/");
}

/* muster sends a byte to dismiss the keeper. If muster dies, the pipe ends without one. */
static bool is_dismissed(void)
{
    char byte;
    ssize_t got;
    while ((got = read(STDIN_FILENO, &byte, 1)) < 0 && errno == EINTR)
        ;
    return got != 0;
}

/* What a keeper does after muster's death. */
struct keeper_task {
    const char *entry;  /* end processes that have this entry in their environment; NULL: none */
    uint64_t limit_ms;  /* try to end them for so long */
    const char *folder; /* remove this folder; NULL: none */
    uint64_t keep_ms;   /* wait so long before the removal */
    int lock_fd;        /* of the folder; -1: none */
};

/*
 * Unlocks the folder. The file's time becomes now, so that others who look at the lock count
 * keep_ms from now, too.
 */
static void folder_offer(int lock_fd)
{
    if (lock_fd < 0)
        return;
    (void)!futimens(lock_fd, NULL);
    flock(lock_fd, LOCK_UN);
}

static void folder_remove(const struct keeper_task *task)
{
    struct err ignored = {0};
    if (task->lock_fd < 0 || flock(task->lock_fd, LOCK_EX | LOCK_NB) == 0)
        (void)!remove_tree(task->folder, &ignored);
}

static void orphans_await(const char *entry, uint64_t limit_ms)
{
    const struct timespec pause = {.tv_nsec = LOOK_EVERY_MS * 1000000L};
    uint64_t deadline_ms = clock_now_ms() + limit_ms;
    pid_t one;
    while (orphans_end(entry, &one) > 0 && clock_now_ms() < deadline_ms)
        nanosleep(&pause, NULL);
}

static void keep(const struct keeper_task *task)
{
    struct timespec rest = {.tv_sec = (time_t)(task->keep_ms / 1000),
                            .tv_nsec = (long)(task->keep_ms % 1000) * 1000000L};
    if (is_dismissed())
        return;
    if (task->entry)
        orphans_await(task->entry, task->limit_ms);
    if (!task->folder)
        return;
    folder_offer(task->lock_fd);
    while (nanosleep(&rest, &rest) != 0 && errno == EINTR)
        ;
    folder_remove(task);
}

static int start(struct keeper *keeper, const struct keeper_task *task, const int *held,
                 size_t n_held, struct err *err)
{
    int ends[2];
    *keeper = (struct keeper){.fd = -1};
    if (pipe2(ends, O_CLOEXEC) != 0)
        return fail_errno(err, "create a pipe");
    pid_t pid = fork();
    if (pid < 0) {
        int rc = fail_errno(err, "start a process");
        close(ends[0]);
        close(ends[1]);
        return rc;
    }
    if (pid == 0) {
        if (alone_with(ends[0], held, n_held) == 0)
            keep(task);
        _exit(0);
    }
    close(ends[0]);
    *keeper = (struct keeper){.pid = pid, .fd = ends[1]};
    return 0;
}

int keeper_start(struct keeper *keeper, const char *entry, uint64_t limit_ms, const int *held,
                 size_t n_held, struct err *err)
{
    const struct keeper_task task = {.entry = entry, .limit_ms = limit_ms};
    int rc = start(keeper, &task, held, n_held, err);
    if (rc)
        return rc;
    keeper->entry = xstrdup(entry);
    keeper->limit_ms = limit_ms;
    return 0;
}

/* Starts the new keeper before it dismisses the old one, so that there is always one. */
int keeper_renew(struct keeper *keeper, const int *held, size_t n_held, struct err *err)
{
    struct keeper renewed;
    if (keeper->pid <= 0)
        return 0;
    int rc = keeper_start(&renewed, keeper->entry, keeper->limit_ms, held, n_held, err);
    if (rc)
        return rc;
    keeper_dismiss(keeper);
    *keeper = renewed;
    return 0;
}

int keeper_start_for_folder(struct keeper *keeper, const char *folder, uint64_t keep_ms,
                            int lock_fd, struct err *err)
{
    const struct keeper_task task = {.folder = folder, .keep_ms = keep_ms, .lock_fd = lock_fd};
    return start(keeper, &task, &lock_fd, lock_fd >= 0, err);
}

void keeper_leave(struct keeper *keeper)
{
    fd_close(&keeper->fd);
    free(steal_ptr(&keeper->entry));
    keeper->pid = 0;
}

void keeper_dismiss(struct keeper *keeper)
{
    if (keeper->pid <= 0)
        return;
    while (write(keeper->fd, "q", 1) < 0 && errno == EINTR)
        ;
    fd_close(&keeper->fd);
    while (waitpid(keeper->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    free(steal_ptr(&keeper->entry));
    keeper->pid = 0;
}
