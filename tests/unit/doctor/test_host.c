/* SPDX-License-Identifier: Apache-2.0 */
#include "kit.h"

#include "base/cleanup.h"

#define MIB (1ull << 20)
#define GIB (1ull << 30)

static void shared_memory(void **state)
{
    (void)state;
    static const struct {
        uint64_t bytes, free_bytes;
        const char *wanted;
    } cases[] = {
        {64 * MIB, 64 * MIB, "fail /dev/shm: 64.0 MiB"}, /* Docker's default */
        {65 * MIB, 65 * MIB, "warn /dev/shm: 65.0 MiB"},
        {GIB, GIB, "ok /dev/shm: 1.0 GiB of 1.0 GiB free"},
        {100 * GIB, 9 * GIB, "warn /dev/shm: 9.0 GiB of 100 GiB left"},
    };
    struct facts *facts = fit_machine(0);
    for (size_t i = 0; i < countof(cases); i++) {
        facts->host.shm_bytes = cases[i].bytes;
        facts->host.shm_free_bytes = cases[i].free_bytes;
        expect(shm_judge, facts, cases[i].wanted);
    }
    facts->host.has_shm = false;
    expect(shm_judge, facts, "fail /dev/shm: not there, or not writable");
    machine_free(facts);
}

static void limits(void **state)
{
    (void)state;
    struct facts *facts = fit_machine(0);
    expect(limits_judge, facts, "ok 65536 open files, any amount of locked memory");
    facts->host.open_files = 1023;
    expect(limits_judge, facts, "fail open files: at most 1023 (hard limit 65536)");
    facts->host.open_files = 1024;
    expect(limits_judge, facts, "warn open files: at most 1024 (hard limit 65536)");
    facts->host.open_files = UINT64_MAX;
    expect(limits_judge, facts, "ok any number of open files, any amount of locked memory");
    facts->host.memlock_bytes = 64 << 10; /* matters to InfiniBand alone */
    expect(limits_judge, facts, "ok any number of open files, 64.0 KiB of locked memory");
    facts->host.has_infiniband = true;
    expect(limits_judge, facts, "warn locked memory: at most 64.0 KiB");
    facts->host.memlock_bytes = UINT64_MAX;
    facts->host.address_space_bytes = 16 * GIB;
    facts->host.file_size_bytes = GIB;
    expect(limits_judge, facts,
           "warn address space: at most 16.0 GiB; warn file size: at most 1.0 GiB");
    facts->host.address_space_bytes = UINT64_MAX;
    facts->host.file_size_bytes = 10 << 10;
    expect(limits_judge, facts, "fail file size: at most 10.0 KiB");
    machine_free(facts);
}

static void the_clock(void **state)
{
    (void)state;
    struct facts *facts = fit_machine(0);
    expect_begin(clock_judge, facts, "ok 2027-");
    facts->folder.skew_ms = -5300;
    expect(clock_judge, facts, "warn the file system of the run folder is 5.3 s behind");
    facts->folder.skew_ms = 61000;
    expect(clock_judge, facts, "warn the file system of the run folder is 61.0 s ahead");
    facts->has_folder = false;
    expect_begin(clock_judge, facts, "ok");
    facts->host.wall_ms = 0;
    expect_begin(clock_judge, facts, "fail it is said to be 1970-");
    machine_free(facts);
}

static void memory(void **state)
{
    (void)state;
    struct facts *facts = fit_machine(0);
    expect(memory_judge, facts, "ok 60.0 GiB of 64.0 GiB available, no lower limit");
    facts->cgroup.mem_max_bytes = 63 * GIB; /* less than the rest that a machine keeps */
    expect_begin(memory_judge, facts, "ok");
    facts->cgroup.mem_max_bytes = 8 * GIB;
    expect(memory_judge, facts, "warn limited to 8.0 GiB of the machine's 64.0 GiB");
    facts->cgroup.mem_max_bytes = 0;
    facts->host.mem_available_bytes = GIB;
    expect(memory_judge, facts, "warn 1.0 GiB of 64.0 GiB available");
    machine_free(facts);
}

static void cores(void **state)
{
    (void)state;
    struct facts *facts = fit_machine(0);
    expect(cpus_judge, facts,
           "ok 32 threads, no quota; control groups may not be made, and are not needed");
    facts->cgroup.is_ours = true;
    expect(cpus_judge, facts, "ok 32 threads, no quota; control groups may be made");
    facts->host.cpus_allowed = 4;
    expect(cpus_judge, facts,
           "ok 4 of the machine's 32 threads, by affinity; control groups may be made");
    facts->cgroup.cpus_max = 3.9;
    expect_begin(cpus_judge, facts, "ok");
    facts->cgroup.cpus_max = 1.5;
    facts->cgroup.pids_max = 100;
    expect(cpus_judge, facts,
           "warn a quota of 1.5 cores, and 4 are seen; warn at most 100 processes and threads");
    assert_int_equal(cores_usable(facts), 1);
    machine_free(facts);
}

static void groups_read(const char *root, struct cgroup_facts *out)
{
    cleanup_free char *groups = xasprintf("%s/proc/self/cgroup", root);
    cleanup_free char *mounts = xasprintf("%s/sys/fs/cgroup", root);
    cgroup_gather(groups, mounts, out);
}

static void groups_of_version_two(void **state)
{
    (void)state;
    char *root = root_new();
    struct cgroup_facts facts = {0};
    file_put(root, "/proc/self/cgroup", "0::/a/b\n");
    file_put(root, "/sys/fs/cgroup/a/b/memory.max", "max\n");
    file_put(root, "/sys/fs/cgroup/a/b/cpu.max", "200000 100000\n");
    file_put(root, "/sys/fs/cgroup/a/memory.max",
             "8589934592\n"); /* of the group above: it holds */
    file_put(root, "/sys/fs/cgroup/a/cpu.max", "max 100000\n");
    file_put(root, "/sys/fs/cgroup/a/pids.max", "512\n");
    groups_read(root, &facts);
    assert_true(facts.mem_max_bytes == 8 * GIB);
    assert_true(facts.cpus_max > 1.99 && facts.cpus_max < 2.01);
    assert_int_equal(facts.pids_max, 512);
    root_free(root);
}

static void groups_of_version_one(void **state)
{
    (void)state;
    char *root = root_new();
    struct cgroup_facts facts = {0};
    file_put(root, "/proc/self/cgroup",
             "4:memory:/docker/77\n2:cpu,cpuacct:/docker/77\n1:name=systemd:/\n");
    /* inside of the container the path is not there: the mount is the group itself */
    file_put(root, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n");
    file_put(root, "/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n");
    file_put(root, "/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    groups_read(root, &facts);
    assert_true(facts.mem_max_bytes == 2 * GIB);
    assert_true(facts.cpus_max > 0.49 && facts.cpus_max < 0.51);
    facts = (struct cgroup_facts){0};
    file_put(root, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    file_put(root, "/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    groups_read(root, &facts);
    assert_true(facts.mem_max_bytes == 0 && facts.cpus_max <= 0);
    root_free(root);
}

static void a_host_is_read_from_its_files(void **state)
{
    (void)state;
    char *root = root_new();
    struct host_facts facts = {0};
    file_put(root, "/proc/meminfo",
             "MemTotal:       1024 kB\nMemFree: 1 kB\nMemAvailable:    512 kB\n");
    file_put(root, "/sys/class/infiniband/mlx5_0", "");
    host_gather(root, &facts);
    assert_int_equal(facts.mem_total_bytes, MIB);
    assert_int_equal(facts.mem_available_bytes, MIB / 2);
    assert_true(facts.has_infiniband && !facts.has_shm && facts.cpus_allowed >= 1);
    assert_true(facts.open_files > 0);
    file_put(root, "/dev/shm/x", "");
    host_gather(root, &facts);
    assert_true(facts.has_shm && facts.shm_bytes > 0);
    root_free(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shared_memory),
        cmocka_unit_test(limits),
        cmocka_unit_test(the_clock),
        cmocka_unit_test(memory),
        cmocka_unit_test(cores),
        cmocka_unit_test(groups_of_version_two),
        cmocka_unit_test(groups_of_version_one),
        cmocka_unit_test(a_host_is_read_from_its_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
