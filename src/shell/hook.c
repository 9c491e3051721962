/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/talk.h"
#include "core/verdict.h"
#include "shell/shell_impl.h"

/* Signals that this process ignores must not be ignored by another program: its pipes would not end with
 * their readers. It has a process group of its own, to which the signals are handed on that end muster. */
static void attributes_set(posix_spawnattr_t *attributes, const sigset_t *mask)
{
    sigset_t ignored;
    sigemptyset(&ignored);
    sigaddset(&ignored, SIGPIPE);
    sigaddset(&ignored, SIGXFSZ);
    sigset_t theirs = *mask;
    sigdelset(&theirs, SIGUSR1); /* blocked since the loop was closed */
    posix_spawnattr_init(attributes);
    posix_spawnattr_setsigdefault(attributes, &ignored);
    posix_spawnattr_setsigmask(attributes, &theirs);
    posix_spawnattr_setpgroup(attributes, 0);
    posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK |
                                             POSIX_SPAWN_SETPGROUP);
}

/* Starts the command with this file as its standard input. Returns an errno. */
static int hook_start(const char *command, int input_fd, const sigset_t *mask, pid_t *pid)
{
    const char *argv[] = {"sh", "-c", command, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input_fd, STDIN_FILENO);
    attributes_set(&attributes, mask);
    int rc =
        posix_spawn(pid, "/bin/sh", &actions, &attributes, (char *const *)(uintptr_t)argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return rc;
}

/* The first signal is handed on, and what comes after it kills the command. Returns the wait status. */
static int hook_await(pid_t pid, const sigset_t *heard)
{
    int status = 0;
    bool was_told = false;
    for (;;) {
        pid_t got = waitpid(pid, &status, WNOHANG);
        if (got == pid || (got < 0 && errno != EINTR))
            return status;
        int number = sigwaitinfo(heard, NULL);
        if (number <= 0 || number == SIGCHLD)
            continue;
        killpg(pid, was_told ? SIGKILL : number); /* not waited for yet, so the group is its own */
        was_told = true;
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

/* A file, not a pipe: a command that does not read it holds up nobody. */
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
    pid_t pid;
    if (input_open(input, &input_fd, &err) != 0) {
        talk("--on-finish: %s", err.text);
        return;
    }
    sigemptyset(&heard);
    sigaddset(&heard, SIGINT);
    sigaddset(&heard, SIGTERM);
    sigaddset(&heard, SIGHUP);
    sigaddset(&heard, SIGCHLD);
    sigprocmask(SIG_BLOCK, &heard, &before);
    int rc = hook_start(command, input_fd, &before, &pid);
    if (rc == 0)
        end_say(hook_await(pid, &heard));
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
