/* SPDX-License-Identifier: Apache-2.0
 *
 * Which processes are seen to wait for input, and which are not, though one of theirs reads.
 */
#include "unit/test.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/attr.h"
#include "base/clock.h"
#include "proc/stdin_wait.h"

struct reader {
    pid_t pid;
    int input; /* our end of its pipe */
};

static struct reader reader_start(const char *script)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    struct reader reader = {.input = ends[1]};
    reader.pid = fork();
    assert_true(reader.pid >= 0);
    if (reader.pid == 0) {
        setpgid(0, 0);
        dup2(ends[0], 0);
        execl("/bin/sh", "sh", "-c", script, (char *)NULL);
        _exit(127);
    }
    setpgid(reader.pid, reader.pid);
    close(ends[0]);
    return reader;
}

static void reader_end(struct reader *reader)
{
    kill(-reader->pid, SIGKILL);
    waitpid(reader->pid, NULL, 0);
    close(reader->input);
}

/* True: within limit_ms the reader was seen to wait for its standard input. */
static bool waits_within(const struct reader *reader, uint64_t limit_ms)
{
    uint64_t end_ms = clock_now_ms() + limit_ms;
    while (!proc_waits_for_stdin(reader->pid, reader->input)) {
        if (clock_now_ms() > end_ms)
            return false;
        usleep(2000);
    }
    return true;
}

enum {
    LONG_MS = 20000,
    SHORT_MS = 200
};

/* Where /proc/PID/syscall or the lists of children are not shown, nothing is ever seen to rest. */
static bool kernel_shows_it(void)
{
    struct reader reader = reader_start("exec cat");
    bool shows = waits_within(&reader, LONG_MS);
    reader_end(&reader);
    return shows;
}

static void whoever_reads_alone_rests(void **state)
{
    (void)state;
    static const char *const scripts[] = {
        "exec cat >/dev/null",
        "cat >/dev/null; true",                               /* below one that waits for it */
        "sh -c 'sh -c \"cat >/dev/null; true\"; true'; true", /* below several */
        "while read -r line; do sleep 0.01; done",
    };
    if (!kernel_shows_it())
        skip();
    for (size_t i = 0; i < countof(scripts); i++) {
        struct reader reader = reader_start(scripts[i]);
        assert_int_equal(write(reader.input, "1\n2\n", 4), 4);
        if (!waits_within(&reader, LONG_MS))
            fail_msg("not seen to rest: %s", scripts[i]);
        reader_end(&reader);
    }
}

static void whoever_may_still_print_does_not_rest(void **state)
{
    (void)state;
    static const char *const scripts[] = {
        "cat | sh -c 'cat >/dev/null; sleep 100'", /* two stages: one reads while the other works */
        "sleep 100 & exec cat >/dev/null",         /* a child that works */
        "exec sleep 100",                          /* it reads nothing */
        "while read -r line; do sleep 100; done",  /* it is at an item */
        "exec cat </dev/zero >/dev/null",          /* it reads something else */
        "while :; do :; done",
    };
    for (size_t i = 0; i < countof(scripts); i++) {
        struct reader reader = reader_start(scripts[i]);
        assert_int_equal(write(reader.input, "1\n", 2), 2);
        usleep(50000);
        if (waits_within(&reader, SHORT_MS))
            fail_msg("seen to rest: %s", scripts[i]);
        reader_end(&reader);
    }
}

static void a_process_that_is_gone_does_not_rest(void **state)
{
    (void)state;
    struct reader reader = reader_start("exec true");
    waitpid(reader.pid, NULL, 0);
    assert_false(proc_waits_for_stdin(reader.pid, reader.input));
    assert_true(proc_is_at_work(reader.pid));
    close(reader.input);
}

static void whoever_computes_or_sleeps_is_at_work_and_no_reader_is(void **state)
{
    (void)state;
    static const struct {
        const char *script;
        bool works;
    } cases[] = {
        {"while :; do :; done", true},
        {"exec sleep 100", true},
        {"sleep 100; true", true}, /* below one that waits for it */
    };
    if (!kernel_shows_it())
        skip();
    for (size_t i = 0; i < countof(cases); i++) {
        struct reader reader = reader_start(cases[i].script);
        uint64_t end_ms = clock_now_ms() + LONG_MS;
        usleep(20000);
        while (proc_is_at_work(reader.pid) != cases[i].works && clock_now_ms() < end_ms)
            usleep(2000);
        if (proc_is_at_work(reader.pid) != cases[i].works)
            fail_msg("seen %s work: %s", cases[i].works ? "not to" : "to", cases[i].script);
        reader_end(&reader);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whoever_reads_alone_rests),
        cmocka_unit_test(whoever_may_still_print_does_not_rest),
        cmocka_unit_test(a_process_that_is_gone_does_not_rest),
        cmocka_unit_test(whoever_computes_or_sleeps_is_at_work_and_no_reader_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
