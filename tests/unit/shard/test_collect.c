/* SPDX-License-Identifier: Apache-2.0
 *
 * The one file that a shard leaves behind.
 */
#include "unit/test.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "shard/collect.h"

static int folder_make(void **state)
{
    char dir[] = "/tmp/muster-collect-XXXXXX";
    *state = mkdtemp(dir) ? xstrdup(dir) : NULL;
    return *state ? 0 : -1;
}

static int folder_drop(void **state)
{
    int rc = remove_tree(*state, NULL);
    free(*state);
    return rc;
}

static void put(const char *folder, const char *name, const char *content)
{
    cleanup_free char *path = path_join(folder, name);
    assert_int_equal(file_replace_fast(path, str_of(content), NULL), 0);
}

/* What a program leaves that does no more than put one file there. */
static int find_after(const struct collect *ask, const char *folder, const char *name,
                      struct collected *found, struct err *err)
{
    struct file_traces before = {0};
    int rc = collect_before(ask, &before, err);
    if (rc == 0 && name)
        put(folder, name, "one\ntwo\n");
    if (rc == 0)
        rc = collect_find(ask, &before, found, err);
    file_traces_release(&before);
    return rc;
}

static void the_new_file_is_found_among_old_ones(void **state)
{
    cleanup_free char *pattern = path_join(*state, "x_*"), *expected = path_join(*state, "x_new");
    const struct collect ask = {.left.option = "--collect",
                                .left.pattern = pattern,
                                .is_counted = true,
                                .format = FORMAT_LINES,
                                .expect = 2};
    struct collected found;
    put(*state, "x_old", "old\n");
    assert_int_equal(find_after(&ask, *state, "x_new", &found, NULL), 0);
    assert_string_equal(found.path, expected);
    assert_int_equal(found.records, 2);
    assert_int_equal(found.bytes, 8);
    free(found.path);
    free(found.name);
}

static void a_folder_that_is_not_there_yet_or_not_for_us_has_no_files(void **state)
{
    cleanup_free char *pattern = path_join(*state, "*/x"), *locked = path_join(*state, "locked");
    const struct collect ask = {.left = {.option = "--collect", .pattern = pattern}};
    struct collected found;
    struct err err = {0};
    put(*state, "a-file", "");
    assert_int_equal(mkdir(locked, 0), 0);
    int rc = find_after(&ask, *state, NULL, &found, &err);
    assert_int_equal(chmod(locked, 0700), 0);
    assert_int_equal(rc, ERR_DATA);
    assert_non_null(strstr(err.text, "it left no file that matches --collect"));
}

static void a_folder_that_cannot_be_read_is_not_one_without_files(void **state)
{
    cleanup_free char *pattern = path_join(*state, "x_*"), *plain = path_join(*state, "x_1");
    const struct collect asks[] = {{.left = {.option = "--collect", .pattern = pattern}},
                                   {.left.path = plain}};
    struct file_traces traces;
    struct rlimit before;
    struct err err = {0};
    put(*state, "x_1", "");
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){3, before.rlim_max}), 0);
    int rc = collect_before(&asks[0], &traces, &err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    file_traces_release(&traces);
    assert_int_equal(rc, ERR_SYS);
    assert_non_null(strstr(err.text, "read the folder of"));
    assert_int_equal(collect_before(&asks[1], &traces, &err), 0);
    assert_int_equal(traces.len, 1);
    file_traces_release(&traces);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, folder_make, folder_drop)
    const struct CMUnitTest tests[] = {
        TEST(the_new_file_is_found_among_old_ones),
        TEST(a_folder_that_is_not_there_yet_or_not_for_us_has_no_files),
        TEST(a_folder_that_cannot_be_read_is_not_one_without_files),
    };
    return cmocka_run_group_tests_name("collect", tests, NULL, NULL);
}
