/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that jobs were to leave: which are taken, and which are still as they were.
 */
#include "../store/temp.h"
#include "../test.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "graph/proof_impl.h"

#define IN_AN_HOUR_NS (((int64_t)time(NULL) + 3600) * 1000000000)

static void put(const char *dir, const char *name, const char *text)
{
    cleanup_free char *path = path_join(dir, name);
    assert_int_equal(file_replace_fast(path, str_of(text), NULL), 0);
}

/* A folder, a FIFO, or a link to what is named. */
static void make(const char *dir, const char *command, const char *path)
{
    cleanup_free char *whole = path_join(dir, path);
    if (strcmp(command, "folder") == 0)
        assert_int_equal(mkdir(whole, 0755), 0);
    else if (strcmp(command, "fifo") == 0)
        assert_int_equal(mkfifo(whole, 0644), 0);
    else
        assert_int_equal(symlink(command, whole), 0);
}

static void socket_make(const char *dir, const char *name)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(at.sun_path, sizeof(at.sun_path), "%s/%s", dir, name);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
}

/* The proof of one out. */
static void take(const char *dir, const struct plan_out *out, int64_t since_ns,
                 const struct stat *before, struct job_proof *proof)
{
    const struct plan_job job = {.outs = out, .n_outs = 1};
    *proof = (struct job_proof){0};
    job_proof_take(
        &(struct proof_ask){.job = &job, .cwd = dir, .since_ns = since_ns, .outs_before = before},
        proof);
}

static void look(const char *dir, const char *path, struct stat *before)
{
    const struct plan_out out = {.path = path};
    const struct plan_job job = {.outs = &out, .n_outs = 1};
    outs_look(&(struct proof_ask){.job = &job, .cwd = dir}, before);
}

static void only_files_and_folders_are_outs(void **state)
{
    const char *dir = *state;
    static const struct {
        struct plan_out out;
        const char *why; /* NULL: it is taken */
    } rows[] = {
        {{"file"}, NULL},
        {{"folder/"}, NULL},
        {{"to-file"}, NULL},
        {{"to-folder/"}, NULL},
        {{"folder/in"}, NULL},
        {{"missing"}, "it did not leave missing"},
        {{"missing/"}, "it did not leave missing/"},
        {{"to-nothing"}, "it did not leave to-nothing"},
        {{"loop"}, "look at loop: Too many levels of symbolic links"},
        {{"file/x"}, "look at file/x: Not a directory"},
        {{"folder"}, "folder is no regular file"},
        {{"file/"}, "file/ is no folder"},
        {{"fifo"}, "fifo is no regular file"},
        {{"fifo/"}, "fifo/ is no folder"},
        {{"fifo", .count_min = 1}, "fifo is no regular file"},
        {{"fifo", .json_has = "a"}, "fifo is no regular file"},
        {{"socket"}, "socket is no regular file"},
        {{"device", .count_min = 1}, "device is no regular file"},
    };
    put(dir, "file", "a\n");
    make(dir, "folder", "folder");
    put(dir, "folder/in", "b\n");
    make(dir, "file", "to-file");
    make(dir, "./folder", "to-folder");
    make(dir, "nothing", "to-nothing");
    make(dir, "loop", "loop");
    make(dir, "fifo", "fifo");
    make(dir, "/dev/zero", "device");
    socket_make(dir, "socket");
    for (size_t i = 0; i < countof(rows); i++) {
        struct job_proof proof;
        take(dir, &rows[i].out, 0, NULL, &proof);
        assert_string_equal(proof.why.text, rows[i].why ? rows[i].why : "");
        assert_true((proof.why.code == 0) == (rows[i].why == NULL));
        job_proof_release(&proof);
    }
}

static void content_is_looked_at(void **state)
{
    const char *dir = *state;
    static const struct {
        const char *text;
        struct plan_out out;
        const char *why;
    } rows[] = {
        {"", {"f", .count_min = 1}, "f has 0 lines, and was to have 1"},
        {"a\nb", {"f", .count_min = 2}, NULL},
        {"a\nb\n", {"f", .count_min = 3}, "f has 2 lines, and was to have 3"},
        {"{\"n\": 0}", {"f", .json_has = "n"}, NULL},
        {" {\"n\": null}\n", {"f", .json_has = "n"}, NULL},
        {"{\"m\": {\"n\": 1}}", {"f", .json_has = "n"}, "f has no member \"n\""},
        {"[1]", {"f", .json_has = "n"}, "f is no JSON object"},
        {"{\"n\": 1", {"f", .json_has = "n"}, "f is no JSON object"},
        {"", {"f", .json_has = "n"}, "f is no JSON object"},
        {"", {"d/", .count_min = 3}, NULL},
        {"", {"d/", .count_min = 4}, "d/ has 3 entries, and was to have 4"},
        {"", {"d/", .count_min = 2, .pattern = "*.x"}, NULL},
        {"", {"d/", .count_min = 3, .pattern = "*.x"}, "d/ has 2 entries, and was to have 3"},
    };
    make(dir, "folder", "d");
    put(dir, "d/a.x", "");
    put(dir, "d/b.x", "");
    make(dir, "folder", "d/y");
    put(dir, "d/y/c.x", "");
    for (size_t i = 0; i < countof(rows); i++) {
        struct job_proof proof;
        put(dir, "f", rows[i].text);
        take(dir, &rows[i].out, 0, NULL, &proof);
        assert_string_equal(proof.why.text, rows[i].why ? rows[i].why : "");
        job_proof_release(&proof);
    }
}

/* A clock that is an hour ahead of that of the file system, or was set back by one, changes nothing. */
static void what_was_there_before_does_not_count_whatever_clocks_say(void **state)
{
    const char *dir = *state;
    static const struct plan_out outs[] = {{"file"}, {"folder/"}, {"link"}};
    static const char *const why[] = {"it did not write file, which is as it was before",
                                      "it did not write folder/, which is as it was before",
                                      "it did not write link, which is as it was before"};
    put(dir, "file", "a\n");
    make(dir, "folder", "folder");
    put(dir, "folder/in", "a\n");
    make(dir, "file", "link");
    for (size_t i = 0; i < countof(outs); i++) {
        struct job_proof proof;
        struct stat before = {0};
        take(dir, &outs[i], IN_AN_HOUR_NS, &before, &proof); /* it was not there */
        assert_int_equal(proof.why.code, 0);
        job_proof_release(&proof);
        look(dir, outs[i].path, &before);
        take(dir, &outs[i], IN_AN_HOUR_NS, &before, &proof);
        assert_string_equal(proof.why.text, why[i]);
        job_proof_release(&proof);
        cleanup_free char *path = path_join(dir, outs[i].path);
        if (i == 2) {
            assert_int_equal(unlink(path), 0);
            make(dir, "./file", "link");
        } else {
            put(dir, i == 0 ? "file" : "folder/in", "b\n"); /* by another file of that name */
        }
        take(dir, &outs[i], IN_AN_HOUR_NS, &before, &proof);
        assert_int_equal(proof.why.code, 0);
        job_proof_release(&proof);
    }
}

/* An earlier session was killed after the job had written its file, and before that was noted. */
static void a_file_of_an_attempt_before_counts(void **state)
{
    const char *dir = *state;
    const struct plan_out out = {"file"};
    struct job_proof proof;
    struct stat before;
    put(dir, "file", "a\n");
    look(dir, "file", &before);
    take(dir, &out, 1, &before, &proof);
    assert_int_equal(proof.why.code, 0);
    job_proof_release(&proof);
}

static void a_proof_can_be_given_up(void **state)
{
    const struct plan_out out = {"file"};
    const struct plan_job job = {.outs = &out, .n_outs = 1};
    const atomic_bool is_given_up = true;
    struct job_proof proof = {0};
    put(*state, "file", "a\n");
    job_proof_take(&(struct proof_ask){.job = &job, .cwd = *state, .is_given_up = &is_given_up},
                   &proof);
    assert_int_equal(proof.why.code, ERR_STOPPED);
    job_proof_release(&proof);
}

/* ---- marks ---- */

static char *marks_of(const char *dir, const char *path)
{
    const struct plan_out out = {.path = path};
    struct job_proof proof;
    struct buf text = BUF_INIT;
    take(dir, &out, 0, NULL, &proof);
    assert_int_equal(proof.why.code, 0);
    marks_format(proof.outs, proof.n_outs, &text);
    job_proof_release(&proof);
    return buf_steal(&text);
}

static void changes_to(const char *dir, const char *marks, enum mark_change expected)
{
    cleanup_free char *path = NULL;
    (void)dir;
    assert_int_equal(marks_compare(marks, &path), expected);
    assert_true((path != NULL) == (expected == MARK_GONE || expected == MARK_CHANGED));
}

static void age(const char *dir, const char *name, time_t mtime)
{
    cleanup_free char *path = path_join(dir, name);
    const struct timespec times[] = {{.tv_sec = mtime}, {.tv_sec = mtime}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW), 0);
}

static void a_file_is_its_content(void **state)
{
    const char *dir = *state;
    static const char *const names[] = {"plain", "line\nbreak", "\"quoted\\", "\xff\xfe no text",
                                        "\xc3\xa9"};
    for (size_t i = 0; i < countof(names); i++) {
        put(dir, names[i], "abc");
        cleanup_free char *marks = marks_of(dir, names[i]);
        changes_to(dir, marks, MARK_SAME);
        age(dir, names[i], 1000000000);
        changes_to(dir, marks, MARK_SAME); /* read again */
        put(dir, names[i], "abd");
        changes_to(dir, marks, MARK_CHANGED);
        put(dir, names[i], "abcd");
        changes_to(dir, marks, MARK_CHANGED);
        put(dir, names[i], "abc");
        changes_to(dir, marks, MARK_SAME);
        cleanup_free char *path = path_join(dir, names[i]);
        assert_int_equal(unlink(path), 0);
        changes_to(dir, marks, MARK_GONE);
        make(dir, "fifo", names[i]);
        changes_to(dir, marks, MARK_CHANGED);
    }
}

/* Within one session: what was done to a file shows without reading it. */
static void a_look_tells_what_was_done_to_a_file(void **state)
{
    const char *dir = *state;
    const struct plan_out out = {.path = "f"};
    struct job_proof proof;
    struct file_mark now;
    cleanup_free char *path = path_join(dir, "f"), *other = path_join(dir, "other");
    put(dir, "f", "abc");
    take(dir, &out, 0, NULL, &proof);
    cleanup_free struct file_mark *left = job_proof_steal(&proof);
    assert_int_equal(proof.n_outs, 0);
    job_proof_release(&proof);
    assert_true(mark_is_untouched(left, path) && !mark_is_touched(left, path));
    assert_int_equal(mark_compare(left, path, NULL, &now), MARK_SAME);
    put(dir, "other", "abd"); /* the same size, and by the next line the same time */
    age(dir, "other", (time_t)(left->mtime_ns / 1000000000));
    age(dir, "f", (time_t)(left->mtime_ns / 1000000000));
    assert_true(!mark_is_untouched(left, path) && mark_is_touched(left, path));
    assert_int_equal(mark_compare(left, path, NULL, &now), MARK_SAME);
    assert_true(mark_is_untouched(&now, path)); /* it need not be read again */
    const atomic_bool is_given_up = true;
    struct file_mark later;
    age(dir, "f", 1000000000);
    assert_int_equal(mark_compare(left, path, &is_given_up, &later), MARK_UNKNOWN); /* no change */
    assert_int_equal(rename(other, path), 0);
    assert_true(!mark_is_untouched(&now, path));
    assert_int_equal(mark_compare(&now, path, NULL, &later), MARK_CHANGED);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mark_compare(&now, path, NULL, &later), MARK_GONE);
    make(dir, "folder", "f");
    assert_true(!mark_is_untouched(&now, path) && !mark_is_touched(&now, path));
}

static void a_folder_is_its_names_links_and_content(void **state)
{
    const char *dir = *state;
    make(dir, "folder", "d");
    make(dir, "folder", "d/sub");
    put(dir, "d/a", "1");
    put(dir, "d/sub/b", "2");
    make(dir, "..", "d/up"); /* is not followed */
    make(dir, "loop", "d/loop");
    make(dir, "fifo", "d/fifo"); /* is not opened */
    cleanup_free char *marks = marks_of(dir, "d/");
    cleanup_free char *a = path_join(dir, "d/a"), *b = path_join(dir, "d/sub/b"),
                      *c = path_join(dir, "d/sub/c"), *up = path_join(dir, "d/up");
    changes_to(dir, marks, MARK_SAME);
    age(dir, "d", 2000000000);
    changes_to(dir, marks, MARK_SAME);
    assert_int_equal(rename(b, c), 0);
    age(dir, "d", 2000000001);
    changes_to(dir, marks, MARK_CHANGED);
    assert_int_equal(rename(c, b), 0);
    changes_to(dir, marks, MARK_SAME);
    assert_int_equal(unlink(up), 0);
    make(dir, "...", "d/up");
    changes_to(dir, marks, MARK_CHANGED);
    assert_int_equal(unlink(up), 0);
    make(dir, "..", "d/up");
    changes_to(dir, marks, MARK_SAME);
    assert_int_equal(unlink(a), 0);
    changes_to(dir, marks, MARK_CHANGED);
}

static void marks_that_are_none_are_never_the_same(void **state)
{
    static const char *const texts[] = {
        "",
        "{}",
        "x",
        "[",
        "[[",
        "[1]",
        "[{}]",
        "[{},",
        "[{\"path\":1,\"size\":1,\"mtime_ns\":1,\"xxh3\":\"0\"}]",
        "[{\"path\":\"/\",\"size\":-1,\"mtime_ns\":1,\"xxh3\":\"0\"}]",
        "[{\"path\":\"/\",\"size\":99999999999999999999,\"mtime_ns\":1,\"xxh3\":\"0\"}]",
        "[{\"path\":\"/\",\"size\":1,\"mtime_ns\":1,\"xxh3\":0}]",
        "[{\"path\":\"/\",\"size\":1,\"mtime_ns\":1}]",
        "[{\"bytes\":\"2\",\"size\":1,\"mtime_ns\":1,\"xxh3\":\"0\"}]",
        "[{\"bytes\":\"zz\",\"size\":1,\"mtime_ns\":1,\"xxh3\":\"0\"}]",
        "[]]",
        "[] x",
    };
    for (size_t i = 0; i < countof(texts); i++) {
        cleanup_free char *path = NULL;
        if (marks_compare(texts[i], &path) != MARK_UNREADABLE)
            fail_msg("%s", texts[i]);
    }
    changes_to(*state, NULL, MARK_SAME);
    changes_to(*state, "[]", MARK_SAME);
}

/* A mark that was cut anywhere does not prove anything. */
static void cut_marks_are_unreadable(void **state)
{
    put(*state, "f", "abc");
    cleanup_free char *marks = marks_of(*state, "f");
    for (size_t len = strlen(marks) - 1; len > 0; len--) {
        cleanup_free char *path = NULL;
        marks[len] = '\0';
        if (marks_compare(marks, &path) != MARK_UNREADABLE)
            fail_msg("%s", marks);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, temp_setup, temp_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(only_files_and_folders_are_outs),
        TEST(content_is_looked_at),
        TEST(what_was_there_before_does_not_count_whatever_clocks_say),
        TEST(a_file_of_an_attempt_before_counts),
        TEST(a_proof_can_be_given_up),
        TEST(a_file_is_its_content),
        TEST(a_look_tells_what_was_done_to_a_file),
        TEST(a_folder_is_its_names_links_and_content),
        TEST(marks_that_are_none_are_never_the_same),
        TEST(cut_marks_are_unreadable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
