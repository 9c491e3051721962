/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/fs.h"
#include "device/topology.h"
#include "devices.h"

static int tree_make(void **state)
{
    *state = mkdtemp(xstrdup("/tmp/muster-test-sys-XXXXXX"));
    setenv("MUSTER_SYSFS", *state, 1);
    unsetenv("HWLOC_XMLFILE");
    unsetenv("HWLOC_SYNTHETIC");
    return *state ? 0 : -1;
}

static int tree_remove(void **state)
{
    int rc = remove_tree(*state, NULL);
    unsetenv("MUSTER_SYSFS");
    unsetenv("HWLOC_XMLFILE");
    unsetenv("HWLOC_SYNTHETIC");
    free(*state);
    return rc;
}

static char *put(const char *root, const char *name, const char *text)
{
    char *path = path_join(root, name), *folder = path_dirname(path);
    assert_int_equal(mkdir_parents(folder, 0700, NULL), 0);
    assert_int_equal(file_replace_fast(path, str_of(text), NULL), 0);
    free(folder);
    return path;
}

static void cpulist_text(const cpu_set_t *cpus, struct buf *out)
{
    buf_reset(out);
    cpulist_format(out, cpus);
}

static void lists_of_cores_are_read_as_the_kernel_writes_them(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is_valid;
        const char *back;
    } cases[] = {
        {"0-3,8\n", true, "0-3,8"}, {"\n", true, ""}, {"7", true, "7"},
        {"3-1", false, ""},         {"x", false, ""},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        cpu_set_t cpus;
        struct buf back = BUF_INIT;
        assert_int_equal(cpulist_parse(str_of(cases[i].text), &cpus), cases[i].is_valid);
        cpulist_text(&cpus, &back);
        assert_string_equal(buf_text(&back), cases[i].back);
        buf_release(&back);
    }
}

static void a_gpu_is_located_by_sysfs(void **state)
{
    static const struct {
        const char *node, *cpus;
        int numa_node;
        const char *wanted;
    } cases[] = {
        {"1\n", "8-15,24-31\n", 1, "8-15,24-31"},
        {"-1\n", "0-31\n", -1, ""}, /* no NUMA: every core is as near */
        {"0\n", "rubbish\n", 0, ""},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct device_list list = gpus(1);
        struct buf text = BUF_INIT;
        list.at[0].numa_node = -1;
        free(put(*state, "bus/pci/devices/0000:10:00.0/numa_node", cases[i].node));
        free(put(*state, "bus/pci/devices/0000:10:00.0/local_cpulist", cases[i].cpus));
        device_locate(&list.at[0]);
        cpulist_text(&list.at[0].cpus, &text);
        assert_int_equal(list.at[0].numa_node, cases[i].numa_node);
        assert_string_equal(buf_text(&text), cases[i].wanted);
        buf_release(&text);
        device_list_release(&list);
    }
}

/* Two packages with a NUMA node each, the GPU below the second one's host bridge. */
static const char machine_xml[] =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
    "<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
    "<topology version=\"2.0\">\n"
    "<object type=\"Machine\" os_index=\"0\" cpuset=\"0x3\" complete_cpuset=\"0x3\" "
    "nodeset=\"0x3\" complete_nodeset=\"0x3\" allowed_cpuset=\"0x3\" allowed_nodeset=\"0x3\" "
    "gp_index=\"1\">\n"
    "<object type=\"Package\" os_index=\"0\" cpuset=\"0x1\" complete_cpuset=\"0x1\" "
    "nodeset=\"0x1\" complete_nodeset=\"0x1\" gp_index=\"2\">\n"
    "<object type=\"NUMANode\" os_index=\"0\" cpuset=\"0x1\" complete_cpuset=\"0x1\" "
    "nodeset=\"0x1\" complete_nodeset=\"0x1\" gp_index=\"3\" local_memory=\"1073741824\"/>\n"
    "<object type=\"Core\" os_index=\"0\" cpuset=\"0x1\" complete_cpuset=\"0x1\" nodeset=\"0x1\" "
    "complete_nodeset=\"0x1\" gp_index=\"4\">\n"
    "<object type=\"PU\" os_index=\"0\" cpuset=\"0x1\" complete_cpuset=\"0x1\" nodeset=\"0x1\" "
    "complete_nodeset=\"0x1\" gp_index=\"5\"/>\n"
    "</object>\n"
    "</object>\n"
    "<object type=\"Package\" os_index=\"1\" cpuset=\"0x2\" complete_cpuset=\"0x2\" "
    "nodeset=\"0x2\" complete_nodeset=\"0x2\" gp_index=\"6\">\n"
    "<object type=\"NUMANode\" os_index=\"1\" cpuset=\"0x2\" complete_cpuset=\"0x2\" "
    "nodeset=\"0x2\" complete_nodeset=\"0x2\" gp_index=\"7\" local_memory=\"1073741824\"/>\n"
    "<object type=\"Core\" os_index=\"1\" cpuset=\"0x2\" complete_cpuset=\"0x2\" nodeset=\"0x2\" "
    "complete_nodeset=\"0x2\" gp_index=\"8\">\n"
    "<object type=\"PU\" os_index=\"1\" cpuset=\"0x2\" complete_cpuset=\"0x2\" nodeset=\"0x2\" "
    "complete_nodeset=\"0x2\" gp_index=\"9\"/>\n"
    "</object>\n"
    "<object type=\"Bridge\" gp_index=\"10\" bridge_type=\"0-1\" depth=\"0\" "
    "bridge_pci=\"0000:[0f-1f]\">\n"
    "<object type=\"PCIDev\" gp_index=\"11\" pci_busid=\"0000:10:00.0\" pci_type=\"0302 "
    "[10de:2335] [10de:18be] a1\" pci_link_speed=\"0.000000\"/>\n"
    "</object>\n"
    "</object>\n"
    "</object>\n"
    "</topology>\n";

static void a_topology_from_a_file_decides_where_it_is_given(void **state)
{
    struct device_list list = gpus(1);
    struct buf text = BUF_INIT;
    char *path = put(*state, "machine.xml", machine_xml);
    setenv("HWLOC_XMLFILE", path, 1);
    list.at[0].numa_node = -1;
    device_locate(&list.at[0]);
    cpulist_text(&list.at[0].cpus, &text);
    assert_int_equal(list.at[0].numa_node, 1);
    assert_string_equal(buf_text(&text), "1");
    free(path);
    buf_release(&text);
    device_list_release(&list);
}

static void slots_share_out_the_cores(void **state)
{
    (void)state;
    static const struct {
        const char *machine;
        uint32_t n_slots;
        const char *cpus; /* of the slots, in order */
    } cases[] = {
        {"pack:1 numa:1 core:4 pu:1", 0, "0 1 2 3 "},
        {"pack:1 numa:1 core:4 pu:2", 0, "0,1 2,3 4,5 6,7 "},
        {"pack:1 numa:1 core:4 pu:1", 2, "0,1 2,3 "},
        {"pack:1 numa:1 core:4 pu:1", 3, "0 1 2,3 "},
        {"pack:1 numa:1 core:2 pu:1", 4, "0 0 1 1 "},
        {"pack:2 numa:1 core:2 pu:1", 2, "0,1 2,3 "},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct device_list list;
        struct buf text = BUF_INIT;
        setenv("HWLOC_SYNTHETIC", cases[i].machine, 1);
        cpu_devices(cases[i].n_slots, &list);
        for (size_t s = 0; s < list.len; s++) {
            cpulist_format(&text, &list.at[s].cpus);
            buf_add_char(&text, ' ');
        }
        assert_string_equal(buf_text(&text), cases[i].cpus);
        assert_string_equal(list.at[1].uuid, "cpu-1");
        assert_int_equal(list.at[1].kind, DEVICE_CPU);
        buf_release(&text);
        device_list_release(&list);
    }
}

static void without_hwloc_the_siblings_files_tell_the_cores(void **state)
{
    struct core_list cores;
    cpu_set_t allowed;
    struct buf text = BUF_INIT;
    assert_int_equal(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
    cores_list(&cores);
    assert_int_equal(cores.len, CPU_COUNT(&allowed)); /* no files: every thread is a core */
    core_list_release(&cores);
    /* all of them hardware threads of one core */
    cpulist_format(&text, &allowed);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        char name[96];
        snprintf(name, sizeof(name), "devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
        if (CPU_ISSET(cpu, &allowed))
            free(put(*state, name, buf_text(&text)));
    }
    cores_list(&cores);
    assert_int_equal(cores.len, 1);
    assert_true(CPU_EQUAL(&cores.at[0], &allowed));
    core_list_release(&cores);
    buf_release(&text);
}

#define WITH_TREE(test) cmocka_unit_test_setup_teardown(test, tree_make, tree_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_of_cores_are_read_as_the_kernel_writes_them),
        WITH_TREE(a_gpu_is_located_by_sysfs),
        WITH_TREE(a_topology_from_a_file_decides_where_it_is_given),
        WITH_TREE(slots_share_out_the_cores),
        WITH_TREE(without_hwloc_the_siblings_files_tell_the_cores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
