/* SPDX-License-Identifier: Apache-2.0
 *
 * What is seen of processes that do something, and of those that do not.
 */
#include <alloca.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/test.h"

#include "base/attr.h"
#include "base/clock.h"
#include "proc/stand.h"

static pid_t begin(void (*what)(void))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    what();
    _exit(0);
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void wait_still(void)
{
    while (true)
        pause();
}

static void wait_deeper(void)
{
    volatile char *space = alloca(4096);
    space[0] = space[4095] = 1;
    wait_still();
}

static void spin(void)
{
    for (volatile unsigned long n = 0;; n++)
        ;
}

static void read_much(void)
{
    char bytes[4096];
    FILE *zero = fopen("/dev/zero", "re");
    while (zero && fread(bytes, sizeof(bytes), 1, zero) == 1)
        ;
}

static void wait_for_child(void)
{
    waitpid(begin(wait_still), NULL, 0);
}

static struct proc_stand look(pid_t pid)
{
    struct proc_stand stand;
    proc_stands_read(&pid, 1, &stand);
    return stand;
}

/* Until the condition on `stand`, the latest look at `pid`, holds; at most ten seconds. */
#define UNTIL(pid, stand, condition)                \
    do {                                            \
        uint64_t until_ms = clock_now_ms() + 10000; \
        do {                                        \
            usleep(5000);                           \
            (stand) = look(pid);                    \
            assert_true(clock_now_ms() < until_ms); \
        } while (!(condition));                     \
    } while (0)

static void who_works_uses_time_and_who_reads_bytes(void **state)
{
    (void)state;
    pid_t still = begin(wait_still), busy = begin(spin), reader = begin(read_much);
    struct proc_stand first, later;
    UNTIL(still, first, first.state == 'S');
    UNTIL(busy, later, later.cpu_ms >= 50);
    struct proc_stand io = look(reader);
    if (io.io_bytes > 0)
        UNTIL(reader, later, later.io_bytes > io.io_bytes + (1 << 20));
    later = look(still);
    assert_int_equal(later.cpu_ms, first.cpu_ms);
    assert_int_equal(later.family, first.family);
    assert_int_equal(later.pid, still);
    assert_int_equal(strncmp(later.place, "sleeps", 6), 0);
    assert_false(later.is_blocked);
    end(still);
    end(busy);
    end(reader);
    later = look(still);
    assert_int_equal(later.state, 0);
    assert_string_equal(later.place, "");
}

static void a_child_that_comes_makes_another_family_and_is_where_its_parent_stands(void **state)
{
    (void)state;
    pid_t parent = begin(wait_for_child);
    struct proc_stand stand;
    UNTIL(parent, stand, stand.pid != parent);
    struct proc_stand both = stand;
    kill(both.pid, SIGKILL);
    UNTIL(parent, stand, stand.family != both.family);
    end(parent);
}

static void who_is_stopped_or_traced_is_seen(void **state)
{
    (void)state;
    pid_t pid = begin(wait_still);
    struct proc_stand stand;
    kill(pid, SIGSTOP);
    UNTIL(pid, stand, stand.state == 'T');
    kill(pid, SIGCONT);
    if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) == 0) {
        UNTIL(pid, stand, stand.tracer == getpid());
        ptrace(PTRACE_DETACH, pid, NULL, NULL);
    }
    end(pid);
}

static void depths_are_those_of_the_calls(void **state)
{
    (void)state;
    SKIP_UNDER_VALGRIND(); /* the kernel sees its stack */
    pid_t one = begin(wait_still), other = begin(wait_still), deeper = begin(wait_deeper);
    struct proc_stand a, b, c;
    UNTIL(one, a, a.state == 'S');
    UNTIL(other, b, b.state == 'S');
    UNTIL(deeper, c, c.state == 'S');
    assert_int_equal(a.depth, b.depth);
    if (a.depth > 0) /* else the kernel does not show it */
        assert_in_range(c.depth, a.depth + 2048, a.depth + 16384);
    end(one);
    end(other);
    end(deeper);
}

static void threads_are_listed_within_bounds(void **state)
{
    (void)state;
    SKIP_UNDER_VALGRIND(); /* the processes have its name */
    pid_t parent = begin(wait_for_child);
    struct proc_stand stand;
    char first[32], second[32];
    struct buf text = BUF_INIT;
    UNTIL(parent, stand, stand.pid != parent);
    snprintf(first, sizeof(first), "pid %d: test_stand ", (int)parent);
    snprintf(second, sizeof(second), "\npid %d: test_stand ", (int)stand.pid);
    proc_threads_add(&text, parent, 4096);
    assert_int_equal(strncmp(buf_text(&text), first, strlen(first)), 0);
    assert_non_null(strstr(buf_text(&text), second));
    size_t len = text.len;
    buf_reset(&text);
    proc_threads_add(&text, parent, len - 1);
    assert_null(strstr(buf_text(&text), second));
    buf_reset(&text);
    proc_threads_add(&text, parent, 5);
    assert_int_equal(text.len, 0);
    end(stand.pid);
    end(parent);
    buf_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_works_uses_time_and_who_reads_bytes),
        cmocka_unit_test(a_child_that_comes_makes_another_family_and_is_where_its_parent_stands),
        cmocka_unit_test(who_is_stopped_or_traced_is_seen),
        cmocka_unit_test(depths_are_those_of_the_calls),
        cmocka_unit_test(threads_are_listed_within_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
