/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/front.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "proc/proctree.h"

/*
 * The variable's value is "DESCRIPTOR of PID", and the pid is the front's. A process that inherits
 * the variable from the front's child has another parent, and leaves the descriptor alone.
 */
static const char variable[] = "MUSTER_FRONT";

/* `more` may be NULL. */
static void signals_choose(const sigset_t *more, sigset_t *chosen)
{
    static const int numbers[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGUSR1};
    struct sigaction hangup;
    if (more)
        *chosen = *more;
    else
        sigemptyset(chosen);
    for (size_t i = 0; i < countof(numbers); i++)
        sigaddset(chosen, numbers[i]);
    sigaction(SIGHUP, NULL, &hangup);
    if (hangup.sa_handler == SIG_IGN) /* nohup */
        sigdelset(chosen, SIGHUP);
}

/*
 * Closes all descriptors that came from the caller, so that a reader of muster's output waits only
 * for the fork.
 */
static void descriptors_close(int kept)
{
    if (kept > 0)
        (void)syscall(SYS_close_range, 0, kept - 1, 0);
    (void)syscall(SYS_close_range, kept + 1, ~0U, 0);
}

void front_hand_on(struct front *front, int signal)
{
    uint8_t byte = (uint8_t)signal, is_heard;
    while (recv(front->fd, &is_heard, 1, MSG_DONTWAIT) == 1)
        front->is_heard = is_heard;
    if (front->is_heard)
        (void)send(front->fd, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    else
        kill(front->worker, signal);
}

static _Noreturn void end_alike(int wait_status)
{
    sigset_t all;
    if (WIFEXITED(wait_status))
        _exit(WEXITSTATUS(wait_status));
    int number = WTERMSIG(wait_status);
    setrlimit(RLIMIT_CORE,
              &(struct rlimit){0, 0}); /* the fork has dumped core already, if wanted */
    signal(number, SIG_DFL);
    sigfillset(&all);
    sigprocmask(SIG_UNBLOCK, &all, NULL);
    raise(number);
    _exit(128 + number);
}

/* Reaps the children from before the fork as well, because only their parent can reap them. */
static _Noreturn void run(struct front *front, const sigset_t *wanted)
{
    descriptors_close(front->fd);
    for (;;) {
        int number, wait_status;
        pid_t ended;
        if (sigwait(wanted, &number) != 0)
            continue;
        if (number != SIGCHLD)
            front_hand_on(front, number);
        while ((ended = waitpid(-1, &wait_status, WNOHANG | __WALL)) > 0)
            if (ended == front->worker)
                end_alike(wait_status);
    }
}

int front_open(struct front *front, int *child_fd, struct err *err)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
        return fail_errno(err, "make a socket pair");
    *front = (struct front){.fd = ends[0]};
    *child_fd = ends[1];
    return 0;
}

void front_leave(int child_fd)
{
    char value[48];
    fcntl(child_fd, F_SETFD, 0);
    snprintf(value, sizeof(value), "%d of %d", child_fd, (int)getppid());
    setenv(variable, value, 1);
}

/* Returns the descriptor that leads to the front, or -1 if this process's parent is no front. */
static int front_find(void)
{
    const char *value = getenv(variable);
    int fd = -1, pid = 0;
    struct stat st;
    bool is_there = value && sscanf(value, "%d of %d", &fd, &pid) == 2 && pid == (int)getppid() &&
                    fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
    unsetenv(variable);
    if (is_there)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    return is_there ? fd : -1;
}

int front_begin(int *signals_fd, const sigset_t *more, struct err *err)
{
    sigset_t wanted, before;
    struct front front = {.fd = -1};
    int child_fd = -1;
    *signals_fd = front_find();
    if (*signals_fd >= 0 || !proc_has_children())
        return 0;
    int rc = front_open(&front, &child_fd, err);
    if (rc)
        return rc;
    fflush(NULL);
    signals_choose(more, &wanted);
    signal(SIGCHLD, SIG_DFL); /* if it were ignored, the end of the fork would not be signalled */
    sigprocmask(SIG_BLOCK, &wanted, &before);
    pid_t self = getpid();
    front.worker = fork();
    if (front.worker > 0)
        run(&front, &wanted);
    rc = front.worker < 0 ? fail_errno(err, "start a process") : 0;
    sigprocmask(SIG_SETMASK, &before, NULL);
    close(front.fd);
    if (rc) {
        close(child_fd);
        return rc;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != self)
        _exit(1);
    *signals_fd = child_fd;
    return 0;
}

void front_listen(int signals_fd, bool is_heard)
{
    uint8_t byte = is_heard;
    if (signals_fd >= 0)
        (void)send(signals_fd, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}
