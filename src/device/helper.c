/* SPDX-License-Identifier: Apache-2.0 */
#include "device/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/executable.h"
#include "base/fs.h"

enum {
    ARGS_MAX = 1100
};

/*
 * The helper does not inherit muster's blocked and ignored signals. It has a process group of its
 * own, so that ^C on the terminal reaches only muster.
 */
static int attributes_init(posix_spawnattr_t *attributes)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGIO, SIGCHLD, SIGQUIT};
    sigset_t none, defaults;
    sigemptyset(&none);
    sigemptyset(&defaults);
    for (size_t i = 0; i < countof(signals); i++)
        sigaddset(&defaults, signals[i]);
    int rc = posix_spawnattr_init(attributes);
    if (rc == 0) {
        posix_spawnattr_setsigmask(attributes, &none);
        posix_spawnattr_setsigdefault(attributes, &defaults);
        posix_spawnattr_setpgroup(attributes, 0);
        posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                                 POSIX_SPAWN_SETPGROUP);
    }
    return rc;
}

static int spawn(pid_t *pid, const char *path, char *const *argv, int in_fd, int out_fd)
{
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t actions;
    int rc = attributes_init(&attributes);
    if (rc)
        return rc;
    rc = posix_spawn_file_actions_init(&actions);
    if (rc == 0) {
        posix_spawn_file_actions_adddup2(&actions, in_fd, STDIN_FILENO);
        posix_spawn_file_actions_adddup2(&actions, out_fd, STDOUT_FILENO);
        rc = posix_spawn(pid, path, &actions, &attributes, argv, environ);
        posix_spawn_file_actions_destroy(&actions);
    }
    posix_spawnattr_destroy(&attributes);
    return rc;
}

int helper_start(struct helper *helper, const char *self_path, char *const *args, struct err *err)
{
    cleanup_free char *path = program_find_beside(self_path, "muster-devices");
    char *argv[ARGS_MAX + 2];
    char name[] = "muster-devices";
    size_t n_args = 0;
    int in[2], out[2];
    *helper = (struct helper)HELPER_INIT;
    if (!path)
        return fail(err, ERR_UNAVAILABLE, "muster-devices is not beside %s; install both",
                    self_path);
    argv[n_args++] = name;
    for (size_t i = 0; i < ARGS_MAX && args[i]; i++)
        argv[n_args++] = args[i];
    argv[n_args] = NULL;
    if (pipe2(in, O_CLOEXEC) != 0)
        return fail_errno(err, "pipe");
    cleanup_fd int in_read = in[0];
    cleanup_fd int in_write = in[1];
    if (pipe2(out, O_CLOEXEC) != 0)
        return fail_errno(err, "pipe");
    cleanup_fd int out_read = out[0];
    cleanup_fd int out_write = out[1];
    fcntl(out_read, F_SETFL, O_NONBLOCK);
    int sys = spawn(&helper->pid, path, argv, in_read, out_write);
    if (sys) {
        *helper = (struct helper)HELPER_INIT;
        errno = sys;
        return fail_errno(err, "start the device helper %s", path);
    }
    helper->out_fd = steal_fd(&out_read);
    helper->hold_fd = steal_fd(&in_write);
    helper->query_number = -1;
    snprintf(helper->query, sizeof(helper->query), "its start");
    return 0;
}

bool helper_read(struct helper *helper)
{
    bool any = false;
    if (helper->out_fd < 0)
        return false;
    buf_consume(&helper->pending, helper->used);
    helper->used = 0;
    while (!helper->is_eof) {
        buf_reserve(&helper->pending, 65536);
        ssize_t got = read(helper->out_fd, helper->pending.at + helper->pending.len, 65536);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            break;
        helper->is_eof = got <= 0;
        buf_extend(&helper->pending, got > 0 ? (size_t)got : 0);
        any |= got > 0;
    }
    return any;
}

bool helper_wait(struct helper *helper, uint64_t timeout_ms)
{
    struct pollfd poll_fd = {.fd = helper->out_fd, .events = POLLIN};
    uint64_t end_ms = clock_now_ms() + timeout_ms;
    for (uint64_t now_ms = end_ms - timeout_ms; now_ms <= end_ms; now_ms = clock_now_ms()) {
        int n_ready = poll(&poll_fd, 1, (int)(end_ms - now_ms) + 1);
        if (n_ready > 0)
            return helper_read(helper);
        if (n_ready < 0 && errno != EINTR)
            return false;
    }
    return false;
}

/* Takes an announcement such as "?nvmlDeviceGetName 3". */
static void note_query(struct helper *helper, struct str line)
{
    char text[96];
    snprintf(text, sizeof(text), "%.*s", (int)line.len, line.at);
    if (sscanf(text, "?%63s %d", helper->query, &helper->query_number) != 2)
        helper->query_number = -1;
    helper->is_up |= helper->query_number >= 0;
}

uint64_t helper_patience_ms(const struct helper *helper, uint64_t deadline_ms)
{
    return helper->is_up ? deadline_ms : HELPER_START_DEADLINES * deadline_ms;
}

bool helper_line(struct helper *helper, struct str *line)
{
    while (helper->used < helper->pending.len) {
        const char *begin = helper->pending.at + helper->used;
        const char *end = memchr(begin, '\n', helper->pending.len - helper->used);
        if (!end)
            return false;
        *line = (struct str){begin, (size_t)(end - begin)};
        helper->used += line->len + 1;
        if (line->len > 0 && line->at[0] != '?') {
            helper->is_up = true;
            return true;
        }
        if (line->len > 0)
            note_query(helper, *line);
    }
    return false;
}

/*
 * The descriptor may be readable before the process can be reaped (while a tracer still holds it).
 */
bool helper_reap(pid_t pid, uint64_t wait_ms)
{
    uint64_t end_ms = clock_now_ms() + wait_ms, now_ms;
    if (waitpid(pid, NULL, WNOHANG) != 0)
        return true;
    cleanup_fd int pid_fd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd poll_fd = {.fd = pid_fd, .events = POLLIN};
    while ((now_ms = clock_now_ms()) < end_ms) {
        bool is_over = pid_fd >= 0 && poll(&poll_fd, 1, (int)(end_ms - now_ms)) > 0;
        if (waitpid(pid, NULL, WNOHANG) != 0)
            return true;
        if (is_over || pid_fd < 0)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return false;
}

pid_t helper_stop(struct helper *helper, uint64_t wait_ms)
{
    pid_t left = 0;
    if (helper->pid > 0) {
        kill(helper->pid, SIGKILL);
        left = helper_reap(helper->pid, wait_ms) ? 0 : helper->pid;
    }
    fd_close(&helper->out_fd);
    fd_close(&helper->hold_fd);
    buf_release(&helper->pending);
    *helper = (struct helper)HELPER_INIT;
    return left;
}
