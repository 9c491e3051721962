/* SPDX-License-Identifier: Apache-2.0
 *
 * The interpreter that a worker would get: its version, and those of packages, from their metadata. Nothing is imported
 * but Python's own modules, because importing torch takes seconds.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fs.h"
#include "doctor/checks.h"

enum {
    ANSWER_MAX_BYTES = 8192
};

static const char *const packages[] = {
#define X(name) #name,
    PYTHON_PACKAGES(X)
#undef X
};

static const char script[] = "import sys\n"
                             "print(sys.version.split()[0])\n"
                             "print(sys.executable)\n"
                             "try:\n"
                             "    from importlib.metadata import version\n"
                             "except ImportError:\n"
                             "    version = lambda name: ''\n"
                             "for name in sys.argv[1:]:\n"
                             "    try:\n"
                             "        print(version(name))\n"
                             "    except Exception:\n"
                             "        print()\n";

const char *python_package_name(size_t package)
{
    return packages[package];
}

static void program_execute(const char *program, int out_fd)
{
    const char *argv[4 + countof(packages)] = {program, "-c", script};
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (size_t i = 0; i < countof(packages); i++)
        argv[3 + i] = packages[i];
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* the task's deadline ends its process */
    dup2(null_fd, STDIN_FILENO);
    dup2(null_fd, STDERR_FILENO);
    dup2(out_fd, STDOUT_FILENO);
    execvp(program, (char *const *)(uintptr_t)argv);
    _exit(127);
}

static void answer_read(int fd, struct buf *out)
{
    char piece[4096];
    ssize_t got;
    while (out->len < ANSWER_MAX_BYTES && (got = read(fd, piece, sizeof(piece))) > 0)
        buf_add(out, piece, (size_t)got);
}

static void line_take(struct str *rest, char *out, size_t size)
{
    struct str line;
    out[0] = '\0';
    if (rest->len > 0 && str_next(rest, '\n', &line))
        snprintf(out, size, "%.*s", (int)line.len, line.at);
}

void python_gather(const char *program, struct python_facts *out)
{
    cleanup_buf struct buf answer = BUF_INIT;
    int ends[2], wait_status;
    *out = (struct python_facts){0};
    if (pipe2(ends, O_CLOEXEC) != 0)
        return;
    pid_t pid = fork();
    if (pid == 0)
        program_execute(program, ends[1]);
    close(ends[1]);
    if (pid > 0) {
        answer_read(ends[0], &answer);
        kill(pid, SIGKILL);
        (void)waitpid(pid, &wait_status, 0);
    }
    close(ends[0]);
    struct str rest = buf_str(&answer);
    line_take(&rest, out->version, sizeof(out->version));
    line_take(&rest, out->path, sizeof(out->path));
    for (size_t i = 0; i < countof(packages); i++)
        line_take(&rest, out->packages[i], sizeof(out->packages[i]));
}
