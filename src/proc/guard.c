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
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "proc/guard_wire.h"

enum {
    GRACE_DEFAULT_MS = 10000
};

/*
 * For functions that run in the child between clone and exec. They never return, so the marks that
 * AddressSanitizer makes for their frames would stay on the stack, which is our own memory.
 */
#define ON_OUR_STACK __attribute__((no_sanitize("address")))

struct launch {
    const char *path;
    char *const *argv, *const *envp;
    int control_fd, report_fd;
    volatile int sys; /* errno of the step that failed in the child */
    const char *volatile step;
};

/*
 * Places the descriptors in two passes, because a source may have the number of another's target.
 */
ON_OUR_STACK static int fds_place(const struct launch *launch)
{
    int targets[GUARD_FD_END], null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < GUARD_FD_END; fd++) {
        int source = fd == GUARD_FD_CONTROL  ? launch->control_fd
                     : fd == GUARD_FD_REPORT ? launch->report_fd
                                             : null;
        targets[fd] = fcntl(source, F_DUPFD_CLOEXEC, GUARD_FD_END);
        if (targets[fd] < 0)
            return -1;
    }
    for (int fd = 0; fd < GUARD_FD_END; fd++)
        if (dup2(targets[fd], fd) < 0) /* which clears close-on-exec */
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

/*
 * All signals are blocked around the clone, and stay blocked in the guard: a handler of ours must
 * not run in the child, which shares our memory.
 */
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

static int launch_run(struct guard *guard, struct launch *launch, struct err *err)
{
    pid_t pid = launch_clone(launch, &guard->pidfd);
    if (pid < 0)
        return fail_errno(err, "start a process");
    if (launch->sys != 0) {
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
        errno = launch->sys;
        return fail_errno(err, "guard %s: %s", launch->path, launch->step);
    }
    guard->pid = pid;
    return 0;
}

static int guard_open(struct guard *guard, const struct spawn_opts *opts, struct err *err)
{
    int control[2], reports[2];
    char muster_pid[16];
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
    snprintf(muster_pid, sizeof(muster_pid), "%d", (int)getpid());
    char self[] = "muster-guard", *argv[GUARD_ARGS + 1] = {self, muster_pid, NULL};
    struct launch launch = {.path = opts->guard_path,
                            .argv = argv,
                            .envp = opts->envp ? (char *const *)(uintptr_t)opts->envp : environ,
                            .control_fd = control_theirs,
                            .report_fd = report_theirs};
    return launch_run(guard, &launch, err);
}

/* ---- the order to start a worker ---- */

static uint32_t texts_add(struct buf *out, const char *const *texts)
{
    uint32_t n = 0;
    for (; texts[n]; n++)
        buf_add(out, texts[n], strlen(texts[n]) + 1);
    return n;
}

/* Returns a file without a name that holds the texts, or -1 with errno. */
static int texts_file_new(struct str texts)
{
    struct err err = {0};
    cleanup_fd int fd = memfd_create("muster-worker", MFD_CLOEXEC);
    if (fd >= 0 && write_all(fd, texts.at, texts.len, &err) != 0) {
        errno = err.sys;
        return -1;
    }
    return steal_fd(&fd);
}

static size_t streams_list(const struct spawn_opts *opts, struct guard_order *order, int *fds)
{
    const int streams[GUARD_STREAMS] = {opts->stdin_fd, opts->stdout_fd, opts->stderr_fd,
                                        opts->channel_fd};
    size_t n = 0;
    for (int i = 0; i < GUARD_STREAMS; i++) {
        if (streams[i] < 0)
            continue;
        order->streams |= (uint8_t)(1 << i);
        fds[n++] = streams[i];
    }
    return n;
}

static int order_send(const struct guard *guard, const struct guard_order *order, struct str texts,
                      const int *fds, size_t n_fds)
{
    union {
        struct cmsghdr header; /* aligns the bytes */
        char bytes[CMSG_SPACE(GUARD_SENT_MAX * sizeof(int))];
    } control = {0};
    struct iovec parts[] = {{(void *)(uintptr_t)order, sizeof(*order)},
                            {(void *)(uintptr_t)texts.at, texts.len}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = countof(parts)};
    if (n_fds > 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(n_fds * sizeof(*fds));
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(n_fds * sizeof(*fds));
        memcpy(CMSG_DATA(&control.header), fds, n_fds * sizeof(*fds));
    }
    return (int)TEMP_FAILURE_RETRY(sendmsg(guard->control_fd, &message, MSG_NOSIGNAL));
}

int guard_start(struct guard *guard, const struct spawn_opts *opts, struct err *err)
{
    struct guard_order order = {.kind = GUARD_ORDER_START,
                                .is_last = !opts->guard_stays,
                                .grace_ms = opts->grace_ms ? opts->grace_ms : GRACE_DEFAULT_MS};
    cleanup_buf struct buf texts = BUF_INIT;
    int fds[GUARD_SENT_MAX];
    cleanup_fd int file = -1;
    buf_add(&texts, opts->cwd ? opts->cwd : "", (opts->cwd ? strlen(opts->cwd) : 0) + 1);
    order.n_argv = texts_add(&texts, opts->argv);
    order.n_envp = texts_add(&texts, opts->envp ? opts->envp : (const char *const *)environ);
    order.n_text_bytes = (uint32_t)texts.len;
    order.is_pinned = opts->cpus && CPU_COUNT(opts->cpus) > 0;
    if (order.is_pinned)
        order.cpus = *opts->cpus;
    order.has_file = texts.len > GUARD_TEXTS_MAX;
    if (order.has_file && (file = texts_file_new(buf_str(&texts))) < 0)
        return fail_errno(err, "keep its arguments");
    guard->worker_pid = -1;
    fds[0] = file;
    size_t n_fds = order.has_file + streams_list(opts, &order, fds + order.has_file);
    for (size_t i = 0; i < opts->n_held_fds; i++)
        fds[n_fds++] = opts->held_fds[i];
    struct str inside = order.has_file ? STR("") : buf_str(&texts);
    return order_send(guard, &order, inside, fds, n_fds) < 0
               ? fail_errno(err, "give its guard an order")
               : 0;
}

int guard_spawn(struct guard *guard, const struct spawn_opts *opts, struct err *err)
{
    ASSERT(opts->guard_path && opts->argv && opts->argv[0] && opts->n_held_fds <= GUARD_HELD_MAX);
    *guard = (struct guard)GUARD_INIT;
    struct err why = {0};
    int rc = guard_open(guard, opts, &why);
    rc = rc ? rc : guard_start(guard, opts, &why);
    if (rc == 0 || why.sys == EPIPE) /* EPIPE: the guard was killed already; its end will be read */
        return 0;
    guard_close(guard);
    if (err)
        *err = why;
    return wrap(err, rc, "start %s", opts->argv[0]);
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
 * been stopped). The guard takes TERM for the polite end, and asks its worker by TERM; after a KILL
 * the reaper ends what the guard leaves. Returns -1 with errno on failure.
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
static void order(const struct guard *guard, enum guard_order_kind kind, int signal)
{
    struct guard_order message = {.kind = (uint8_t)kind, .signal = (uint8_t)signal};
    if (guard->control_fd < 0)
        return;
    ssize_t sent =
        TEMP_FAILURE_RETRY(send(guard->control_fd, &message, sizeof(message), MSG_NOSIGNAL));
    if (sent != sizeof(message) && order_by_signal(guard, kind) != 0)
        (void)shutdown(guard->control_fd, SHUT_RDWR);
}

void guard_terminate(struct guard *guard)
{
    guard_terminate_by(guard, SIGTERM);
}

void guard_terminate_by(struct guard *guard, int signal)
{
    order(guard, GUARD_ORDER_TERMINATE, signal);
}

void guard_kill(struct guard *guard)
{
    order(guard, GUARD_ORDER_KILL, SIGKILL);
}

void guard_dismiss(struct guard *guard)
{
    (void)order_by_signal(guard, GUARD_ORDER_TERMINATE);
}

void guard_close(struct guard *guard)
{
    fd_close(&guard->control_fd);
    fd_close(&guard->report_fd);
    fd_close(&guard->pidfd);
    guard->pid = guard->worker_pid = -1;
}
