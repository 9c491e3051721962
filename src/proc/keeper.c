/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
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

/* Closes muster's other descriptors: the keeper must not hold the run's lock or workers' pipes open. */
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

static void keep(const char *entry, uint64_t limit_ms)
{
    const struct timespec pause = {.tv_nsec = LOOK_EVERY_MS * 1000000L};
    pid_t one;
    if (is_dismissed())
        return;
    uint64_t deadline_ms = clock_now_ms() + limit_ms;
    while (orphans_end(entry, &one) > 0 && clock_now_ms() < deadline_ms)
        nanosleep(&pause, NULL);
}

int keeper_start(struct keeper *keeper, const char *entry, uint64_t limit_ms, const int *held,
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
            keep(entry, limit_ms);
        _exit(0);
    }
    close(ends[0]);
    *keeper = (struct keeper){.pid = pid, .fd = ends[1]};
    return 0;
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
    keeper->pid = 0;
}
