/* SPDX-License-Identifier: Apache-2.0
 *
 * One worker under its guard: what is reported, what it inherits, what it does not.
 */
#include "kit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "proc/guard.h"

enum {
    REPORTS_MAX = 8,
    WORDS_MAX = 8
};

static struct {
    const char *guard, *zoo; /* set by main */
} programs;

struct outcome {
    struct guard_report reports[REPORTS_MAX];
    size_t n_reports;
    struct buf out; /* what the worker wrote to stdout */
    int guard_status;
};

static void pipe_open(int *read_end, int *write_end)
{
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    *read_end = fds[0];
    *write_end = fds[1];
}

static struct spawn_opts zoo_opts(const char *argv[WORDS_MAX + 2], const char *const *words)
{
    struct spawn_opts opts = SPAWN_OPTS_INIT;
    size_t n = 0;
    argv[n++] = programs.zoo;
    for (; words[n - 1]; n++)
        argv[n] = words[n - 1];
    argv[n] = NULL;
    opts.guard_path = programs.guard;
    opts.argv = argv;
    opts.grace_ms = 300;
    return opts;
}

static void spawn(struct guard *guard, const struct spawn_opts *opts)
{
    struct err err = {0};
    if (guard_spawn(guard, opts, &err) != 0)
        fail_msg("%s", err.text);
}

/* The next report; fails the test if none comes. False: the guard has ended. */
static bool next_report(struct guard *guard, struct guard_report *report)
{
    struct pollfd poll_fd = {.fd = guard->report_fd, .events = POLLIN};
    if (poll(&poll_fd, 1, DEADLINE_MS) != 1)
        fail_msg("no report from the guard");
    return guard_read(guard, report, NULL) > 0;
}

static void await(struct guard *guard, enum guard_report_kind kind, struct guard_report *report)
{
    while (next_report(guard, report))
        if (report->kind == (int32_t)kind)
            return;
    fail_msg("the guard ended without report %d", (int)kind);
}

/* All reports until the guard's end, and its end. */
static void drain(struct guard *guard, struct outcome *outcome)
{
    while (outcome->n_reports < REPORTS_MAX &&
           next_report(guard, &outcome->reports[outcome->n_reports]))
        outcome->n_reports++;
    pid_t pid = guard->pid;
    if (!WAIT_UNTIL(!is_alive(pid)))
        kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &outcome->guard_status, 0), pid);
    guard_close(guard);
}

/* Run to the end with stdout in a pipe; the caller releases outcome->out. */
static struct outcome run(struct spawn_opts opts)
{
    struct outcome outcome = {0};
    struct guard guard = GUARD_INIT;
    int from_worker;
    pipe_open(&from_worker, &opts.stdout_fd);
    spawn(&guard, &opts);
    close(opts.stdout_fd);
    char block[4096];
    for (ssize_t got; (got = read(from_worker, block, sizeof(block))) > 0;)
        buf_add(&outcome.out, block, (size_t)got);
    close(from_worker);
    drain(&guard, &outcome);
    return outcome;
}

static void the_end_of_a_worker_is_reported_as_it_was(void **state)
{
    (void)state;
    static const struct {
        const char *words[WORDS_MAX];
        int exit_code, exit_signal;
    } cases[] = {
        {{"exit", "0"}, 0, 0},         {{"exit", "7"}, 7, 0},        {{"exit", "255"}, 255, 0},
        {{"raise", "11"}, 0, SIGSEGV}, {{"raise", "9"}, 0, SIGKILL}, {{"raise", "15"}, 0, SIGTERM},
        {{"raise", "13"}, 0, SIGPIPE}, {{"raise", "6"}, 0, SIGABRT},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        const char *argv[WORDS_MAX + 2];
        struct outcome outcome = run(zoo_opts(argv, cases[i].words));
        assert_int_equal(outcome.n_reports, 3);
        assert_int_equal(outcome.reports[0].kind, GUARD_STARTED);
        assert_int_equal(outcome.reports[1].kind, GUARD_EXITED);
        assert_int_equal(outcome.reports[1].exit_code, cases[i].exit_code);
        assert_int_equal(outcome.reports[1].exit_signal, cases[i].exit_signal);
        assert_true(outcome.reports[1].rss_peak_bytes > 0);
        assert_int_equal(outcome.reports[2].kind, GUARD_GONE);
        assert_int_equal(outcome.reports[2].value, 0);
        assert_int_equal(outcome.guard_status, 0);
        buf_release(&outcome.out);
    }
}

static char *file_new(const char *folder, const char *name, const char *text, mode_t mode)
{
    char *path = path_join(folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, mode);
    assert_true(fd >= 0);
    assert_int_equal(write_all(fd, text, strlen(text), NULL), 0);
    close(fd);
    return path;
}

static void a_worker_that_cannot_start_is_reported_with_errno_and_stage(void **state)
{
    (void)state;
    char *folder = folder_new();
    char *plain = file_new(folder, "plain", "#!/bin/sh\n", 0644);
    char *script = file_new(folder, "script", "echo no first line\n", 0755);
    char *lost = file_new(folder, "lost", "#!/nonexistent/python\n", 0755);
    char *path = xasprintf("PATH=/nonexistent:%s:/usr/bin:/bin", folder);
    const struct {
        const char *command, *cwd;
        int stage, sys;
    } cases[] = {
        {"no-such-program", NULL, STAGE_EXEC, ENOENT},
        {"/no/such/program", NULL, STAGE_EXEC, ENOENT},
        {"", NULL, STAGE_EXEC, ENOENT},
        {"plain", NULL, STAGE_EXEC, EACCES},
        {plain, NULL, STAGE_EXEC, EACCES},
        {"script", NULL, STAGE_EXEC, ENOEXEC},
        {script, NULL, STAGE_EXEC, ENOEXEC},
        {lost, NULL, STAGE_EXEC, ENOENT},
        {"/", NULL, STAGE_EXEC, EACCES},
        {"true", "/no/such/folder", STAGE_CHDIR, ENOENT},
        {"true", plain, STAGE_CHDIR, ENOTDIR},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct spawn_opts opts = SPAWN_OPTS_INIT;
        opts.guard_path = programs.guard;
        opts.argv = (const char *const[]){cases[i].command, NULL};
        opts.envp = (const char *const[]){path, NULL};
        opts.cwd = cases[i].cwd;
        struct outcome outcome = run(opts);
        if (outcome.n_reports != 1 || outcome.reports[0].kind != GUARD_EXEC_FAILED ||
            outcome.reports[0].stage != cases[i].stage || outcome.reports[0].value != cases[i].sys)
            fail_msg("\"%s\": %zu reports, kind %d stage %d value %d, expected stage %d value %d",
                     cases[i].command, outcome.n_reports, outcome.reports[0].kind,
                     outcome.reports[0].stage, outcome.reports[0].value, cases[i].stage,
                     cases[i].sys);
        buf_release(&outcome.out);
    }
    free(plain), free(script), free(lost), free(path);
    folder_free(folder);
}

static void a_missing_guard_is_an_error_that_names_it(void **state)
{
    SKIP_UNDER_VALGRIND();
    (void)state;
    struct guard guard = GUARD_INIT;
    struct err err = {0};
    struct spawn_opts opts = SPAWN_OPTS_INIT;
    opts.guard_path = "/nonexistent/muster-guard";
    opts.argv = (const char *const[]){"true", NULL};
    assert_int_equal(guard_spawn(&guard, &opts, &err), ERR_SYS);
    assert_int_equal(err.sys, ENOENT);
    assert_non_null(strstr(err.text, "start true: guard /nonexistent/muster-guard"));
    assert_int_equal(guard.pid, -1);
    assert_int_equal(guard.control_fd, -1);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void a_worker_starts_with_a_clean_slate(void **state)
{
    (void)state;
    const char *argv[WORDS_MAX + 2];
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(0, &cpus);
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR2);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    signal(SIGPIPE, SIG_IGN);
    const struct {
        const char *words[WORDS_MAX];
        const char *cwd, *out;
    } cases[] = {
        {{"signals", ""}, NULL, "end\n"},
        {{"cwd", ""}, "/usr", "/usr\n"},
        {{"cpus", ""}, NULL, "0 "},
        {{"say", "TINT", "say", "PATH"}, NULL, "green\n(unset)\n"},
        {{"cat", ""}, NULL, ""}, /* stdin of -1 is /dev/null */
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct spawn_opts opts = zoo_opts(argv, cases[i].words);
        opts.cwd = cases[i].cwd;
        opts.cpus = &cpus;
        opts.envp = (const char *const[]){"TINT=green", NULL};
        struct outcome outcome = run(opts);
        assert_string_equal(buf_text(&outcome.out), cases[i].out);
        buf_release(&outcome.out);
    }
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_UNBLOCK, &blocked, NULL);
}

static void cores_that_a_worker_may_not_use_are_not_insisted_on(void **state)
{
    (void)state;
    const char *argv[WORDS_MAX + 2], *const words[WORDS_MAX] = {"cpus", ""};
    cpu_set_t allowed, cpus;
    assert_int_equal(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
    struct buf wanted = BUF_INIT;
    for (size_t i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &allowed))
            buf_addf(&wanted, "%zu ", i);
    CPU_ZERO(&cpus);
    CPU_SET(CPU_SETSIZE - 1, &cpus);
    struct spawn_opts opts = zoo_opts(argv, words);
    opts.cpus = &cpus;
    struct outcome outcome = run(opts);
    assert_string_equal(buf_text(&outcome.out), buf_text(&wanted));
    buf_release(&outcome.out);
    buf_release(&wanted);
}

/* Muster under muster: the marker of the outer one stays before ours. */
static void the_marker_names_every_muster_above(void **state)
{
    (void)state;
    const char *argv[WORDS_MAX + 2];
    struct spawn_opts opts = zoo_opts(argv, (const char *const[]){"say", "MUSTER_GUARD", NULL});
    opts.envp = (const char *const[]){"MUSTER_GUARD=1.2", NULL};
    struct outcome outcome = run(opts);
    char *expected = xasprintf("1.2,%d.", (int)getpid());
    assert_int_equal(strncmp(buf_text(&outcome.out), expected, strlen(expected)), 0);
    free(expected);
    buf_release(&outcome.out);
}

static void no_descriptor_leaks_into_the_worker(void **state)
{
    (void)state;
    /* Not close-on-exec, as a careless library leaves them, on low and high numbers. */
    int leaked[] = {open("/dev/null", O_RDONLY), open("/dev/null", O_RDONLY),
                    fcntl(0, F_DUPFD, 500)};
    for (int with_channel = 0; with_channel <= 1; with_channel++) {
        const char *argv[WORDS_MAX + 2];
        struct spawn_opts opts = zoo_opts(argv, (const char *const[]){"list-fds", "", NULL});
        opts.channel_fd = with_channel ? leaked[0] : -1;
        struct outcome outcome = run(opts);
        assert_string_equal(buf_text(&outcome.out), with_channel ? "0 1 2 3 " : "0 1 2 ");
        buf_release(&outcome.out);
    }
    for (size_t i = 0; i < countof(leaked); i++)
        close(leaked[i]);
}

/* A lock that muster shares with a guard lasts as long as what the guard watches, and nobody else has it. */
static void a_held_lock_outlives_muster_and_not_its_worker(void **state)
{
    (void)state;
    char path[] = "/tmp/muster-test-held-XXXXXX";
    const char *argv[WORDS_MAX + 2];
    struct guard guard = GUARD_INIT;
    struct outcome outcome = {0};
    struct guard_report report;
    int locked = mkostemp(path, O_CLOEXEC), looking = open(path, O_RDONLY | O_CLOEXEC);
    unlink(path);
    assert_int_equal(flock(locked, LOCK_EX), 0);
    struct spawn_opts opts =
        zoo_opts(argv, (const char *const[]){"list-fds", "", "sleep", "", NULL});
    opts.held_fds = (int[]){locked, looking};
    opts.n_held_fds = 2;
    opts.grace_ms = 60000;
    int from_worker;
    char block[64] = "";
    pipe_open(&from_worker, &opts.stdout_fd);
    spawn(&guard, &opts);
    close(opts.stdout_fd);
    await(&guard, GUARD_STARTED, &report);
    assert_true(read(from_worker, block, sizeof(block) - 1) > 0);
    assert_string_equal(block, "0 1 2 ");
    close(locked);
    assert_int_equal(flock(looking, LOCK_EX | LOCK_NB), -1);
    guard_kill(&guard);
    drain(&guard, &outcome);
    assert_int_equal(flock(looking, LOCK_EX | LOCK_NB), 0);
    close(looking);
    close(from_worker);
}

/* Sources that lie on each other's targets: stdin is 2, stdout 0, stderr 1, the channel 4. */
static void descriptors_may_overlap_their_targets(void **state)
{
    (void)state;
    int to_worker, from_worker, in, out, status;
    pipe_open(&in, &to_worker);
    pipe_open(&from_worker, &out);
    pid_t pid = fork(); /* so that the test's own 0, 1 and 2 stay */
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR);
        int high_in = fcntl(in, F_DUPFD, 100), high_out = fcntl(out, F_DUPFD, 100);
        close(in), close(out), close(to_worker), close(from_worker);
        dup2(high_in, 2), dup2(high_out, 0), dup2(null, 1), dup2(null, 4);
        close(high_in), close(high_out);
        const char *argv[WORDS_MAX + 2];
        struct spawn_opts opts = zoo_opts(argv, (const char *const[]){"cat", "", NULL});
        opts.stdin_fd = 2, opts.stdout_fd = 0, opts.stderr_fd = 1, opts.channel_fd = 4;
        struct guard guard = GUARD_INIT;
        if (guard_spawn(&guard, &opts, NULL) != 0)
            _exit(1);
        close(0), close(2);
        _exit(waitpid(guard.pid, NULL, 0) == guard.pid ? 0 : 2);
    }
    close(in), close(out);
    assert_int_equal(write(to_worker, "through", 7), 7);
    close(to_worker);
    char text[16] = "";
    assert_int_equal(read(from_worker, text, sizeof(text) - 1), 7);
    assert_string_equal(text, "through");
    assert_int_equal(read(from_worker, text, sizeof(text)), 0);
    close(from_worker);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void end_of_file_travels_both_ways_and_not_through_the_guard(void **state)
{
    (void)state;
    const char *argv[WORDS_MAX + 2];
    struct spawn_opts opts =
        zoo_opts(argv, (const char *const[]){"cat", "", "close", "1", "sleep", "", NULL});
    struct guard guard = GUARD_INIT;
    struct outcome outcome = {0};
    int to_worker, from_worker;
    pipe_open(&opts.stdin_fd, &to_worker);
    pipe_open(&from_worker, &opts.stdout_fd);
    spawn(&guard, &opts);
    close(opts.stdin_fd);
    close(opts.stdout_fd);
    char text[8];
    assert_int_equal(write(to_worker, "ab", 2), 2);
    assert_int_equal(read(from_worker, text, sizeof(text)), 2);
    close(to_worker); /* the worker's cat ends, then it closes stdout and lives on */
    struct pollfd poll_fd = {.fd = from_worker, .events = POLLIN};
    assert_int_equal(poll(&poll_fd, 1, DEADLINE_MS), 1);
    assert_int_equal(read(from_worker, text, sizeof(text)), 0);
    close(from_worker);
    guard_kill(&guard);
    drain(&guard, &outcome);
    assert_int_equal(outcome.reports[1].exit_signal, SIGKILL);
}

static void orders_do_what_they_say(void **state)
{
    SKIP_UNDER_VALGRIND(); /* it does not know pidfd_send_signal(2) */
    static const struct {
        const char *words[WORDS_MAX];
        void (*order)(struct guard *);
        int exit_signal;
        int before; /* a signal the worker gets first; 0: none */
    } cases[] = {
        {{"sleep", ""}, guard_terminate, SIGTERM, 0},
        {{"sleep", ""}, guard_dismiss, SIGTERM, 0},
        {{"sleep", ""}, guard_terminate, SIGTERM, SIGSTOP},
        {{"sleep", ""}, guard_kill, SIGKILL, SIGSTOP},
        {{"ignore", "15", "sleep", ""}, guard_terminate, SIGKILL, 0},
        {{"sleep", ""}, guard_close, SIGTERM, 0},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        const char *argv[WORDS_MAX + 2];
        char *folder = folder_new(), *pids = path_join(folder, "pids");
        const char *words[WORDS_MAX] = {0};
        size_t n = 0;
        for (; cases[i].words[n + 2]; n++)
            words[n] = cases[i].words[n];
        memcpy(words + n, (const char *[]){"pid", pids, "sleep", "", NULL}, 5 * sizeof(*words));
        struct spawn_opts opts = zoo_opts(argv, words);
        struct guard guard = GUARD_INIT;
        struct outcome outcome = {0};
        pid_t written[PIDS_MAX];
        opts.guard_stays = cases[i].order == guard_dismiss;
        spawn(&guard, &opts);
        assert_true(WAIT_UNTIL(pids_read(folder, "pids", written) == 1));
        kill(written[0], cases[i].before);
        pid_t guard_pid = guard.pid;
        if (cases[i].order == guard_close) {
            guard_close(&guard);
            assert_true(WAIT_UNTIL(!is_alive(written[0]) && !is_alive(guard_pid)));
            assert_int_equal(waitpid(guard_pid, NULL, 0), guard_pid);
        } else {
            cases[i].order(&guard);
            drain(&guard, &outcome);
            assert_int_equal(outcome.reports[1].exit_signal, cases[i].exit_signal);
        }
        free(pids);
        folder_free(folder);
    }
}

/* Nobody adopts here: only the parent-death signal can have ended it. */
static void a_worker_dies_with_its_guard(void **state)
{
    (void)state;
    const char *argv[WORDS_MAX + 2];
    struct spawn_opts opts = zoo_opts(argv, (const char *const[]){"sleep", "", NULL});
    struct guard guard = GUARD_INIT;
    struct guard_report report;
    spawn(&guard, &opts);
    await(&guard, GUARD_STARTED, &report);
    assert_int_equal(guard.worker_pid, report.value);
    assert_true(is_alive(guard.worker_pid));
    kill(guard.pid, SIGKILL);
    assert_true(WAIT_UNTIL(!is_alive(guard.worker_pid)));
    assert_int_equal(waitpid(guard.pid, NULL, 0), guard.pid);
    guard_close(&guard);
}

static void an_order_to_a_dead_guard_is_harmless(void **state)
{
    (void)state;
    const char *argv[WORDS_MAX + 2];
    struct spawn_opts opts = zoo_opts(argv, (const char *const[]){"exit", "0", NULL});
    struct guard guard = GUARD_INIT;
    struct guard_report report;
    spawn(&guard, &opts);
    await(&guard, GUARD_GONE, &report);
    assert_int_equal(waitpid(guard.pid, NULL, 0), guard.pid);
    guard_terminate(&guard); /* would be SIGPIPE on a pipe */
    guard_kill(&guard);
    struct err err = {0};
    assert_true(guard_read(&guard, &report, &err) < 0);
    assert_non_null(strstr(err.text, "has ended"));
    guard_close(&guard);
}

/* Starts a worker under a guard that stays, and reads what it prints. */
static void next_run(struct guard *guard, struct spawn_opts opts, struct guard_report *last,
                     struct buf *out)
{
    char block[4096];
    int from_worker;
    opts.guard_stays = true;
    pipe_open(&from_worker, &opts.stdout_fd);
    if (guard->pid < 0)
        spawn(guard, &opts);
    else
        assert_int_equal(guard_start(guard, &opts, NULL), 0);
    close(opts.stdout_fd);
    buf_reset(out);
    for (ssize_t got; (got = read(from_worker, block, sizeof(block))) > 0;)
        buf_add(out, block, (size_t)got);
    close(from_worker);
    while (next_report(guard, last) && last->kind != GUARD_GONE && last->kind != GUARD_EXEC_FAILED)
        ;
}

static void guard_let_go(struct guard *guard)
{
    pid_t pid = guard->pid;
    int status;
    guard_close(guard);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* Each has streams, a folder, an environment and a command of its own, and nothing of the one before. */
static void a_guard_that_stays_starts_one_worker_after_the_other(void **state)
{
    (void)state;
    char *folder = folder_new(), *pids = path_join(folder, "pids");
    const struct {
        const char *words[WORDS_MAX];
        const char *cwd, *entry, *out;
        int kind, value;
    } cases[] = {
        {{"say", "TINT"}, NULL, "TINT=green", "green\n", GUARD_GONE, 0},
        {{"grandchild", pids, "exit", "3"}, NULL, "TINT=red", "", GUARD_GONE, 1},
        {{"list-fds", ""}, NULL, "TINT=red", "0 1 2 ", GUARD_GONE, 0},
        {{"cwd", ""}, "/usr", "TINT=red", "/usr\n", GUARD_GONE, 0},
        {{"cwd", ""}, "/no/such", "TINT=red", "", GUARD_EXEC_FAILED, ENOENT},
        {{"say", "TINT"}, NULL, "OTHER=1", "(unset)\n", GUARD_GONE, 0},
    };
    struct guard guard = GUARD_INIT;
    struct buf out = BUF_INIT;
    for (size_t i = 0; i < countof(cases); i++) {
        const char *argv[WORDS_MAX + 2];
        struct guard_report last;
        struct spawn_opts opts = zoo_opts(argv, cases[i].words);
        opts.cwd = cases[i].cwd;
        opts.envp = (const char *const[]){cases[i].entry, NULL};
        next_run(&guard, opts, &last, &out);
        assert_int_equal(last.kind, cases[i].kind);
        assert_int_equal(last.value, cases[i].value);
        assert_string_equal(buf_text(&out), cases[i].out);
    }
    guard_let_go(&guard);
    buf_release(&out);
    free(pids);
    folder_free(folder);
}

/* Longer than a message may be. */
static void a_worker_may_have_long_arguments_and_a_long_environment(void **state)
{
    (void)state;
    const size_t n = 100000;
    const char *argv[WORDS_MAX + 2];
    char *entry = xcalloc(n + 1, 1);
    struct guard guard = GUARD_INIT;
    struct guard_report last;
    struct buf out = BUF_INIT;
    memset(entry, 'x', n);
    memcpy(entry, "TINT=", 5);
    const char *const words[] = {"say", "TINT", "say", entry, NULL};
    struct spawn_opts opts = zoo_opts(argv, words);
    opts.envp = (const char *const[]){entry, NULL};
    for (int i = 0; i < 2; i++) {
        next_run(&guard, opts, &last, &out);
        assert_int_equal(out.len, n - 5 + 1 + strlen("(unset)\n"));
        assert_int_equal(memcmp(out.at, entry + 5, n - 5), 0);
    }
    guard_let_go(&guard);
    buf_release(&out);
    free(entry);
}

/* It may come late: the next worker must not pay for it. */
static void an_order_for_a_worker_that_is_gone_does_not_reach_the_next(void **state)
{
    (void)state;
    const char *argv[WORDS_MAX + 2];
    struct spawn_opts opts = zoo_opts(argv, (const char *const[]){"exit", "0", NULL});
    struct guard guard = GUARD_INIT;
    struct outcome outcome = {0};
    struct guard_report report;
    opts.guard_stays = true;
    spawn(&guard, &opts);
    await(&guard, GUARD_GONE, &report);
    guard_terminate(&guard);
    guard_kill(&guard);
    opts = zoo_opts(argv, (const char *const[]){"exit", "7", NULL});
    assert_int_equal(guard_start(&guard, &opts, NULL), 0);
    drain(&guard, &outcome);
    assert_int_equal(outcome.n_reports, 3);
    assert_int_equal(outcome.reports[1].exit_code, 7);
}

/* A lock of one worker's device is not held while the next one runs, or none. */
static void a_guard_that_stays_lets_go_of_the_locks_of_a_worker_that_is_gone(void **state)
{
    (void)state;
    char path[] = "/tmp/muster-test-held-XXXXXX";
    const char *argv[WORDS_MAX + 2];
    struct guard guard = GUARD_INIT;
    struct guard_report report;
    int locked = mkostemp(path, O_CLOEXEC), looking = open(path, O_RDONLY | O_CLOEXEC);
    unlink(path);
    assert_int_equal(flock(locked, LOCK_EX), 0);
    struct spawn_opts opts = zoo_opts(argv, (const char *const[]){"exit", "0", NULL});
    opts.held_fds = &locked;
    opts.n_held_fds = 1;
    opts.guard_stays = true;
    spawn(&guard, &opts);
    await(&guard, GUARD_GONE, &report);
    close(locked);
    assert_int_equal(flock(looking, LOCK_EX | LOCK_NB), 0);
    assert_true(is_alive(guard.pid));
    close(looking);
    guard_let_go(&guard);
}

/* Orders to it fail from now on, while its own end of the socket stays open. */
static int orders_break(struct guard *guard)
{
    int ends[2], its = dup(guard->control_fd);
    assert_true(its >= 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    close(ends[1]);
    assert_true(dup3(ends[0], guard->control_fd, O_CLOEXEC) >= 0);
    close(ends[0]);
    return its;
}

static void an_order_that_cannot_be_sent_is_carried_out_all_the_same(void **state)
{
    SKIP_UNDER_VALGRIND(); /* it does not know pidfd_send_signal(2) */
    for (int forced = 0; forced <= 1; forced++) {
        const char *argv[WORDS_MAX + 2];
        struct spawn_opts opts = zoo_opts(argv, (const char *const[]){"sleep", "", NULL});
        struct guard guard = GUARD_INIT;
        struct outcome outcome = {0};
        opts.grace_ms = 3600 * 1000;
        spawn(&guard, &opts);
        assert_true(next_report(&guard, &outcome.reports[0]));
        pid_t worker = guard.worker_pid;
        int its = orders_break(&guard);
        (forced ? guard_kill : guard_terminate)(&guard);
        drain(&guard, &outcome);
        assert_true(WAIT_UNTIL(!is_alive(worker)));
        if (!forced) { /* the guard itself lives on to tell */
            assert_int_equal(outcome.n_reports, 2);
            assert_int_equal(outcome.reports[0].exit_signal, SIGTERM);
            assert_int_equal(outcome.reports[1].kind, GUARD_GONE);
            assert_int_equal(outcome.guard_status, 0);
        }
        close(its);
    }
}

static void what_a_worker_leaves_behind_is_ended_and_counted(void **state)
{
    (void)state;
    char *folder = folder_new(), *pids = path_join(folder, "pids");
    const char *argv[WORDS_MAX + 2];
    struct spawn_opts opts = zoo_opts(
        argv, (const char *const[]){"grandchild", pids, "daemon", pids, "exit", "3", NULL});
    opts.stdout_fd = opts.stderr_fd = -1;
    struct guard guard = GUARD_INIT;
    struct outcome outcome = {0};
    spawn(&guard, &opts);
    drain(&guard, &outcome);
    assert_int_equal(outcome.reports[1].exit_code, 3);
    assert_int_equal(outcome.reports[2].kind, GUARD_GONE);
    assert_in_range(outcome.reports[2].value, 2, 3); /* 3: the daemon's parent had not ended yet */
    pid_t written[PIDS_MAX];
    size_t n = pids_read(folder, "pids", written);
    for (size_t i = 0; i < n; i++)
        assert_false(is_alive(written[i]));
    free(pids);
    folder_free(folder);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    programs.guard = path_absolute(argv[1]);
    programs.zoo = path_absolute(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_end_of_a_worker_is_reported_as_it_was),
        cmocka_unit_test(a_worker_that_cannot_start_is_reported_with_errno_and_stage),
        cmocka_unit_test(a_missing_guard_is_an_error_that_names_it),
        cmocka_unit_test(a_worker_starts_with_a_clean_slate),
        cmocka_unit_test(cores_that_a_worker_may_not_use_are_not_insisted_on),
        cmocka_unit_test(the_marker_names_every_muster_above),
        cmocka_unit_test(no_descriptor_leaks_into_the_worker),
        cmocka_unit_test(a_held_lock_outlives_muster_and_not_its_worker),
        cmocka_unit_test(descriptors_may_overlap_their_targets),
        cmocka_unit_test(end_of_file_travels_both_ways_and_not_through_the_guard),
        cmocka_unit_test(orders_do_what_they_say),
        cmocka_unit_test(a_worker_dies_with_its_guard),
        cmocka_unit_test(an_order_to_a_dead_guard_is_harmless),
        cmocka_unit_test(a_guard_that_stays_starts_one_worker_after_the_other),
        cmocka_unit_test(a_worker_may_have_long_arguments_and_a_long_environment),
        cmocka_unit_test(an_order_for_a_worker_that_is_gone_does_not_reach_the_next),
        cmocka_unit_test(a_guard_that_stays_lets_go_of_the_locks_of_a_worker_that_is_gone),
        cmocka_unit_test(an_order_that_cannot_be_sent_is_carried_out_all_the_same),
        cmocka_unit_test(what_a_worker_leaves_behind_is_ended_and_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
