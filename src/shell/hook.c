/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/ignored_signals.h"
#include "base/talk.h"
#include "core/verdict.h"
#include "shell/shell_impl.h"

enum {
    SAME_SIGNAL_MS =
        200 /* a signal that comes again so soon is the same one, handed on by a front */
};

/* A command of --on-finish that runs. */
struct hook {
    pid_t pid;
    /*
     * Without a terminal the command has a process group of its own, and signals that end muster are handed on to it.
     * With a terminal it stays in muster's group, which it needs to use the terminal, and gets the terminal's signals
     * anyway.
     */
    bool has_group;
};

static bool has_terminal(void)
{
    cleanup_fd int fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    return fd >= 0;
}

static void attributes_set(posix_spawnattr_t *attributes, bool has_group, const sigset_t *mask)
{
    sigset_t ignored, theirs = *mask;
    signals_ignored(&ignored);
    sigdelset(&theirs, SIGUSR1); /* blocked since the loop was closed */
    posix_spawnattr_init(attributes);
    posix_spawnattr_setsigdefault(attributes, &ignored);
    posix_spawnattr_setsigmask(attributes, &theirs);
    posix_spawnattr_setpgroup(attributes, 0);
    int group = has_group ? POSIX_SPAWN_SETPGROUP : 0;
    posix_spawnattr_setflags(attributes,
                             (short)(POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | group));
}

/* Starts the command with this file as its standard input. Returns an errno. */
static int hook_start(const char *command, int input_fd, const sigset_t *mask, struct hook *hook)
{
    const char *argv[] = {"sh", "-c", command, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input_fd, STDIN_FILENO);
    hook->has_group = !has_terminal();
    attributes_set(&attributes, hook->has_group, mask);
    int rc = posix_spawn(&hook->pid, "/bin/sh", &actions, &attributes,
                         (char *const *)(uintptr_t)argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return rc;
}

/* Waits for the command. The first signal is handed on to it; a later one kills it. Returns the wait status. */
static int hook_await(const struct hook *hook, const sigset_t *heard)
{
    int status = 0;
    uint64_t told_ms = 0; /* 0: not yet */
    for (;;) {
        siginfo_t info;
        pid_t got = waitpid(hook->pid, &status, WNOHANG);
        if (got == hook->pid || (got < 0 && errno != EINTR))
            return status;
        int number = sigwaitinfo(heard, &info);
        bool is_of_terminal = info.si_code > 0 && !hook->has_group;
        if (number <= 0 || number == SIGCHLD || is_of_terminal ||
            (told_ms > 0 && clock_now_ms() < told_ms + SAME_SIGNAL_MS))
            continue;
        /* The command was not reaped yet, so the pid is still its own. */
        kill(hook->has_group ? -hook->pid : hook->pid, told_ms > 0 ? SIGKILL : number);
        told_ms = clock_now_ms();
    }
}

/* The signals that end muster, without those that it ignores, as under nohup. */
static void heard_set(sigset_t *heard)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    sigemptyset(heard);
    sigaddset(heard, SIGCHLD);
    for (size_t i = 0; i < countof(ends); i++) {
        struct sigaction now;
        if (sigaction(ends[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(heard, ends[i]);
    }
}

static void end_say(int status)
{
    char end[24];
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (code == 0 && number == 0)
        return;
    exit_format(end, code, number);
    talk("--on-finish: the command ended with %s", end);
}

/* A file, not a pipe: muster need not wait for a command that does not read. */
static int input_open(struct str input, int *fd, struct err *err)
{
    *fd = memfd_create("muster-summary", MFD_CLOEXEC);
    if (*fd < 0)
        return fail_errno(err, "make its input");
    int rc = write_all(*fd, input.at, input.len, err);
    return rc == 0 && lseek(*fd, 0, SEEK_SET) != 0 ? fail_errno(err, "make its input") : rc;
}

static void hook_run(const char *command, struct str input)
{
    cleanup_fd int input_fd = -1;
    sigset_t heard, before;
    struct err err = {0};
    struct hook hook;
    if (input_open(input, &input_fd, &err) != 0) {
        talk("--on-finish: %s", err.text);
        return;
    }
    heard_set(&heard);
    sigprocmask(SIG_BLOCK, &heard, &before);
    int rc = hook_start(command, input_fd, &before, &hook);
    if (rc == 0)
        end_say(hook_await(&hook, &heard));
    else
        talk("--on-finish: %s", errno_text(rc));
    sigprocmask(SIG_SETMASK, &before, NULL);
}

struct buf *shell_hook_input(struct shell *shell)
{
    return shell->hook.command ? &shell->hook.input : NULL;
}

void shell_hook_run(struct shell *shell)
{
    if (shell->hook.command && shell->hook.input.len > 0)
        hook_run(shell->hook.command, buf_str(&shell->hook.input));
    buf_release(&shell->hook.input);
}
