/* SPDX-License-Identifier: Apache-2.0 */
#include "kit.h"

#include <dirent.h>
#include <errno.h>

#define MIB (1ull << 20)
#define GIB (1ull << 30)

static void a_folder_is_judged_by_what_can_be_done_in_it(void **state)
{
    (void)state;
    struct facts *facts = fit_machine(0);
    expect(folder_judge, facts, "ok /data is local and writable");
    facts->folder.is_network = true;
    expect(folder_judge, facts, "warn /data: on a network file system, or FUSE");
    facts->folder.is_deleted = true;
    expect(folder_judge, facts, "fail /data: the current folder was deleted");
    facts->folder.is_deleted = false;
    facts->folder.sys = EACCES;
    snprintf(facts->folder.failed, 32, "make a file in it");
    expect(folder_judge, facts, "fail /data: make a file in it: Permission denied");
    facts->has_folder = false;
    expect(folder_judge, facts, "fail /data/muster-runs: no answer within 4000 ms");
    expect(disk_judge, facts, "");
    machine_free(facts);
}

static void a_disk_is_judged_by_room_and_speed(void **state)
{
    (void)state;
    struct facts *facts = fit_machine(0);
    struct folder_facts *folder = &facts->folder;
    expect(disk_judge, facts, "ok 512 GiB free, written and synced at 640 MiB/s");
    folder->free_bytes = 9 * GIB;
    expect(disk_judge, facts, "warn /data: 9.0 GiB of 1.0 TiB free");
    folder->free_bytes = 5 * MIB;
    expect(disk_judge, facts, "fail /data: 5.0 MiB of 1.0 TiB free");
    folder->free_bytes = 512 * GIB;
    folder->files = 1000000;
    folder->files_free = 12;
    expect(disk_judge, facts, "fail /data: 12 of 1000000 inodes free");
    folder->files = 0; /* btrfs counts none */
    folder->took_ns = 8000000000;
    expect(disk_judge, facts, "warn /data: written and synced at 8.0 MiB/s");
    folder->sys = ENOSPC; /* and quota */
    expect_begin(disk_judge, facts, "fail /data: 512 GiB of 1.0 TiB free");
    machine_free(facts);
}

static size_t entries_count(const char *folder)
{
    DIR *entries = opendir(folder);
    size_t count = 0;
    while (readdir(entries))
        count++;
    closedir(entries);
    return count;
}

static void a_folder_is_measured_and_nothing_is_left_in_it(void **state)
{
    (void)state;
    struct folder_facts facts = {0};
    char *root = root_new();
    char *below = xasprintf("%s/not/there/yet", root);
    folder_gather(below, &facts);
    assert_string_equal(facts.existing, root);
    assert_string_equal(facts.path, below);
    assert_int_equal(facts.sys, 0);
    assert_true(facts.written_bytes > 0 && facts.written_bytes <= 64 * MIB && facts.took_ns > 0);
    assert_true(facts.size_bytes > 0);
    assert_true(facts.skew_ms > -2000 && facts.skew_ms < 2000);
    assert_int_equal(entries_count(root), 2); /* . and .. */
    free(below);
    root_free(root);
}

static void a_folder_that_cannot_be_written_says_why(void **state)
{
    (void)state;
    struct folder_facts facts = {0};
    folder_gather("/proc/self/net", &facts);
    assert_int_not_equal(facts.sys, 0);
    assert_string_equal(facts.failed, "make a file in it");
    assert_int_equal(facts.written_bytes, 0);
    /* its parent could be written, and it could not be made */
    char name[400] = "/tmp/";
    memset(name + 5, 'a', 300);
    facts = (struct folder_facts){0};
    folder_gather(name, &facts);
    assert_int_equal(facts.sys, ENAMETOOLONG);
    assert_string_equal(facts.existing, "/tmp");
}

static void a_current_folder_that_was_deleted_is_known(void **state)
{
    (void)state;
    struct folder_facts facts = {0};
    char folder[] = "/tmp/muster-test-XXXXXX", before[4096];
    assert_non_null(getcwd(before, sizeof(before)));
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    folder_gather("muster-runs", &facts);
    assert_false(facts.is_deleted);
    assert_int_equal(rmdir(folder), 0);
    facts = (struct folder_facts){0};
    folder_gather("muster-runs", &facts);
    assert_true(facts.is_deleted);
    assert_int_equal(facts.sys, ENOENT); /* so nothing is said of the speed of its disk */
    assert_int_equal(facts.written_bytes, 0);
    facts = (struct folder_facts){0};
    folder_gather("/tmp", &facts);
    assert_false(facts.is_deleted);
    assert_int_equal(chdir(before), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_is_judged_by_what_can_be_done_in_it),
        cmocka_unit_test(a_disk_is_judged_by_room_and_speed),
        cmocka_unit_test(a_folder_is_measured_and_nothing_is_left_in_it),
        cmocka_unit_test(a_folder_that_cannot_be_written_says_why),
        cmocka_unit_test(a_current_folder_that_was_deleted_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
