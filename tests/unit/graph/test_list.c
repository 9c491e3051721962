/* SPDX-License-Identifier: Apache-2.0 */
#include "../test.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "list_helpers.h"

static void the_jobs_of_each_list_are_as_the_table_has_them(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(list_cases); i++) {
        const struct list_case *row = &list_cases[i];
        struct wish_of_case wish;
        struct plan plan;
        struct err err = {0};
        cleanup_buf struct buf text = BUF_INIT;
        wish_open(&wish, row);
        if (graph_list_read(&wish.wish, &plan, &err) != 0)
            fail_msg("%s: %s", row->words, err.text);
        plan_print(&text, &plan, row->is_shell);
        if (strcmp(buf_text(&text), row->jobs) != 0)
            fail_msg("%s\nfound    %s\nexpected %s", row->words, buf_text(&text), row->jobs);
        assert_int_equal(plan.n_stages, 1);
        assert_string_equal(plan.stages[0].name, "job");
        assert_int_equal(plan.stages[0].n_jobs, plan.n_jobs);
        plan_release(&plan);
        wish_close(&wish);
    }
}

/* The plan of these words; input NULL: none. */
static int words_read(const char *words, const char *input, struct plan *plan, struct err *err)
{
    struct wish_of_case wish;
    wish_open(&wish, &(struct list_case){.words = words, .input = input});
    int rc = graph_list_read(&wish.wish, plan, err);
    wish_close(&wish);
    return rc;
}

static void what_is_no_list_is_refused_with_the_reason(void **state)
{
    static const struct {
        const char *words, *input, *text;
        int code;
    } rows[] = {
        {"", NULL, "there is no command", ERR_USAGE},
        {"{}", NULL, "there is no command", ERR_USAGE},
        {"echo {3} ::: a ::: b", NULL, "{3}: there are 2 sources of arguments", ERR_USAGE},
        {"echo {-2} ::: a", NULL, "{-2}: there is 1 source of arguments", ERR_USAGE},
        {"echo {0.} ::: a", NULL, "{0.}: there is 1 source", ERR_USAGE},
        {"echo :::+ a", NULL, ":::+ links arguments to those before it", ERR_USAGE},
        {"echo ::: a ::::", NULL, "behind :::: must stand a file", ERR_USAGE},
        {"echo ::: a :::", NULL, "source 2 of arguments is empty", ERR_USAGE},
        {"echo ::: ::: a", NULL, "source 1 of arguments is empty", ERR_USAGE},
        {"echo ::: a :::+", NULL, "source 2 of arguments is empty", ERR_USAGE},
        {"echo :::: - -", "a\n", "stdin is read already", ERR_USAGE},
        {"echo :::: /nonexistent", NULL, "/nonexistent: No such file", ERR_USAGE},
        {"echo :::: /", NULL, "/: Is a directory", ERR_USAGE},
        {"echo {a} ::: a=1 b=2", NULL, "b=2: the command has no {b}", ERR_USAGE},
        {"echo {a} ::: a=1 a=2", NULL, "a=2: there is a source a already", ERR_USAGE},
        {"echo {a} ::: a=1 ::: a=2", NULL, "a=2: there is a source a already", ERR_USAGE},
    };
    (void)state;
    for (size_t i = 0; i < countof(rows); i++) {
        struct plan plan;
        struct err err = {0};
        int rc = words_read(rows[i].words, rows[i].input, &plan, &err);
        if (rc != rows[i].code || !strstr(err.text, rows[i].text))
            fail_msg("%s: found %d \"%s\", expected %d \"%s\"", rows[i].words, rc, err.text,
                     rows[i].code, rows[i].text);
    }
}

static void the_template_has_double_braces_where_the_run_fills_nothing_in(void **state)
{
    struct plan plan;
    (void)state;
    assert_int_equal(words_read("run {x} {gpu}-{} {run_dir} ::: '{job}' 'a}'", NULL, &plan, NULL),
                     0);
    assert_string_equal(plan.jobs[0].argv[1], "{{x}}");
    assert_string_equal(plan.jobs[0].argv[2], "{gpu}-{{job}}");
    assert_string_equal(plan.jobs[1].argv[2], "{gpu}-a}}");
    assert_string_equal(plan.jobs[1].argv[3], "{run_dir}");
    assert_null(plan.jobs[1].argv[4]);
    assert_ptr_equal(plan.jobs[0].argv[1], plan.jobs[1].argv[1]); /* is there once */
    plan_release(&plan);
    assert_int_equal(words_read("'run {x} {gpu} {}; ' ::: \"{it's}\"", NULL, &plan, NULL), 0);
    assert_string_equal(plan.jobs[0].argv[2], "run {{x}} {gpu} '{{it'\\''s}}'; ");
    plan_release(&plan);
    assert_int_equal(words_read("sh -c 'echo ${gpu} ${a} ${1}' {a} ::: a=1", NULL, &plan, NULL), 0);
    assert_string_equal(plan.jobs[0].argv[2], "echo ${{gpu}} ${{a}} $1"); /* as GNU parallel */
    plan_release(&plan);
    assert_int_equal(words_read("", "awk '{print {gpu}}'\n", &plan, NULL), 0);
    assert_string_equal(plan.jobs[0].argv[2], "awk '{{print {{gpu}}}}'");
    plan_release(&plan);
}

static void a_shell_gives_arguments_to_the_command_as_they_were(void **state)
{
    const char *words[] = {"printf '[%s]' {}; :",
                           ":::",
                           "a\nb",
                           ":::",
                           "'\"\\$HOME`id`",
                           ":::",
                           "",
                           ":::",
                           "\t*~",
                           ":::",
                           "\xff !x #"};
    struct graph_list_wish wish = {.words = words, .n_words = countof(words)};
    struct plan plan;
    cleanup_buf struct buf found = BUF_INIT;
    (void)state;
    assert_int_equal(graph_list_read(&wish, &plan, NULL), 0);
    FILE *pipe = popen(plan.jobs[0].argv[2], "re"); /* is sh -c; the text has no braces */
    assert_non_null(pipe);
    assert_int_equal(file_read_fd(fileno(pipe), "pipe", 1000, &found, NULL), 0);
    assert_int_equal(pclose(pipe), 0);
    assert_string_equal(buf_text(&found), "[a\nb]['\"\\$HOME`id`][][\t*~][\xff !x #]");
    plan_release(&plan);
}

static void jobs_are_named_by_number_or_by_named_arguments(void **state)
{
    struct plan plan;
    (void)state;
    assert_int_equal(words_read("e {} ::: x y", NULL, &plan, NULL), 0);
    assert_string_equal(plan.jobs[0].name, "job/1");
    assert_string_equal(plan.jobs[1].name, "job/2");
    plan_release(&plan);
    assert_int_equal(words_read("e {a} ::: a=1,x/y,1, ::: z", NULL, &plan, NULL), 0);
    assert_string_equal(plan.jobs[0].name, "job/a=1,z");
    assert_string_equal(plan.jobs[1].name, "job/2"); /* a separator */
    assert_string_equal(plan.jobs[2].name, "job/3"); /* the name of the first */
    assert_string_equal(plan.jobs[3].name, "job/a=,z");
    plan_release(&plan);
    cleanup_free char *words = xasprintf("e {a} ::: a=%0194d,%0195d", 1, 1);
    assert_int_equal(words_read(words, NULL, &plan, NULL), 0);
    assert_int_equal(strlen(plan.jobs[0].name), PLAN_NAME_BYTES_MAX);
    assert_string_equal(plan.jobs[1].name, "job/2");
    plan_release(&plan);
}

static void each_job_has_what_the_wish_says_of_all(void **state)
{
    static const char *const words[] = {"a", "b c", ":::", "d", "e"};
    struct graph_list_wish wish = {.words = words,
                                   .n_words = countof(words),
                                   .is_shell = true,
                                   .devices = {.n_min = 1, .n_max = 2, .mem_bytes = 3},
                                   .n_cpus = 4,
                                   .priority = -5,
                                   .n_retries = 6,
                                   .timeout_ms = 7,
                                   .cwd = "/tmp"};
    struct plan plan;
    (void)state;
    assert_int_equal(graph_list_read(&wish, &plan, NULL), 0);
    for (uint32_t i = 0; i < 2; i++) {
        const struct plan_job *job = &plan.jobs[i];
        assert_int_equal(job->kind, PLAN_RUN);
        assert_string_equal(job->argv[2], i == 0 ? "a b c d" : "a b c e");
        assert_memory_equal(&job->devices, &wish.devices, sizeof(wish.devices));
        assert_int_equal(job->n_cpus, 4);
        assert_int_equal(job->priority, -5);
        assert_int_equal(job->n_retries, 6);
        assert_int_equal(job->timeout_ms, 7);
        assert_string_equal(job->cwd, "/tmp");
        assert_ptr_not_equal(job->cwd, wish.cwd);
        assert_int_equal(job->n_needs + job->n_outs, 0);
    }
    plan_release(&plan);
}

static void a_fifo_is_read_as_a_file_is(void **state)
{
    char folder[] = "/tmp/test_list.XXXXXX";
    struct plan plan;
    (void)state;
    assert_non_null(mkdtemp(folder));
    cleanup_free char *fifo = path_join(folder, "fifo");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    pid_t writer = fork();
    if (writer == 0) {
        int fd = open(fifo, O_WRONLY);
        _exit(write_all(fd, "a\nb", 3, NULL) == 0 ? 0 : 1);
    }
    const char *words[] = {"e", "::::", fifo};
    struct graph_list_wish wish = {.words = words, .n_words = countof(words)};
    assert_int_equal(graph_list_read(&wish, &plan, NULL), 0);
    assert_int_equal(plan.n_jobs, 2);
    assert_string_equal(plan.jobs[1].argv[1], "b");
    plan_release(&plan);
    int status;
    assert_int_equal(waitpid(writer, &status, 0), writer);
    assert_int_equal(status, 0);
    assert_int_equal(remove_tree(folder, NULL), 0);
}

static void headers_are_names_of_one_source_each(void **state)
{
    static const struct {
        const char *words, *text;
    } rows[] = {
        {"e {a} ::: a 1 ::: a 2", "two sources of arguments have the name a"},
        {"e {a} ::: a 1 :::", "source 2 of arguments is empty: it has no header"},
        {"e {a} ::: a 1 ::: b", "source 2 of arguments is empty, and there are others"},
    };
    (void)state;
    for (size_t i = 0; i < countof(rows); i++) {
        struct wish_of_case wish;
        struct plan plan;
        struct err err;
        wish_open(&wish, &(struct list_case){.words = rows[i].words, .has_header = true});
        assert_int_equal(graph_list_read(&wish.wish, &plan, &err), ERR_USAGE);
        assert_non_null(strstr(err.text, rows[i].text));
        wish_close(&wish);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_jobs_of_each_list_are_as_the_table_has_them),
        cmocka_unit_test(what_is_no_list_is_refused_with_the_reason),
        cmocka_unit_test(the_template_has_double_braces_where_the_run_fills_nothing_in),
        cmocka_unit_test(a_shell_gives_arguments_to_the_command_as_they_were),
        cmocka_unit_test(jobs_are_named_by_number_or_by_named_arguments),
        cmocka_unit_test(each_job_has_what_the_wish_says_of_all),
        cmocka_unit_test(a_fifo_is_read_as_a_file_is),
        cmocka_unit_test(headers_are_names_of_one_source_each),
    };
    return cmocka_run_group_tests_name("graph list", tests, NULL, NULL);
}
