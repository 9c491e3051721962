/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/xalloc.h"
#include "doctor/doctor.h"
#include "doctor/task.h"

struct sheet {
    int number;
    char filler[200000]; /* more than a pipe holds */
    int last;
};

enum {
    LONG_MS = 60000,
    SHORT_MS = 100
};

static void answer(const void *context, void *facts)
{
    struct sheet *sheet = facts;
    sheet->number = *(const int *)context;
    sheet->last = sheet->number + 1;
}

static void hang(const void *context, void *facts)
{
    (void)context;
    ((struct sheet *)facts)->number = 99;
    for (;;)
        pause();
}

static void crash(const void *context, void *facts)
{
    (void)context, (void)facts;
    raise(SIGKILL);
}

/* A killed process whose memory is large takes a moment to end. */
static void no_child_is_left(void)
{
    const uint64_t until_ms = clock_now_ms() + LONG_MS;
    pid_t pid;
    while ((pid = waitpid(-1, NULL, WNOHANG)) >= 0 && clock_now_ms() < until_ms)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    assert_int_equal(pid, -1);
}

static void facts_come_whole(void **state)
{
    (void)state;
    struct sheet *sheet = xcalloc(1, sizeof(*sheet));
    struct task task;
    int context = 41;
    task_begin(&task, answer, &context, sheet, sizeof(*sheet));
    assert_true(task_end(&task, clock_now_ms() + LONG_MS));
    assert_int_equal(sheet->number, 41);
    assert_int_equal(sheet->last, 42);
    no_child_is_left();
    free(sheet);
}

static void who_is_silent_is_not_waited_for(void **state)
{
    (void)state;
    struct sheet *sheets = xcalloc(2, sizeof(*sheets));
    struct task silent, dead;
    task_begin(&silent, hang, NULL, &sheets[0], sizeof(*sheets));
    task_begin(&dead, crash, NULL, &sheets[1], sizeof(*sheets));
    uint64_t begin_ms = clock_now_ms();
    assert_false(task_end(&silent, begin_ms + SHORT_MS));
    assert_false(task_end(&dead, begin_ms + LONG_MS));
    assert_true(clock_now_ms() - begin_ms < LONG_MS / 2);
    assert_int_equal(sheets[0].number, 0);
    no_child_is_left();
    assert_false(task_end(&silent, clock_now_ms() + LONG_MS));
    free(sheets);
}

static void without_a_child_the_facts_come_all_the_same(void **state)
{
    (void)state;
    SKIP_UNDER_VALGRIND();
    struct sheet *sheet = xcalloc(1, sizeof(*sheet));
    struct rlimit before, none;
    struct task task;
    int context = 7;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    task_begin(&task, answer, &context, sheet, sizeof(*sheet));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(task.pid, 0);
    assert_true(task_end(&task, clock_now_ms()));
    assert_int_equal(sheet->last, 8);
    free(sheet);
}

static void checks_are_found_by_name(void **state)
{
    (void)state;
    size_t check = 0;
    struct err err = {0};
    for (size_t i = 0; i < checks_count(); i++) {
        assert_int_equal(check_find(check_name(i), &check, &err), 0);
        assert_int_equal(check, i);
    }
    assert_int_equal(check_find("shn", &check, &err), ERR_USAGE);
    assert_non_null(strstr(err.text, "did you mean 'shm'"));
}

static void the_worst_is_the_first_of_its_kind(void **state)
{
    (void)state;
    static const struct trouble bad = {FINDING_FAIL, "a", "b"}, odd = {FINDING_WARN, "c", "d"};
    struct findings findings = {.check = "shm"};
    struct buf object = BUF_INIT;
    assert_null(findings_worst(&findings));
    found_ok(&findings, "%d", 1);
    assert_string_equal(findings_worst(&findings)->found, "1");
    found(&findings, &odd, "", "%d", 2);
    found(&findings, &bad, "gpu \"3\"", "%d", 3);
    found(&findings, &bad, "", "%d", 4);
    assert_string_equal(findings_worst(&findings)->found, "3");
    assert_int_equal(findings_count(&findings, FINDING_FAIL), 2);
    finding_format_json(findings_worst(&findings), &object);
    assert_string_equal(buf_text(&object),
                        "{\"check\":\"shm\",\"level\":\"fail\",\"subject\":\"gpu \\\"3\\\"\","
                        "\"found\":\"3\",\"means\":\"a\",\"cure\":\"b\"}");
    buf_release(&object);
    findings_release(&findings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(facts_come_whole),
        cmocka_unit_test(who_is_silent_is_not_waited_for),
        cmocka_unit_test(without_a_child_the_facts_come_all_the_same),
        cmocka_unit_test(checks_are_found_by_name),
        cmocka_unit_test(the_worst_is_the_first_of_its_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
