/* SPDX-License-Identifier: Apache-2.0
 *
 * A /sys with files of both versions of cgroups, of which this machine's /proc/self/cgroup names one or both.
 */
#include "unit/test.h"

#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "proc/oom.h"

static void file_write(const char *sys, const char *name, const char *text)
{
    cleanup_free char *path = path_join(sys, name);
    cleanup_free char *folder = path_dirname(path);
    assert_int_equal(mkdir_parents(folder, 0777, NULL), 0);
    assert_int_equal(file_replace_fast(path, str_of(text), NULL), 0);
}

static void kills_write(const char *sys, const char *line)
{
    cleanup_buf struct buf two = BUF_INIT, one = BUF_INIT;
    buf_addf(&two, "low 0\nhigh 7\nmax 3\noom 9\n%s\noom_group_kill 0\n", line);
    buf_addf(&one, "oom_kill_disable 0\nunder_oom 0\n%s\n", line);
    file_write(sys, "fs/cgroup/memory.events", buf_text(&two));
    file_write(sys, "fs/cgroup/memory/memory.oom_control", buf_text(&one));
}

static int sys_make(void **state)
{
    char *sys = xstrdup("/tmp/muster-test-oom-XXXXXX");
    *state = mkdtemp(sys);
    setenv("MUSTER_SYSFS", sys, 1);
    return *state ? 0 : -1;
}

static int sys_remove(void **state)
{
    int rc = remove_tree(*state, NULL);
    free(*state);
    return rc;
}

static void the_count_of_our_own_cgroup_is_told_from_the_machines(void **state)
{
    kills_write(*state, "oom_kill 4");
    struct oom_counts before = oom_counts_read();
    if (!before.knows_own)
        skip(); /* a machine without memory cgroups */
    assert_int_equal(before.own, 4);
    kills_write(*state, "oom_kill 6");
    struct oom_counts after = oom_counts_read();
    assert_int_equal(after.own, 6);
    kills_write(*state, "oom_kills 6");
    assert_false(oom_counts_read().knows_own);
}

static void the_memory_is_the_cgroups_limit_or_all_there_is(void **state)
{
    kills_write(*state, "oom_kill 0");
    if (!oom_counts_read().knows_own)
        skip();
    uint64_t all = oom_memory_bytes();
    assert_true(all > 64 << 20);
    file_write(*state, "fs/cgroup/memory.max", "max\n");
    file_write(*state, "fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    assert_int_equal(oom_memory_bytes(), all);
    file_write(*state, "fs/cgroup/memory.max", "67108864\n");
    file_write(*state, "fs/cgroup/memory/memory.limit_in_bytes", "67108864\n");
    assert_int_equal(oom_memory_bytes(), 64 << 20);
}

/* Writes a limit of this group and of all groups above it. As in the kernel, the mount has none. */
static void groups_write(const char *sys, const char *mount, struct str group, const char *file,
                         const char *text)
{
    for (size_t len = group.len; len > 1; len--) {
        if (len < group.len && group.at[len] != '/')
            continue;
        cleanup_free char *name = xasprintf("%s%.*s/%s", mount, (int)len, group.at, file);
        file_write(sys, name, text);
    }
}

static void a_limit_of_a_group_above_holds_too(void **state)
{
    cleanup_buf struct buf text = BUF_INIT;
    if (file_read("/proc/self/cgroup", 1 << 16, &text, NULL) != 0)
        skip();
    uint64_t all = oom_memory_bytes();
    struct str rest = buf_str(&text), line, number, names;
    while (str_next(&rest, '\n', &line))
        if (str_next(&line, ':', &number) && str_next(&line, ':', &names)) {
            groups_write(*state, "fs/cgroup", line, "memory.max", "max\n");
            groups_write(*state, "fs/cgroup/memory", line, "memory.limit_in_bytes",
                         "9223372036854771712\n");
        }
    assert_int_equal(oom_memory_bytes(), all);
    file_write(*state, "fs/cgroup/memory/memory.limit_in_bytes", "67108864\n");
    if (oom_memory_bytes() == all)
        file_write(*state, "fs/cgroup/memory.max", "67108864\n");
    assert_int_equal(oom_memory_bytes(), 64 << 20);
}

static void a_kill_of_long_ago_or_of_another_death_says_nothing(void **state)
{
    struct oom_watch watch;
    kills_write(*state, "oom_kill 4");
    oom_watch_begin(&watch, 1000);
    if (!oom_watch_kills(&watch).knows_own)
        skip();
    kills_write(*state, "oom_kill 6");
    assert_int_equal(oom_watch_kills(&watch).own, 2);
    oom_watch_explained(&watch);
    assert_int_equal(oom_watch_kills(&watch).own, 1);
    for (uint64_t now_ms = 1000; now_ms < 20000; now_ms += 100)
        oom_watch_look(&watch, now_ms);
    assert_int_equal(oom_watch_kills(&watch).own, 1);
    for (uint64_t now_ms = 20000; now_ms < 40000; now_ms += 100)
        oom_watch_look(&watch, now_ms);
    assert_int_equal(oom_watch_kills(&watch).own, 0);
}

#define WITH_SYS(test) cmocka_unit_test_setup_teardown(test, sys_make, sys_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_SYS(the_count_of_our_own_cgroup_is_told_from_the_machines),
        WITH_SYS(the_memory_is_the_cgroups_limit_or_all_there_is),
        WITH_SYS(a_limit_of_a_group_above_holds_too),
        WITH_SYS(a_kill_of_long_ago_or_of_another_death_says_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
