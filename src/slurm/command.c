/* SPDX-License-Identifier: Apache-2.0 */
#include "slurm/command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/ignored_signals.h"
#include "base/xalloc.h"

enum {
    ASK_MS = 20000, /* a busy controller takes seconds */
    /*
     * A killed sbatch may still have submitted its job. So sbatch gets time for several tries of its own
     * (MessageTimeout is 10 s by default).
     */
    SUBMIT_MS = 120000,
    ANSWER_MAX_BYTES = 16 << 20,
    OUT = 0,
    ERRORS = 1,
    PIPES = 2
};

struct child {
    pid_t pid;
    int fds[PIPES]; /* -1: the stream has ended */
};

static int pipes_make(int ends[PIPES][2], struct err *err)
{
    for (int i = 0; i < PIPES; i++)
        ends[i][0] = ends[i][1] = -1;
    for (int i = 0; i < PIPES; i++)
        if (pipe2(ends[i], O_CLOEXEC) != 0)
            return fail_errno(err, "make a pipe");
    return 0;
}

/* The signals that this process blocks or ignores are neither in the command, which may be a script of the site. */
static void attributes_init(posix_spawnattr_t *attributes)
{
    sigset_t none, ignored;
    sigemptyset(&none);
    signals_ignored(&ignored);
    posix_spawnattr_init(attributes);
    posix_spawnattr_setsigmask(attributes, &none);
    posix_spawnattr_setsigdefault(attributes, &ignored);
    posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

static int child_spawn(const char *const *argv, char *const *envp, int ends[PIPES][2],
                       struct child *child, struct err *err)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[OUT][1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[ERRORS][1], STDERR_FILENO);
    attributes_init(&attributes);
    int sys = posix_spawnp(&child->pid, argv[0], &actions, &attributes,
                           (char *const *)(uintptr_t)argv, envp);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (sys == ENOENT)
        return fail(err, ERR_UNAVAILABLE,
                    "there is no Slurm here: %s is not in PATH; it is where jobs are submitted, "
                    "on a login node",
                    argv[0]);
    return sys ? fail(err, ERR_UNAVAILABLE, "run %s: %s", argv[0], errno_text(sys)) : 0;
}

/* Reads a piece of one stream. Returns false when both streams have ended, or on a failure. */
static bool piece_read(struct child *child, int left_ms, struct buf *const into[PIPES])
{
    struct pollfd ends[PIPES];
    char piece[8192];
    for (int i = 0; i < PIPES; i++)
        ends[i] = (struct pollfd){.fd = child->fds[i], .events = POLLIN};
    int n_ready = poll(ends, PIPES, left_ms);
    if (n_ready < 0)
        return errno == EINTR;
    for (int i = 0; i < PIPES && n_ready > 0; i++) {
        if (!ends[i].revents)
            continue;
        ssize_t got = read(child->fds[i], piece, sizeof(piece));
        if (got <= 0)
            fd_close(&child->fds[i]);
        else if (into[i]->len < ANSWER_MAX_BYTES)
            buf_add(into[i], piece, (size_t)got);
    }
    return child->fds[OUT] >= 0 || child->fds[ERRORS] >= 0;
}

/* Returns false if the command does not end in time. */
static bool child_read(struct child *child, uint64_t longest_ms, struct buf *const into[PIPES])
{
    uint64_t until_ms = clock_now_ms() + longest_ms;
    for (uint64_t now_ms; (now_ms = clock_now_ms()) < until_ms;)
        if (!piece_read(child, (int)(until_ms - now_ms), into))
            return true;
    return false;
}

static struct str without(struct str line, struct str beginning)
{
    size_t n = str_starts_with(line, beginning) ? beginning.len : 0;
    return (struct str){line.at + n, line.len - n};
}

/* Adds what the command said, in one line, without beginnings such as "sbatch: error: ". */
static void words_add(const char *name, struct str said, struct buf *out)
{
    cleanup_free char *speaker = xasprintf("%s: ", name);
    struct str line;
    while (said.len > 0 && str_next(&said, '\n', &line)) {
        line = without(str_trim(line), str_of(speaker));
        line = without(without(line, STR("error: ")), STR("fatal: "));
        if (line.len == 0)
            continue;
        buf_add_text(out, out->len > 0 ? "; " : "");
        buf_add_str(out, line);
    }
}

static int child_judge(const char *name, int wait_status, struct str said, struct err *err)
{
    cleanup_buf struct buf words = BUF_INIT;
    if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0)
        return 0;
    words_add(name, said, &words);
    if (words.len > 0)
        return fail(err, ERR_UNAVAILABLE, "%s: %s", name, buf_text(&words));
    return fail(err, ERR_UNAVAILABLE, "%s ended with status %d", name,
                WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status));
}

static int child_finish(const char *name, struct child *child, uint64_t longest_ms, struct buf *out,
                        struct err *err)
{
    cleanup_buf struct buf errors = BUF_INIT;
    struct buf *const into[PIPES] = {out, &errors};
    int wait_status = 0;
    bool is_in_time = child_read(child, longest_ms, into);
    if (!is_in_time)
        kill(child->pid, SIGKILL);
    while (waitpid(child->pid, &wait_status, 0) < 0 && errno == EINTR)
        ;
    return is_in_time ? child_judge(name, wait_status, buf_str(&errors), err)
                      : fail(err, ERR_UNAVAILABLE, "%s has not answered for %d s", name,
                             (int)(longest_ms / 1000));
}

static int run(const char *const *argv, char *const *envp, uint64_t longest_ms, struct buf *out,
               struct err *err)
{
    int ends[PIPES][2];
    struct child child = {.fds = {-1, -1}};
    int rc = pipes_make(ends, err);
    if (rc == 0)
        rc = child_spawn(argv, envp, ends, &child, err);
    for (int i = 0; i < PIPES; i++) {
        child.fds[i] = ends[i][0];
        fd_close(&ends[i][1]);
    }
    if (rc == 0)
        rc = child_finish(argv[0], &child, longest_ms, out, err);
    for (int i = 0; i < PIPES; i++)
        fd_close(&child.fds[i]);
    return rc;
}

static uint64_t patience_ms(const char *const *argv)
{
    return strcmp(argv[0], "sbatch") == 0 ? SUBMIT_MS : ASK_MS;
}

int slurm_command(const char *const *argv, struct buf *out, struct err *err)
{
    return run(argv, environ, patience_ms(argv), out, err);
}

int slurm_command_in(const char *const *argv, const struct env_list *env, uint64_t longest_ms,
                     struct buf *out, struct err *err)
{
    return run(argv, env->at, longest_ms > 0 ? longest_ms : patience_ms(argv), out, err);
}
