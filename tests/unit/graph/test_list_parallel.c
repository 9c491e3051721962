/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of lists, and folders of results, compared with what GNU parallel makes of them. Where
 * it is not installed, nothing is compared: the tables are what it said when they were written
 * (version 20221122).
 */
#include "../test.h"

#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "list_helpers.h"

/* What a shell prints. */
static void shell_read(const char *command, struct buf *out)
{
    FILE *pipe = popen(command, "re");
    assert_non_null(pipe);
    assert_int_equal(file_read_fd(fileno(pipe), "pipe", 1 << 24, out, NULL), 0);
    assert_int_not_equal(pclose(pipe), -1);
}

/* moreutils has another program of this name. */
static bool has_parallel(void)
{
    cleanup_buf struct buf version = BUF_INIT;
    shell_read("parallel --will-cite --version 2>&1 </dev/null", &version);
    return str_starts_with(buf_str(&version), STR("GNU parallel"));
}

static void words_add(struct buf *command, const struct env_list *words)
{
    for (size_t i = 0; i < words->len; i++) {
        buf_add_char(command, ' ');
        buf_add_shell_word(command, words->at[i]);
    }
}

/* `parallel` with the options and words of a case, and its input. */
static void parallel_command(struct buf *out, const char *options, const struct list_case *row)
{
    struct env_list words = {0};
    assert_int_equal(shell_words(row->words, &words, NULL), 0);
    if (row->input) {
        buf_add_text(out, "printf %s ");
        buf_add_shell_word(out, row->input);
        buf_add_text(out, " | ");
    }
    buf_addf(out, "parallel --will-cite -j1 %s", options);
    if (strstr(row->words, "#}")) /* not always: it would replace more than we do */
        buf_add_text(out, " --plus");
    if (row->has_header)
        buf_add_text(out, " --header :");
    if (row->separator) {
        buf_add_text(out, " --colsep ");
        buf_add_shell_word(out, row->separator);
    }
    words_add(out, &words);
    buf_add_text(out, row->input ? " 2>&1" : " 2>&1 </dev/null");
    env_list_release(&words);
}

/* Lines of commands, as struct list_case has jobs. */
static void lines_print(struct buf *out, struct str lines)
{
    struct str line;
    while (lines.len > 0 && str_next(&lines, '\n', &line)) {
        struct env_list words = {0};
        cleanup_free char *text = xstrndup(line.at, line.len);
        assert_int_equal(shell_words(text, &words, NULL), 0);
        for (size_t i = 0; i < words.len; i++)
            buf_addf(out, "[%s]", words.at[i]);
        buf_add_char(out, '/');
        env_list_release(&words);
    }
}

static void gnu_parallel_has_the_same_jobs(void **state)
{
    size_t n_compared = 0;
    size_t n_cases = has_parallel() ? countof(list_cases) : 0;
    (void)state;
    for (size_t i = 0; i < n_cases; i++) {
        const struct list_case *row = &list_cases[i];
        cleanup_buf struct buf command = BUF_INIT, lines = BUF_INIT, jobs = BUF_INIT;
        if (row->is_own)
            continue;
        parallel_command(&command, "--dry-run -k", row);
        shell_read(buf_text(&command), &lines);
        lines_print(&jobs, buf_str(&lines));
        n_compared++;
        if (strcmp(buf_text(&jobs), row->jobs) != 0)
            fail_msg("%s\nparallel %s\nexpected %s", buf_text(&command), buf_text(&jobs),
                     row->jobs);
    }
    print_message("# %zu lists compared with GNU parallel\n", n_compared);
}

static void gnu_parallel_has_the_same_folders(void **state)
{
    static const struct list_case rows[] = {
        {"echo ::: a 'b/c' 'x y' 'a+b' 'd\\e' 'f\tg' .x ... ::: 1 2"},
        {"echo ::: 10 a ::: 9z b ::: 9b c/d", .has_header = true},
        {"echo ::: B 1 ::: A x y", .has_header = true},
        {"", "echo a/b\necho c\n"},
    };
    size_t n_rows = has_parallel() ? countof(rows) : 0;
    (void)state;
    for (size_t i = 0; i < n_rows; i++) {
        char root[] = "/tmp/test_list_parallel.XXXXXX";
        assert_non_null(mkdtemp(root));
        cleanup_free char *options = xasprintf("--results %s", root);
        cleanup_buf struct buf command = BUF_INIT, out = BUF_INIT;
        struct wish_of_case wish;
        struct graph_list list;
        parallel_command(&command, options, &rows[i]);
        shell_read(buf_text(&command), &out);
        wish_open(&wish, &rows[i]);
        assert_int_equal(graph_list_open(&list, &wish.wish, NULL), 0);
        assert_true(list.n_jobs > 0);
        for (size_t job = 0; job < list.n_jobs; job++) {
            cleanup_free char *dir = results_dir_new(&list, root, job);
            cleanup_free char *path = path_join(dir, "seq"), *number = xasprintf("%zu", job + 1);
            cleanup_buf struct buf seq = BUF_INIT;
            if (file_read(path, 100, &seq, NULL) != 0)
                fail_msg("%s: there is no %s", buf_text(&command), path);
            assert_string_equal(buf_text(&seq), number);
        }
        graph_list_release(&list);
        wish_close(&wish);
        assert_int_equal(remove_tree(root, NULL), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gnu_parallel_has_the_same_jobs),
        cmocka_unit_test(gnu_parallel_has_the_same_folders),
    };
    return cmocka_run_group_tests_name("graph list and GNU parallel", tests, NULL, NULL);
}
