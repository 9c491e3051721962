/* SPDX-License-Identifier: Apache-2.0
 *
 * Machines are hwloc's synthetic ones, whose CPUs are numbered in order.
 */
#include "unit/test.h"

#include "device/cpu_share.h"
#include "devices.h"

/* Two sockets with two NUMA nodes each, of two caches with two cores: 4 CPUs a cache, 8 a node, 32 in all. */
#define FOUR_NODES "pack:2 numa:2 l3:2 core:2 pu:2"
#define ONE_NODE   "pack:1 numa:1 l3:1 core:6 pu:2"
#define NO_CACHES  "pack:2 numa:1 core:3 pu:1"
/* An Epyc-like one, whose nodes have three caches. */
#define THREES "pack:1 numa:2 l3:3 core:2 pu:1"

struct scene {
    const char *machine, *allowed; /* CPUs that this process may run on; NULL: all */
    const char *gpu_nodes;         /* "0,0,1"; "": no GPUs */
    uint32_t n_ranks;
    enum numa_binding binding;
    const char *wanted; /* CPUs and threads of each rank, or the error */
};

static int machine_forget(void **state)
{
    (void)state;
    unsetenv("HWLOC_SYNTHETIC");
    return 0;
}

static struct cpu_cores cores_of(const struct scene *scene)
{
    struct cpu_cores cores;
    cpu_set_t allowed;
    setenv("HWLOC_SYNTHETIC", scene->machine, 1);
    cpu_cores_list(&cores);
    if (scene->allowed) {
        assert_true(cpulist_parse(str_of(scene->allowed), &allowed));
        for (size_t c = 0; c < cores.len; c++)
            CPU_AND(&cores.at[c].cpus, &cores.at[c].cpus, &allowed);
    }
    return cores;
}

static size_t nodes_of(const char *text, int *out)
{
    size_t n = 0;
    for (; *text; text += *text == ',') {
        char *end;
        out[n++] = (int)strtol(text, &end, 10);
        text = end;
    }
    return n;
}

static void scene_check(const struct scene *scene)
{
    struct cpu_cores cores = cores_of(scene);
    struct cpu_share shares[16];
    struct err err = {0};
    struct buf text = BUF_INIT;
    int nodes[16];
    size_t n_gpus = nodes_of(scene->gpu_nodes, nodes);
    const struct cpu_wish wish = {.binding = scene->binding, .n_ranks = scene->n_ranks};
    if (cpu_shares_make(&wish, &cores, nodes, n_gpus, shares, &err) != 0)
        buf_add_text(&text, err.text);
    for (uint32_t i = 0; !err.code && i < scene->n_ranks; i++) {
        buf_add_text(&text, i > 0 ? " " : "");
        cpulist_format(&text, &shares[i].cpus);
        buf_addf(&text, ":%u", shares[i].threads);
    }
    assert_string_equal(buf_text(&text), scene->wanted);
    buf_release(&text);
    cpu_cores_release(&cores);
}

static void scenes_check(const struct scene *scenes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        scene_check(&scenes[i]);
}

static void by_node_a_rank_has_all_cpus_of_the_node_of_its_gpu(void **state)
{
    (void)state;
    static const struct scene scenes[] = {
        {FOUR_NODES, NULL, "1,3", 2, NUMA_BINDING_NODE, "8-15:4 24-31:4"},
        {FOUR_NODES, NULL, "0,0,2,2", 4, NUMA_BINDING_NODE, "0-7:2 0-7:2 16-23:2 16-23:2"},
        {FOUR_NODES, NULL, "3,2,1,0", 2, NUMA_BINDING_NODE, "24-31:4 16-23:4"},
        {FOUR_NODES, "2-9", "0,1", 2, NUMA_BINDING_NODE, "2-7:3 8,9:1"},
        {FOUR_NODES, "1,3", "0", 1, NUMA_BINDING_NODE, "1,3:2"},
        {ONE_NODE, NULL, "-1,-1", 2, NUMA_BINDING_NODE, "0-11:3 0-11:3"},
    };
    scenes_check(scenes, countof(scenes));
}

static void by_socket_it_has_all_nodes_of_the_socket(void **state)
{
    (void)state;
    static const struct scene scenes[] = {
        {FOUR_NODES, NULL, "1,3", 2, NUMA_BINDING_SOCKET, "0-15:8 16-31:8"},
        {FOUR_NODES, NULL, "0,1,2", 3, NUMA_BINDING_SOCKET, "0-15:4 0-15:4 16-31:8"},
        {FOUR_NODES, "4-11", "1", 1, NUMA_BINDING_SOCKET, "4-11:4"},
        {NO_CACHES, NULL, "1", 1, NUMA_BINDING_SOCKET, "3-5:3"},
    };
    scenes_check(scenes, countof(scenes));
}

static void an_exclusive_share_is_of_whole_cores_and_no_other_rank_has_them(void **state)
{
    (void)state;
    static const struct scene scenes[] = {
        {FOUR_NODES, NULL, "0,0,0", 3, NUMA_BINDING_EXCLUSIVE, "0-3:2 4,5:1 6,7:1"},
        {FOUR_NODES, NULL, "1,0,1,0", 4, NUMA_BINDING_EXCLUSIVE, "8-11:2 0-3:2 12-15:2 4-7:2"},
        /* GPUs without a rank keep their share */
        {FOUR_NODES, NULL, "0,0,0,0", 2, NUMA_BINDING_EXCLUSIVE, "0,1:1 2,3:1"},
        {FOUR_NODES, "1,2,4,6-7", "0,0", 2, NUMA_BINDING_EXCLUSIVE, "1,2:2 4,6,7:2"},
        {ONE_NODE, NULL, "-1,-1,-1,-1", 4, NUMA_BINDING_EXCLUSIVE, "0-3:2 4-7:2 8,9:1 10,11:1"},
        {NO_CACHES, NULL, "0,0,0,0", 4, NUMA_BINDING_EXCLUSIVE,
         "--numa-binding: exclusive: NUMA node 0 has 3 cores for 4 GPUs, which need one each"},
    };
    scenes_check(scenes, countof(scenes));
}

static void core_complexes_are_handed_out_in_turn_the_largest_first(void **state)
{
    (void)state;
    static const struct scene scenes[] = {
        {FOUR_NODES, NULL, "0,0,3", 3, NUMA_BINDING_CORE_COMPLEX, "0-3:2 4-7:2 24-27:2"},
        {FOUR_NODES, NULL, "0,0,0", 3, NUMA_BINDING_CORE_COMPLEX, "0-3:1 4-7:2 0-3:1"},
        {FOUR_NODES, "0-2,4-7", "0,0", 2, NUMA_BINDING_CORE_COMPLEX, "4-7:2 0-2:2"},
        {THREES, NULL, "1,1,1,0", 4, NUMA_BINDING_CORE_COMPLEX, "6,7:2 8,9:2 10,11:2 0,1:2"},
        {NO_CACHES, NULL, "1,1", 2, NUMA_BINDING_CORE_COMPLEX, "3-5:1 3-5:1"},
    };
    scenes_check(scenes, countof(scenes));
}

static void without_gpus_ranks_are_spread_over_the_nodes(void **state)
{
    (void)state;
    static const struct scene scenes[] = {
        {FOUR_NODES, NULL, "", 4, NUMA_BINDING_NODE, "0-7:4 8-15:4 16-23:4 24-31:4"},
        {FOUR_NODES, NULL, "", 2, NUMA_BINDING_NODE, "0-7:4 16-23:4"},
        {FOUR_NODES, NULL, "", 6, NUMA_BINDING_NODE, "0-7:2 0-7:2 8-15:4 16-23:2 16-23:2 24-31:4"},
        {FOUR_NODES, "8-31", "", 3, NUMA_BINDING_EXCLUSIVE, "8-15:4 16-23:4 24-31:4"},
        {FOUR_NODES, NULL, "", 1, NUMA_BINDING_SOCKET, "0-15:8"},
        {THREES, NULL, "", 3, NUMA_BINDING_EXCLUSIVE, "0-2:3 3-5:3 6-11:6"},
        {NO_CACHES, "0", "", 2, NUMA_BINDING_EXCLUSIVE,
         "--numa-binding: exclusive: NUMA node 0 has 1 core for 2 ranks, which need one each"},
    };
    scenes_check(scenes, countof(scenes));
}

static void threads_are_divided_without_a_binding_too(void **state)
{
    (void)state;
    static const struct scene scenes[] = {
        {FOUR_NODES, NULL, "0,0,1,1", 4, NUMA_BINDING_NONE, ":4 :4 :4 :4"},
        {ONE_NODE, NULL, "", 4, NUMA_BINDING_NONE, ":1 :1 :1 :1"},
        {ONE_NODE, "0-3", "", 1, NUMA_BINDING_NONE, ":2"},
        {NO_CACHES, NULL, "", 12, NUMA_BINDING_NONE, ":1 :1 :1 :1 :1 :1 :1 :1 :1 :1 :1 :1"},
    };
    scenes_check(scenes, countof(scenes));
}

static void what_cannot_be_is_said(void **state)
{
    (void)state;
    static const struct scene scenes[] = {
        {FOUR_NODES, NULL, "0,1", 3, NUMA_BINDING_NODE,
         "--numa-binding: 3 ranks need a GPU each, and there are 2 here"},
        {FOUR_NODES, NULL, "0,-1", 2, NUMA_BINDING_NODE,
         "--numa-binding: the system does not say which NUMA node GPU 1 is near"},
        {FOUR_NODES, "0-7", "0,1", 2, NUMA_BINDING_SOCKET,
         "--numa-binding: GPU 1 is near NUMA node 1, where this process may not run"},
    };
    scenes_check(scenes, countof(scenes));
}

static void the_nodes_of_gpus_are_those_of_the_device_list(void **state)
{
    (void)state;
    struct device_list list = gpus(4);
    struct cpu_share *shares;
    struct buf text = BUF_INIT;
    static const size_t positions[] = {3, 0};
    setenv("HWLOC_SYNTHETIC", FOUR_NODES, 1);
    assert_int_equal(cpu_shares_of(&(struct cpu_wish){.binding = NUMA_BINDING_NODE, .n_ranks = 2},
                                   &list, positions, countof(positions), &shares, NULL),
                     0);
    cpulist_format(&text, &shares[0].cpus);
    assert_string_equal(buf_text(&text), "8-15");
    list.at[0].kind = list.at[3].kind = DEVICE_CPU; /* then both are spread */
    free(shares);
    assert_int_equal(cpu_shares_of(&(struct cpu_wish){.binding = NUMA_BINDING_NODE, .n_ranks = 2},
                                   &list, positions, countof(positions), &shares, NULL),
                     0);
    buf_reset(&text);
    cpulist_format(&text, &shares[1].cpus);
    assert_string_equal(buf_text(&text), "16-23");
    free(shares);
    buf_release(&text);
    device_list_release(&list);
}

static void modes_have_the_names_of_torchrun(void **state)
{
    (void)state;
    static const char *const names[] = {"node", "socket", "exclusive", "core-complex"};
    for (size_t i = 0; i < countof(names); i++) {
        int binding = NUMA_BINDING_NONE;
        assert_int_equal(choice_parse(str_of(names[i]), numa_bindings, &binding, NULL), 0);
        assert_int_equal(binding, NUMA_BINDING_NODE + (int)i);
    }
    int binding;
    struct err err = {0};
    assert_int_equal(choice_parse(STR("Node"), numa_bindings, &binding, &err), ERR_USAGE);
    assert_string_equal(err.text, "expected node, socket, exclusive or core-complex, found 'Node'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_node_a_rank_has_all_cpus_of_the_node_of_its_gpu),
        cmocka_unit_test(by_socket_it_has_all_nodes_of_the_socket),
        cmocka_unit_test(an_exclusive_share_is_of_whole_cores_and_no_other_rank_has_them),
        cmocka_unit_test(core_complexes_are_handed_out_in_turn_the_largest_first),
        cmocka_unit_test(without_gpus_ranks_are_spread_over_the_nodes),
        cmocka_unit_test(threads_are_divided_without_a_binding_too),
        cmocka_unit_test(what_cannot_be_is_said),
        cmocka_unit_test(the_nodes_of_gpus_are_those_of_the_device_list),
        cmocka_unit_test(modes_have_the_names_of_torchrun),
    };
    return cmocka_run_group_tests(tests, NULL, machine_forget);
}
