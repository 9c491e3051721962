/* SPDX-License-Identifier: Apache-2.0
 *
 * What is too long, too much or no text.
 */
#include "../test.h"

#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "list_helpers.h"

static void a_line_that_is_no_text_is_refused_with_its_number(void **state)
{
    struct graph_list_wish wish = {.takes_input = true, .input_fd = bytes_open(STR("a\nb\n\0c\n"))};
    struct plan plan;
    struct err err;
    (void)state;
    assert_int_equal(graph_list_read(&wish, &plan, &err), ERR_DATA);
    assert_string_equal(err.text, "stdin: line 3 has a NUL byte, but must be text");
    close(wish.input_fd);

    cleanup_buf struct buf text = BUF_INIT;
    buf_add_text(&text, "# b\n");
    for (size_t i = 0; i < LIST_LINE_BYTES_MAX; i++)
        buf_add_char(&text, '#');
    wish.input_fd = bytes_open(buf_str(&text));
    assert_int_equal(graph_list_read(&wish, &plan, &err), 0);
    assert_int_equal(plan.n_jobs, 0);
    plan_release(&plan);
    close(wish.input_fd);
    buf_add_char(&text, '#');
    wish.input_fd = bytes_open(buf_str(&text));
    assert_int_equal(graph_list_read(&wish, &plan, &err), ERR_DATA);
    assert_string_equal(err.text, "stdin: line 2 has more than 1048576 bytes");
    close(wish.input_fd);
}

static void a_word_that_execve_refuses_is_refused_before_anything_runs(void **state)
{
    cleanup_buf struct buf word = BUF_INIT;
    const char *words[] = {"e", ":::", "a", NULL};
    struct graph_list_wish wish = {.words = words, .n_words = countof(words)};
    struct plan plan;
    struct err err;
    (void)state;
    for (size_t i = 0; i < LIST_WORD_BYTES_MAX; i++)
        buf_add_char(&word, '{'); /* twice as long in the template */
    words[3] = buf_text(&word);
    assert_int_equal(graph_list_read(&wish, &plan, NULL), 0);
    plan_release(&plan);
    buf_add_char(&word, '{');
    words[3] = buf_text(&word);
    assert_int_equal(graph_list_read(&wish, &plan, &err), ERR_USAGE);
    assert_string_equal(err.text,
                        "job 2: a word of the command has more than 131071 bytes, which "
                        "is what the system takes at most; pass what is longer in a file");
    /* 7 MiB in 70 words */
    cleanup_free const char **many = xcalloc(72, sizeof(*many));
    word.at[100000] = '\0';
    for (size_t i = 0; i < 70; i++)
        many[i] = i > 0 ? "{}" : "e";
    many[70] = ":::";
    many[71] = word.at;
    wish = (struct graph_list_wish){.words = many, .n_words = 72};
    assert_int_equal(graph_list_read(&wish, &plan, &err), ERR_USAGE);
    assert_non_null(strstr(err.text, "job 1: the command has more than 6291456 bytes"));
    wish.is_shell = true;
    assert_int_equal(graph_list_read(&wish, &plan, &err), ERR_USAGE);
    assert_non_null(strstr(err.text, "job 1: a word of the command has more than"));
}

static void a_million_jobs_are_the_most(void **state)
{
    size_t n = PLAN_JOBS_MAX;
    cleanup_free const char **words = xcalloc(n + 3, sizeof(*words));
    struct graph_list_wish wish = {.words = words, .n_words = n + 2};
    struct plan plan;
    struct err err;
    (void)state;
    words[0] = "echo";
    words[1] = ":::";
    for (size_t i = 0; i <= n; i++)
        words[2 + i] = "lr=3"; /* looks like a source with a name until the command is read */
    assert_int_equal(graph_list_read(&wish, &plan, NULL), 0);
    assert_int_equal(plan.n_jobs, PLAN_JOBS_MAX);
    assert_string_equal(plan.jobs[PLAN_JOBS_MAX - 1].name, "job/1000000");
    assert_string_equal(plan.jobs[PLAN_JOBS_MAX - 1].argv[1], "lr=3");
    plan_release(&plan);
    wish.n_words++;
    assert_int_equal(graph_list_read(&wish, &plan, &err), ERR_USAGE);
    assert_string_equal(err.text,
                        "the sources of arguments make more than 1000000 jobs; split the list");
}

static void products_and_sources_without_bound_are_refused(void **state)
{
    const char *words[2 * LIST_SOURCES_MAX + 3] = {"echo"};
    struct graph_list_wish wish = {.words = words};
    struct plan plan;
    struct err err;
    (void)state;
    for (size_t i = 0; i <= LIST_SOURCES_MAX; i++) {
        words[1 + 2 * i] = ":::";
        words[2 + 2 * i] = "a";
    }
    wish.n_words = 2 * LIST_SOURCES_MAX + 1;
    assert_int_equal(graph_list_read(&wish, &plan, &err), 0);
    assert_int_equal(plan.n_jobs, 1);
    plan_release(&plan);
    wish.n_words += 2;
    assert_int_equal(graph_list_read(&wish, &plan, &err), ERR_USAGE);
    assert_non_null(strstr(err.text, "more than 1000 sources"));
    /* 2^64 + … jobs */
    for (size_t i = 0; i < 64; i++)
        for (size_t k = 0; k < 3; k++)
            words[1 + 3 * i + k] = k == 0 ? ":::" : "a";
    wish.n_words = 1 + 3 * 64;
    assert_int_equal(graph_list_read(&wish, &plan, &err), ERR_USAGE);
    assert_non_null(strstr(err.text, "more than 1000000 jobs"));
}

static void commands_that_would_fill_the_memory_are_refused(void **state)
{
    SKIP_UNDER_VALGRIND();
    SKIP_UNDER_ASAN();
    cleanup_buf struct buf word = BUF_INIT, lines = BUF_INIT;
    for (size_t i = 0; i < 100000; i++)
        buf_add_char(&word, 'x');
    for (size_t i = 0; i < 20000; i++)
        buf_add_text(&lines, "a\n");
    const char *words[] = {"echo", ":::", buf_text(&word), "::::", "-"};
    struct graph_list_wish wish = {
        .words = words, .n_words = countof(words), .input_fd = bytes_open(buf_str(&lines))};
    struct plan plan;
    struct err err;
    assert_int_equal(graph_list_read(&wish, &plan, &err), ERR_USAGE);
    assert_non_null(strstr(err.text, "fill 1073741824 bytes"));
    close(wish.input_fd);
}

static void an_endless_input_is_refused(void **state)
{
    const char *words[] = {"echo", "::::", "/dev/zero", "/dev/zero"};
    struct graph_list_wish wish = {.words = words, .n_words = countof(words)};
    struct plan plan;
    struct err err;
    (void)state;
    assert_int_equal(graph_list_read(&wish, &plan, &err), ERR_USAGE);
    assert_string_equal(err.text, "/dev/zero is larger than 268435456 bytes");

    cleanup_buf struct buf lines = BUF_INIT;
    buf_reserve(&lines, LIST_LINE_BYTES_MAX);
    memset(lines.at, 'a', LIST_LINE_BYTES_MAX);
    lines.at[LIST_LINE_BYTES_MAX - 1] = '\n';
    buf_extend(&lines, LIST_LINE_BYTES_MAX);
    cleanup_fd int fd = bytes_open(buf_str(&lines));
    for (size_t i = 1; i < 130; i++)
        assert_int_equal(write_all(fd, lines.at, lines.len, NULL), 0);
    char path[32];
    snprintf(path, sizeof(path), "/dev/fd/%d", fd);
    words[2] = words[3] = path; /* 130 MiB, which is read from its beginning */
    assert_int_equal(graph_list_read(&wish, &plan, &err), ERR_USAGE);
    assert_non_null(strstr(err.text, "have more than 268435456 bytes; split the list"));
}

static void columns_have_bounds(void **state)
{
    cleanup_buf struct buf line = BUF_INIT;
    struct plan plan;
    struct err err;
    (void)state;
    for (size_t i = 0; i < 1000; i++)
        buf_add_char(&line, ',');
    struct graph_list_wish wish = {.takes_input = true, .separator = ","};
    wish.input_fd = bytes_open(buf_str(&line));
    assert_int_equal(graph_list_read(&wish, &plan, &err), ERR_USAGE);
    assert_non_null(strstr(err.text, "there are 1001 columns"));
    close(wish.input_fd);
    wish.separator = "";
    wish.input_fd = bytes_open(STR("a"));
    assert_int_equal(graph_list_read(&wish, &plan, &err), ERR_USAGE);
    assert_non_null(strstr(err.text, "the separator of columns is empty"));
    close(wish.input_fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_that_is_no_text_is_refused_with_its_number),
        cmocka_unit_test(a_word_that_execve_refuses_is_refused_before_anything_runs),
        cmocka_unit_test(a_million_jobs_are_the_most),
        cmocka_unit_test(products_and_sources_without_bound_are_refused),
        cmocka_unit_test(commands_that_would_fill_the_memory_are_refused),
        cmocka_unit_test(an_endless_input_is_refused),
        cmocka_unit_test(columns_have_bounds),
    };
    return cmocka_run_group_tests_name("graph list bounds", tests, NULL, NULL);
}
