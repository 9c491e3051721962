/* SPDX-License-Identifier: Apache-2.0 */
#include "../test.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "graph/list/joblog.h"

#define HEADER "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n"
#define ROW    "3\t:\t1795801945.007\t     1.500\t0\t2\t0\t9\techo a b\n"

static const struct joblog_row row = {
    .seq = 3,
    .start_ms = 1795801945007,
    .runtime_ms = 1500,
    .received_bytes = 2,
    .signal = 9,
    .command = "echo a\nb",
};

struct place {
    char root[32];
    char *path;
};

static int place_make(void **state)
{
    struct place *place = xcalloc(1, sizeof(*place));
    snprintf(place->root, sizeof(place->root), "/tmp/test_joblog.XXXXXX");
    if (!mkdtemp(place->root))
        return -1;
    place->path = path_join(place->root, "log");
    *state = place;
    return 0;
}

static int place_remove(void **state)
{
    struct place *place = *state;
    int rc = remove_tree(place->root, NULL);
    free(place->path);
    free(place);
    return rc;
}

static void file_is(const char *path, const char *expected)
{
    cleanup_buf struct buf found = BUF_INIT;
    assert_int_equal(file_read(path, 1 << 20, &found, NULL), 0);
    assert_string_equal(buf_text(&found), expected);
}

static void file_put(const char *path, const char *text)
{
    assert_int_equal(file_replace_fast(path, str_of(text), NULL), 0);
}

static void row_add(const char *path, bool is_resumed)
{
    struct joblog log;
    assert_int_equal(joblog_open(&log, path, is_resumed, NULL), 0);
    assert_int_equal(joblog_add(&log, &row, NULL), 0);
    joblog_close(&log);
}

static void a_new_log_has_a_header_and_a_line_a_job(void **state)
{
    struct place *place = *state;
    row_add(place->path, false);
    file_is(place->path, HEADER ROW);
    row_add(place->path, true);
    file_is(place->path, HEADER ROW ROW);
    row_add(place->path, false);
    file_is(place->path, HEADER ROW);
}

static void a_row_has_all_columns_on_one_line(void **state)
{
    struct place *place = *state;
    struct joblog log;
    struct joblog_row full = {
        .seq = UINT64_MAX,
        .host = "a\tb",
        .start_ms = 999,
        .runtime_ms = 1234567890123,
        .sent_bytes = 1,
        .received_bytes = UINT64_MAX,
        .exit_status = 255,
        .command = "a\tb\r\nc\x1b[1m é \x7f",
    };
    assert_int_equal(joblog_open(&log, place->path, false, NULL), 0);
    assert_int_equal(joblog_add(&log, &full, NULL), 0);
    joblog_close(&log);
    file_is(place->path, HEADER "18446744073709551615\ta b\t0.999\t1234567890.123\t1\t"
                                "18446744073709551615\t255\t0\ta b  c [1m é  \n");
}

static void a_torn_end_is_cut_when_the_log_goes_on(void **state)
{
    struct place *place = *state;
    file_put(place->path, HEADER ROW "4\t:\t17958");
    row_add(place->path, true);
    file_is(place->path, HEADER ROW ROW);
    file_put(place->path, HEADER "4\t:\t17958");
    row_add(place->path, true);
    file_is(place->path, HEADER ROW);
    file_put(place->path, "Seq\tHost\tSta");
    row_add(place->path, true);
    file_is(place->path, HEADER ROW);
    /* longer than what is looked at in one piece */
    cleanup_buf struct buf text = BUF_INIT;
    buf_addf(&text, "%s%s%010000d", HEADER, ROW, 1);
    file_put(place->path, buf_text(&text));
    row_add(place->path, true);
    file_is(place->path, HEADER ROW ROW);
}

static void what_is_no_log_is_left_as_it_is(void **state)
{
    static const char *const texts[] = {"x", "Seq\tHost\n",
                                        "my notes, which are longer than the "
                                        "header of a log is, and that is all there is to say\n"};
    struct place *place = *state;
    struct joblog log;
    struct err err;
    for (size_t i = 0; i < 2 * countof(texts); i++) {
        file_put(place->path, texts[i / 2]);
        assert_int_equal(joblog_open(&log, place->path, i % 2, &err), ERR_DATA);
        assert_non_null(strstr(err.text, "is not empty, and no log of jobs"));
        file_is(place->path, texts[i / 2]);
    }
}

static void only_a_regular_file_of_ours_is_a_log(void **state)
{
    struct place *place = *state;
    struct joblog log;
    cleanup_free char *fifo = path_join(place->root, "fifo"),
                      *link = path_join(place->root, "link");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(joblog_open(&log, fifo, false, NULL), ERR_DATA);
    assert_int_not_equal(joblog_open(&log, place->root, false, NULL), 0);
    assert_int_not_equal(joblog_open(&log, "/dev/null", false, NULL), 0);
    file_put(place->path, HEADER);
    assert_int_equal(symlink(place->path, link), 0);
    assert_int_not_equal(joblog_open(&log, link, false, NULL), 0);
    assert_int_equal(chmod(place->path, 0666), 0);
    assert_int_equal(joblog_open(&log, place->path, false, NULL), ERR_USAGE);
    joblog_close(&log); /* as after each failure */
    cleanup_free char *nowhere = path_join(place->root, "no/log");
    assert_int_not_equal(joblog_open(&log, nowhere, false, NULL), 0);
}

static void a_command_is_what_a_shell_would_be_told(void **state)
{
    static const char *const words[] = {"echo", "a b", "it's", "", NULL};
    static const char *const text[] = {"sh", "-c", "echo a; exit 1", NULL};
    static const char *const more[] = {"sh", "-c", "x", "y", NULL};
    cleanup_buf struct buf out = BUF_INIT;
    (void)state;
    joblog_command_add(&out, words);
    buf_add_char(&out, '\n');
    joblog_command_add(&out, text);
    buf_add_char(&out, '\n');
    joblog_command_add(&out, more);
    assert_string_equal(buf_text(&out), "echo 'a b' 'it'\\''s' ''\necho a; exit 1\nsh -c x y");
}

static void a_full_disk_says_so(void **state)
{
    struct joblog log = JOBLOG_INIT;
    struct err err;
    (void)state;
    log.fd = open("/dev/full", O_WRONLY | O_APPEND | O_CLOEXEC);
    log.path = xstrdup("/dev/full");
    assert_int_equal(joblog_add(&log, &row, &err), ERR_STOPPED);
    assert_non_null(strstr(err.text, "/dev/full: write"));
    joblog_close(&log);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_new_log_has_a_header_and_a_line_a_job, place_make,
                                        place_remove),
        cmocka_unit_test_setup_teardown(a_row_has_all_columns_on_one_line, place_make,
                                        place_remove),
        cmocka_unit_test_setup_teardown(a_torn_end_is_cut_when_the_log_goes_on, place_make,
                                        place_remove),
        cmocka_unit_test_setup_teardown(what_is_no_log_is_left_as_it_is, place_make, place_remove),
        cmocka_unit_test_setup_teardown(only_a_regular_file_of_ours_is_a_log, place_make,
                                        place_remove),
        cmocka_unit_test(a_command_is_what_a_shell_would_be_told),
        cmocka_unit_test(a_full_disk_says_so),
    };
    return cmocka_run_group_tests_name("graph joblog", tests, NULL, NULL);
}
