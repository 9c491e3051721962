/* SPDX-License-Identifier: Apache-2.0
 *
 * --detach: a run in the background, without its terminal.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/talk.h"
#include "shell/shell_impl.h"

/*
 * The child continues in a session of its own. The parent waits until the child is ready (a byte in the
 * pipe), so that errors in the request are reported on this terminal and by the parent's status.
 */
int shell_detach(const struct shell *shell, int *ready_fd, struct err *err)
{
    int ends[2], wait_status = 0;
    char byte;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return fail_errno(err, "leave the terminal");
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0)
        return fail_errno(err, "leave the terminal");
    if (pid == 0) {
        close(ends[0]);
        *ready_fd = ends[1];
        setsid();
        signal(SIGHUP, SIG_IGN);
        return 0;
    }
    close(ends[1]);
    ssize_t got;
    while ((got = read(ends[0], &byte, 1)) < 0 && errno == EINTR)
        ;
    if (got == 1) {
        if (!shell->display.is_quiet)
            talk("running as process %d; see: muster status --watch", (int)pid);
        _exit(0);
    }
    waitpid(pid, &wait_status, 0);
    if (WIFEXITED(wait_status)) /* the child had the terminal, and has printed why */
        _exit(WEXITSTATUS(wait_status));
    talk("the detached process was killed before the run began (signal %d)", WTERMSIG(wait_status));
    _exit(1);
}

void shell_detach_end(struct shell *shell, int ready_fd, bool keeps_stdin)
{
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (write_all(ready_fd, "r", 1, NULL) != 0)
        log_add(shell->log, LOG_WARN, shell->verb->name, "the terminal's side is gone already");
    close(ready_fd);
    for (int fd = keeps_stdin ? 1 : 0; fd <= 2 && null_fd >= 0; fd++)
        dup2(null_fd, fd);
    shell->display.is_quiet = true;
    shell->display.is_tty = false;
}
