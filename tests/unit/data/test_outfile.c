/* SPDX-License-Identifier: Apache-2.0
 *
 * A file beside its place, where files can be nameless and where they cannot: it takes no name that
 * somebody has.
 */
#include "unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/outfile.h"
#include "scratch.h"

static bool is_nfs; /* no nameless files, and renames replace what is there */

/* In front of the C library's: a file system that lacks what NFS lacks. */
int open64(const char *path, int flags, ...);
int open64(const char *path, int flags, ...)
{
    va_list args;
    if (is_nfs && (flags & O_TMPFILE) == O_TMPFILE) {
        errno = EOPNOTSUPP;
        return -1;
    }
    va_start(args, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
    va_end(args);
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    if (is_nfs && flags != 0) {
        errno = EINVAL;
        return -1;
    }
    return (int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
}

static void expect_text(const char *path, const char *expected)
{
    cleanup_buf struct buf text = BUF_INIT;
    struct err err = {0};
    if (file_read(path, 1 << 20, &text, &err))
        fail_msg("%s", err.text);
    assert_string_equal(buf_text(&text), expected);
}

/* Writes "new" to the path, parked in between if wanted. */
static int put(const char *path, bool overwrite, bool is_parked, struct err *err)
{
    struct outfile file;
    int rc = outfile_open(&file, path, overwrite, err);
    if (rc == 0)
        rc = outfile_write(&file, STR("new"), err);
    if (rc == 0)
        rc = outfile_finish(&file, is_parked, err);
    if (rc == 0)
        rc = outfile_commit(&file, err);
    outfile_close(&file);
    return rc;
}

/* The user's own out.new and what it may be called instead stay as they are. */
static void expect_names_are_left(const char *name)
{
    struct err err = {0};
    char beside[64], next[64];
    snprintf(beside, sizeof(beside), "%s.new", name);
    snprintf(next, sizeof(next), "%s.%d-1.new", name, (int)getpid());
    const char *path = scratch_path(name);
    for (unsigned i = 0; i < 4; i++) {
        const char *yours[] = {scratch_file(beside, STR("yours")),
                               scratch_file(next, STR("yours too"))};
        bool overwrite = i & 1;
        if (!overwrite)
            unlink(path);
        if (put(path, overwrite, i & 2, &err))
            fail_msg("%s", err.text);
        expect_text(path, "new");
        expect_text(yours[0], "yours");
        expect_text(yours[1], "yours too");
        scratch_file(name, STR("old"));
    }
}

static void a_name_that_somebody_has_is_not_taken(void **state)
{
    (void)state;
    is_nfs = false;
    expect_names_are_left("nameless.txt");
    is_nfs = true;
    expect_names_are_left("named.txt");
    is_nfs = false;
}

/* Another program makes the file while it is written. */
static void expect_late_file_is_left(const char *name)
{
    const char *path = scratch_path(name);
    struct outfile file;
    struct err err = {0};
    unlink(path);
    assert_int_equal(outfile_open(&file, path, false, &err), 0);
    assert_int_equal(outfile_write(&file, STR("new"), &err), 0);
    scratch_file(name, STR("theirs"));
    assert_int_equal(outfile_commit(&file, &err), ERR_USAGE);
    assert_non_null(strstr(err.text, "exists; --force replaces it"));
    outfile_close(&file);
    expect_text(path, "theirs");
}

static void a_file_that_appears_meanwhile_is_not_replaced(void **state)
{
    (void)state;
    is_nfs = false;
    expect_late_file_is_left("late.txt");
    is_nfs = true;
    expect_late_file_is_left("late_named.txt");
    is_nfs = false;
}

static void nothing_is_left_of_a_file_that_is_given_up(void **state)
{
    (void)state;
    struct err err = {0};
    for (unsigned i = 0; i < 4; i++) {
        const char *folder = scratch_path("given_up"), *path = scratch_path("given_up/out.txt");
        struct outfile file;
        assert_int_equal(mkdir_parents(folder, 0755, &err), 0);
        is_nfs = i & 1;
        assert_int_equal(outfile_open(&file, path, true, &err), 0);
        assert_int_equal(outfile_write(&file, STR("new"), &err), 0);
        assert_int_equal(outfile_finish(&file, i & 2, &err), 0);
        outfile_close(&file);
        assert_true(folder_is_empty(folder));
    }
    is_nfs = false;
}

/* The target is new, or replaced; there are two links on the way. */
static void a_link_stays_and_leads_to_the_new_file(void **state)
{
    (void)state;
    struct err err = {0};
    for (unsigned i = 0; i < 4; i++) {
        const char *target = scratch_path("far/target.txt"), *link = scratch_path("link.txt");
        char found[16] = "";
        assert_int_equal(mkdir_parents(scratch_path("far"), 0755, &err), 0);
        is_nfs = i & 1;
        unlink(link);
        unlink(target);
        unlink(scratch_path("second.txt"));
        if (i & 2)
            scratch_file("far/target.txt", STR("old"));
        assert_int_equal(symlink("far/target.txt", scratch_path("second.txt")), 0);
        assert_int_equal(symlink("second.txt", link), 0);
        assert_int_equal(put(link, false, false, &err), ERR_USAGE);
        assert_non_null(strstr(err.text, "link.txt exists; --force replaces it"));
        for (unsigned k = 0; k < 2; k++) {
            assert_int_equal(put(link, true, k == 1, &err), 0);
            expect_text(target, "new");
            assert_int_equal(readlink(link, found, sizeof(found) - 1), strlen("second.txt"));
        }
    }
    is_nfs = false;
}

static void a_file_that_is_known_by_a_descriptor_is_not_replaced(void **state)
{
    (void)state;
    struct err err = {0};
    const char *path = scratch_path("open.txt");
    char name[64];
    scratch_file("open.txt", STR("theirs"));
    cleanup_fd int fd = open(path, O_WRONLY | O_CLOEXEC);
    snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    unlink(scratch_path("stdout"));
    assert_int_equal(symlink(name, scratch_path("stdout")), 0);
    for (unsigned overwrite = 0; overwrite < 2; overwrite++) {
        assert_int_equal(put(scratch_path("stdout"), overwrite, false, &err), ERR_USAGE);
        assert_non_null(strstr(err.text, "that this process has open"));
    }
    expect_text(path, "theirs");
}

static void links_that_lead_nowhere_are_refused(void **state)
{
    (void)state;
    struct err err = {0};
    const char *path = scratch_path("loop.txt");
    unlink(path);
    assert_int_equal(symlink("loop.txt", path), 0);
    assert_int_equal(put(path, true, false, &err), ERR_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_that_somebody_has_is_not_taken),
        cmocka_unit_test(a_file_that_appears_meanwhile_is_not_replaced),
        cmocka_unit_test(nothing_is_left_of_a_file_that_is_given_up),
        cmocka_unit_test(a_link_stays_and_leads_to_the_new_file),
        cmocka_unit_test(a_file_that_is_known_by_a_descriptor_is_not_replaced),
        cmocka_unit_test(links_that_lead_nowhere_are_refused),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_remove();
    return failed;
}
