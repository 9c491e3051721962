/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/talk.h"
#include "shell/shell_impl.h"

/* Signals that this process ignores must not be ignored by another program: its pipes would not end with
 * their readers. */
static void signals_default(posix_spawnattr_t *attributes)
{
    sigset_t ignored;
    sigemptyset(&ignored);
    sigaddset(&ignored, SIGPIPE);
    sigaddset(&ignored, SIGXFSZ);
    posix_spawnattr_init(attributes);
    posix_spawnattr_setsigdefault(attributes, &ignored);
    posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGDEF);
}

static void hook_run(const char *command, struct str input)
{
    const char *argv[] = {"sh", "-c", command, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int ends[2];
    pid_t pid;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        talk("--on-finish: %s", errno_text(errno));
        return;
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO);
    signals_default(&attributes);
    int rc = posix_spawn(&pid, "/bin/sh", &actions, &attributes, (char *const *)(uintptr_t)argv,
                         environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[0]);
    if (rc == 0 && write_all(ends[1], input.at, input.len, NULL) != 0)
        talk("--on-finish did not read its input");
    close(ends[1]);
    if (rc == 0)
        waitpid(pid, NULL, 0);
    else
        talk("--on-finish: %s", errno_text(rc));
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
