/* SPDX-License-Identifier: Apache-2.0 */
#include "kit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log_loss.h"
#include "proc/logfile.h"

static struct logfile *open_log(const char *folder, uint64_t cap_bytes, unsigned keep,
                                const char *headline)
{
    char *path = path_join(folder, "w.log");
    struct err err = {0};
    struct logfile *file = NULL;
    struct logfile_opts opts = {path, cap_bytes, keep, headline};
    if (logfile_open(&file, &opts, &err) != 0)
        fail_msg("%s", err.text);
    free(path);
    return file;
}

/* The content of FOLDER/name, "(none)" if it is not there; free() it. */
static char *content(const char *folder, const char *name)
{
    char *path = path_join(folder, name);
    struct buf text = BUF_INIT;
    if (file_read(path, 1 << 20, &text, NULL) != 0)
        buf_add_text(&text, "(none)");
    free(path);
    return buf_steal(&text);
}

/* Puts "LOST\n" in the place of the line, with its time, that says that a file was deleted. */
static void loss_shorten(char *text)
{
    char *end = strstr(text, LOG_LOSS), *begin = end;
    if (!end)
        return;
    while (begin > text && begin[-1] != '\n')
        begin--;
    assert_int_equal(strncmp(begin, "==> 20", 6), 0);
    memcpy(begin, "LOST", 4);
    end += strlen(LOG_LOSS);
    memmove(begin + 4, end, strlen(end) + 1);
}

static void assert_content(const char *folder, const char *name, const char *expected)
{
    char *text = content(folder, name);
    loss_shorten(text);
    if (strcmp(text, expected) != 0)
        fail_msg("%s holds \"%s\", expected \"%s\"", name, text, expected);
    free(text);
}

static void files_rotate_between_lines_and_only_so_many_are_kept(void **state)
{
    (void)state;
    static const struct {
        const char *pieces[6];
        uint64_t cap_bytes;
        unsigned keep;
        const char *current, *first, *second;
    } cases[] = {
        {{"abc\n", "def\n"}, 10, 1, "abc\ndef\n", "(none)", "(none)"},
        {{"abc\n", "def\n", "ghi\n"}, 10, 1, "ghi\n", "abc\ndef\n", "(none)"},
        {{"abc\ndef\nghi\n"}, 10, 1, "ghi\n", "abc\ndef\n", "(none)"},
        {{"1234\n", "5678\n", "9\n", "abcdefgh\n"}, 10, 2, "abcdefgh\n", "9\n", "1234\n5678\n"},
        {{"1234\n5678\n", "90\n12345\n", "abcdefgh\n", "x\n"},
         10,
         1,
         "LOST\nx\n",
         "LOST\nabcdefgh\n",
         "(none)"},
        /* A line longer than a file is cut at the cap: bounded before whole. */
        {{"0123456789abcdef\n"}, 10, 1, "abcdef\n", "0123456789", "(none)"},
        {{"0123", "4567", "89ab", "\n"}, 10, 1, "ab\n", "0123456789", "(none)"},
        {{"0123456789abcdefghijklm\n"}, 10, 1, "\nLOST\nklm\n", "abcdefghij", "(none)"},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        char *folder = folder_new();
        struct logfile *file = open_log(folder, cases[i].cap_bytes, cases[i].keep, NULL);
        for (size_t k = 0; k < 6 && cases[i].pieces[k]; k++)
            logfile_add(file, str_of(cases[i].pieces[k]));
        assert_int_equal(logfile_error(file), 0);
        logfile_close(file);
        assert_content(folder, "w.log", cases[i].current);
        assert_content(folder, "w.log.1", cases[i].first);
        assert_content(folder, "w.log.2", cases[i].second);
        assert_content(folder, "w.log.3", "(none)");
        folder_free(folder);
    }
}

static void a_new_attempt_appends_under_a_dated_line(void **state)
{
    (void)state;
    char *folder = folder_new();
    struct logfile *file = open_log(folder, 0, 0, "attempt 1");
    logfile_add(file, STR("died in the middle"));
    logfile_close(file);
    logfile_close(open_log(folder, 0, 0, "attempt 2"));
    char *text = content(folder, "w.log");
    assert_int_equal(strncmp(text, "==> 20", 6), 0);
    assert_non_null(strstr(text, " attempt 1 <==\ndied in the middle\n==> 20"));
    assert_non_null(strstr(text, " attempt 2 <==\n"));
    free(text);
    folder_free(folder);
}

static void the_tail_is_cut_to_whole_lines(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t max;
        const char *tail;
    } cases[] = {
        {"one\ntwo\nthree\n", 100, "one\ntwo\nthree\n"},
        {"one\ntwo\nthree\n", 10, "two\nthree\n"},
        {"one\ntwo\nthree\n", 9, "three\n"},
        {"one\ntwo\nthree", 8, "three"},
        {"one\ntwo\nthree\n", 4, "ree\n"},
        {"abcdef", 3, "def"},
        {"", 10, ""},
        {"one\n", 0, ""},
    };
    char *folder = folder_new();
    for (size_t i = 0; i < countof(cases); i++) {
        struct logfile *file = open_log(folder, 0, 0, NULL);
        struct buf tail = BUF_INIT;
        logfile_add(file, str_of(cases[i].bytes));
        logfile_tail(file, cases[i].max, &tail);
        if (strcmp(buf_text(&tail), cases[i].tail) != 0)
            fail_msg("tail %zu of \"%s\" is \"%s\"", cases[i].max, cases[i].bytes, buf_text(&tail));
        buf_release(&tail);
        logfile_close(file);
    }
    folder_free(folder);
}

/* Pieces of every size around the ring, compared with a plain copy of all that was added. */
static void the_tail_survives_any_sequence_of_pieces(void **state)
{
    (void)state;
    static const size_t sizes[] = {1,     70000, 65536, 65535, 3, 131072,
                                   40000, 40000, 65537, 7,     0, 100};
    char *folder = folder_new();
    struct logfile *file = open_log(folder, 0, 0, NULL);
    struct buf all = BUF_INIT;
    for (size_t i = 0; i < countof(sizes); i++) {
        size_t begin = all.len;
        for (size_t k = 0; k < sizes[i]; k++)
            buf_add_char(&all, k % 50 == 49 ? '\n' : (char)('a' + (begin + k * 7) % 26));
        logfile_add(file, (struct str){all.at + begin, sizes[i]});
        struct buf tail = BUF_INIT;
        logfile_tail(file, 1 << 16, &tail);
        assert_true(tail.len <= all.len && tail.len <= 1 << 16);
        assert_true(tail.len + 60 > MIN(all.len, (size_t)1 << 16));
        assert_memory_equal(buf_text(&tail), all.at + all.len - tail.len, tail.len);
        buf_release(&tail);
    }
    assert_true(logfile_bytes(file) == all.len);
    buf_release(&all);
    logfile_close(file);
    folder_free(folder);
}

static void a_write_that_fails_is_remembered_and_the_tail_goes_on(void **state)
{
    (void)state;
    struct err err = {0};
    struct logfile *file = NULL;
    char *folder = folder_new(), *path = path_join(folder, "w.log");
    struct logfile_opts opts = {.path = path};
    struct rlimit before, none = {0};
    assert_int_equal(logfile_open(&file, &opts, &err), 0);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    none.rlim_max = before.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    logfile_add(file, STR("CUDA out of memory\n"));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(logfile_error(file), EFBIG);
    struct buf tail = BUF_INIT;
    logfile_tail(file, 100, &tail);
    assert_string_equal(buf_text(&tail), "CUDA out of memory\n");
    buf_release(&tail);
    logfile_close(file);

    opts.path = "/nonexistent/w.log";
    assert_int_equal(logfile_open(&file, &opts, &err), ERR_SYS);
    assert_non_null(strstr(err.text, "/nonexistent/w.log"));
    free(path);
    folder_free(folder);
}

static void expect_refused(const char *path, const char *says)
{
    struct logfile_opts opts = {.path = path, .headline = "begins"};
    struct logfile *file = NULL;
    struct err err = {0};
    assert_int_equal(logfile_open(&file, &opts, &err), ERR_DATA);
    assert_non_null(strstr(err.text, says));
    assert_int_equal(unlink(path), 0);
}

/* In a folder that others may write to, a log's name may lead to a file of the caller. */
static void what_is_no_file_of_ours_is_not_written_to(void **state)
{
    (void)state;
    char *folder = folder_new(), *path = path_join(folder, "w.log");
    char *precious = path_join(folder, "precious");
    struct stat st;
    int fd = open(precious, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && close(fd) == 0);
    assert_int_equal(symlink(precious, path), 0);
    expect_refused(path, "a symbolic link");
    assert_int_equal(link(precious, path), 0);
    expect_refused(path, "has 2 names");
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_refused(path, "a FIFO");
    assert_int_equal(stat(precious, &st), 0);
    assert_int_equal(st.st_size, 0);
    free(precious);
    free(path);
    folder_free(folder);
}

/* The name it should rotate to is a folder with something in it: rename must fail. */
static void a_rotation_that_fails_keeps_to_the_cap(void **state)
{
    (void)state;
    char *folder = folder_new();
    char *blocker = path_join(folder, "w.log.1/x");
    struct err err;
    assert_int_equal(mkdir_parents(blocker, 0755, &err), 0);
    struct logfile *file = open_log(folder, 10, 1, NULL);
    for (int i = 0; i < 5; i++)
        logfile_add(file, STR("12345678\n"));
    assert_int_not_equal(logfile_error(file), 0);
    logfile_close(file);
    assert_content(folder, "w.log", "12345678\n");
    free(blocker);
    folder_free(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_rotate_between_lines_and_only_so_many_are_kept),
        cmocka_unit_test(a_new_attempt_appends_under_a_dated_line),
        cmocka_unit_test(the_tail_is_cut_to_whole_lines),
        cmocka_unit_test(the_tail_survives_any_sequence_of_pieces),
        cmocka_unit_test(a_write_that_fails_is_remembered_and_the_tail_goes_on),
        cmocka_unit_test(what_is_no_file_of_ours_is_not_written_to),
        cmocka_unit_test(a_rotation_that_fails_keeps_to_the_cap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
