/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "proc/leftover.h"

enum {
    LOOK_EVERY_MS = 100
};

/* Nothing of muster's may be held open: its run's lock, its devices' locks, its workers' pipes. */
static int alone_with(int fd)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    setsid();
    prctl(PR_SET_NAME, "run-keeper");
    if (dup2(fd, STDIN_FILENO) < 0)
        _exit(1);
    if (syscall(SYS_close_range, STDOUT_FILENO, ~0U, 0) != 0)
        for (int other = STDOUT_FILENO; other < sysconf(_SC_OPEN_MAX); other++)
            close(other);
    return chdir("/");
}

/* A byte says that all is well; muster's death says nothing. */
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
    while (leftover_end(entry, &one) > 0 && clock_now_ms() < deadline_ms)
        nanosleep(&pause, NULL);
}

int keeper_start(struct keeper *keeper, const char *entry, uint64_t limit_ms, struct err *err)
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
        if (alone_with(ends[0]) == 0)
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
