/* SPDX-License-Identifier: Apache-2.0
 *
 * muster's side of a guard: clone, orders, reports. Between clone and exec the child shares our
 * memory while we sleep (VM, VFORK), so it touches nothing but its own stack and `struct launch`.
 */
#include "proc/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/xalloc.h"
#include "proc/guard_wire.h"

enum {
    GRACE_DEFAULT_MS = 10000,
    FD_ABOVE_TARGETS = 16
};

/*
 * For functions that run in the child between clone and exec. They never return, so the marks that
 * AddressSanitizer makes for their frames would stay on the stack, which is our own memory.
 */
#define ON_OUR_STACK __attribute__((no_sanitize("address")))

struct launch {
    const char *path;
    char **argv;
    char *const *envp;
    int fds[GUARD_FD_END + GUARD_HELD_MAX]; /* fds[i] becomes descriptor i; -1: none */
    int n_fds;
    volatile int sys; /* errno of the step that failed in the child */
    const char *volatile step;
};

/*
 * Two passes, because a source may have the number of another's target: the first moves all sources
 * out of the way, the second moves them to their targets (dup2 clears close-on-exec there).
 */
ON_OUR_STACK static int fds_place(struct launch *launch)
{
    int high[countof(launch->fds)];
    for (int fd = 0; fd < launch->n_fds; fd++) {
        int source = launch->fds[fd];
        if (source < 0 && fd <= STDERR_FILENO)
            source = open("/dev/null", O_RDWR | O_CLOEXEC);
        high[fd] =
            source < 0 ? -1 : fcntl(source, F_DUPFD_CLOEXEC, MAX(FD_ABOVE_TARGETS, launch->n_fds));
        if (high[fd] < 0 && fd != GUARD_FD_CHANNEL)
            return -1;
    }
    for (int fd = 0; fd < launch->n_fds; fd++)
        if (high[fd] < 0)
            close(fd);
        else if (dup2(high[fd], fd) < 0)
            return -1;
    return 0;
}

ON_OUR_STACK static int launch_child(void *context)
{
    struct launch *launch = context;
    launch->step = "set up its descriptors";
    if (fds_place(launch) == 0) {
        setsid();
        launch->step = "execute it";
        execve(launch->path, launch->argv, launch->envp);
    }
    launch->sys = errno;
    _exit(127);
}

/* All signals are blocked around the clone, and stay blocked in the guard: a handler of ours must not
 * run in the child, which shares our memory. */
ON_OUR_STACK static pid_t launch_clone(struct launch *launch, int *pidfd)
{
    char stack[GUARD_STACK_BYTES] __attribute__((aligned(64)));
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = clone(launch_child, stack + sizeof(stack),
                      CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, launch, pidfd);
    int sys = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = sys;
    return pid;
}

/* "-" if the affinity is to be left alone, else hexadecimal; free() it. */
static char *cpus_format_new(const cpu_set_t *cpus)
{
    if (!cpus || CPU_COUNT(cpus) == 0)
        return xstrdup("-");
    enum {
        DIGITS = CPU_SETSIZE / 4
    };
    char *hex = xcalloc(DIGITS + 1, 1);
    for (size_t digit = 0; digit < DIGITS; digit++) {
        unsigned bits = 0;
        for (size_t bit = 0; bit < 4; bit++)
            bits |= (unsigned)!!CPU_ISSET(4 * digit + bit, cpus) << bit;
        hex[DIGITS - 1 - digit] = "0123456789abcdef"[bits];
    }
    return hex;
}

/* argv of the guard. The strings stay the caller's; only the array is new. */
static char **guard_argv_new(const struct spawn_opts *opts,
                             const char *const settings[GUARD_ARG_WORKER])
{
    size_t n = 0;
    while (opts->argv[n])
        n++;
    const char **argv = xcalloc(GUARD_ARG_WORKER + n + 1, sizeof(*argv));
    memcpy(argv, settings, GUARD_ARG_WORKER * sizeof(*argv));
    memcpy(argv + GUARD_ARG_WORKER, opts->argv, n * sizeof(*argv));
    return (char **)(uintptr_t)argv;
}

static int launch_run(struct guard *guard, struct launch *launch, const struct spawn_opts *opts,
                      struct err *err)
{
    char grace_ms[24], muster_pid[16], n_held[16];
    snprintf(grace_ms, sizeof(grace_ms), "%lu",
             (unsigned long)(opts->grace_ms ? opts->grace_ms : GRACE_DEFAULT_MS));
    snprintf(muster_pid, sizeof(muster_pid), "%d", (int)getpid());
    snprintf(n_held, sizeof(n_held), "%zu", opts->n_held_fds);
    cleanup_free char *cpus = cpus_format_new(opts->cpus);
    const char *const settings[GUARD_ARG_WORKER] = {
        [GUARD_ARG_SELF] = "muster-guard",
        [GUARD_ARG_GRACE_MS] = grace_ms,
        [GUARD_ARG_MUSTER_PID] = muster_pid,
        [GUARD_ARG_CPUS] = cpus,
        [GUARD_ARG_CWD] = opts->cwd ? opts->cwd : "",
        [GUARD_ARG_HELD] = n_held,
    };
    cleanup_free char **argv = guard_argv_new(opts, settings);
    launch->path = opts->guard_path;
    launch->argv = argv;
    launch->envp = opts->envp ? (char *const *)(uintptr_t)opts->envp : environ;
    pid_t pid = launch_clone(launch, &guard->pidfd);
    if (pid < 0)
        return fail_errno(err, "start a process");
    if (launch->sys != 0) {
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
        errno = launch->sys;
        return fail_errno(err, "guard %s: %s", opts->guard_path, launch->step);
    }
    guard->pid = pid;
    return 0;
}

static int spawn(struct guard *guard, const struct spawn_opts *opts, struct err *err)
{
    int control[2], reports[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) != 0)
        return fail_errno(err, "make a socket pair");
    guard->control_fd = control[0];
    cleanup_fd int control_theirs = control[1];
    if (pipe2(reports, O_CLOEXEC) != 0)
        return fail_errno(err, "make a pipe");
    guard->report_fd = reports[0];
    cleanup_fd int report_theirs = reports[1];
    fcntl(guard->control_fd, F_SETFL, O_NONBLOCK);
    fcntl(guard->report_fd, F_SETFL, O_NONBLOCK);
    struct launch launch = {.fds = {opts->stdin_fd, opts->stdout_fd, opts->stderr_fd,
                                    opts->channel_fd, control_theirs, report_theirs},
                            .n_fds = GUARD_FD_END + (int)opts->n_held_fds};
    for (size_t i = 0; i < opts->n_held_fds; i++)
        launch.fds[GUARD_FD_END + i] = opts->held_fds[i];
    return launch_run(guard, &launch, opts, err);
}

int guard_spawn(struct guard *guard, const struct spawn_opts *opts, struct err *err)
{
    ASSERT(opts->guard_path && opts->argv && opts->argv[0] && opts->n_held_fds <= GUARD_HELD_MAX);
    *guard = (struct guard)GUARD_INIT;
    int rc = spawn(guard, opts, err);
    if (rc) {
        guard_close(guard);
        return wrap(err, rc, "start %s", opts->argv[0]);
    }
    return 0;
}

int guard_read(struct guard *guard, struct guard_report *report, struct err *err)
{
    ssize_t got;
    while ((got = read(guard->report_fd, report, sizeof(*report))) < 0 && errno == EINTR)
        ;
    if (got < 0 && errno == EAGAIN)
        return 0;
    if (got < 0)
        return fail_errno(err, "read from guard %d", (int)guard->pid);
    if (got != sizeof(*report))
        return fail(err, ERR_FAILED, "guard %d has ended", (int)guard->pid);
    if (report->kind == GUARD_STARTED)
        guard->worker_pid = report->value;
    return 1;
}

/*
 * Gives an order by a signal, for when the socket does not take it (no memory, or a guard that has
 * been stopped). The guard takes TERM for the polite end; after a KILL the reaper ends what the guard
 * leaves. Returns -1 with errno on failure.
 */
static int order_by_signal(const struct guard *guard, enum guard_order_kind kind)
{
    int signal = kind == GUARD_ORDER_KILL ? SIGKILL : SIGTERM;
    return (int)syscall(SYS_pidfd_send_signal, guard->pidfd, signal, NULL, 0);
}

/*
 * MSG_NOSIGNAL: an order to a guard that has ended must not end muster by SIGPIPE. If the order
 * cannot be given by a signal either, the socket is shut down, which the guard takes for muster's
 * death.
 */
static void order(const struct guard *guard, enum guard_order_kind kind)
{
    struct guard_order message = {.kind = (uint8_t)kind};
    if (guard->control_fd < 0)
        return;
    ssize_t sent =
        TEMP_FAILURE_RETRY(send(guard->control_fd, &message, sizeof(message), MSG_NOSIGNAL));
    if (sent != sizeof(message) && order_by_signal(guard, kind) != 0)
        (void)shutdown(guard->control_fd, SHUT_RDWR);
}

void guard_terminate(struct guard *guard)
{
    order(guard, GUARD_ORDER_TERMINATE);
}

void guard_kill(struct guard *guard)
{
    order(guard, GUARD_ORDER_KILL);
}

void guard_close(struct guard *guard)
{
    fd_close(&guard->control_fd);
    fd_close(&guard->report_fd);
    fd_close(&guard->pidfd);
    guard->pid = guard->worker_pid = -1;
}
