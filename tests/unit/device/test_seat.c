/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include <unistd.h>

#include "device/seat.h"
#include "devices.h"

/* "gpu_0+1 gpu_2+3": the labels of the seats, or the error. */
static void labels(struct buf *out, const struct device_list *list, size_t n_chosen,
                   struct seat_opts opts)
{
    struct seat *seats = NULL;
    size_t chosen[16], n_seats = 0;
    struct err err = {0};
    for (size_t i = 0; i < n_chosen; i++)
        chosen[i] = i;
    int rc = seats_make(list, chosen, n_chosen, &opts, &seats, &n_seats, &err);
    for (size_t i = 0; i < n_seats && rc == 0; i++)
        buf_addf(out, i > 0 ? " %s" : "%s", seats[i].label);
    if (rc)
        buf_addf(out, "%d: %s", rc, err.text);
    free(seats);
}

static void seats_are_cut_and_labelled(void **state)
{
    (void)state;
    static const struct {
        size_t n_gpus;
        struct seat_opts opts;
        const char *labels;
    } cases[] = {
        {3, {0, 0}, "gpu_0 gpu_1 gpu_2"},
        {2, {0, 2}, "gpu_0_w0 gpu_1_w0 gpu_0_w1 gpu_1_w1"},
        {4, {2, 0}, "gpu_0+1 gpu_2+3"},
        {6, {3, 1}, "gpu_0+1+2 gpu_3+4+5"},
        {4, {2, 2}, "-3: several devices a worker and several workers a device exclude each other"},
        {0, {0, 0}, ""},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct device_list list = gpus(cases[i].n_gpus);
        struct buf text = BUF_INIT;
        labels(&text, &list, cases[i].n_gpus, cases[i].opts);
        assert_string_equal(buf_text(&text), cases[i].labels);
        buf_release(&text);
        device_list_release(&list);
    }
}

static void the_nearest_devices_share_a_seat(void **state)
{
    (void)state;
    struct device_list list = gpus(4);
    struct buf text = BUF_INIT;
    /* NUMA nodes 0 1 0 1 */
    for (size_t i = 0; i < list.len; i++)
        list.at[i].numa_node = (int)i % 2;
    labels(&text, &list, 4, (struct seat_opts){.devices_per_worker = 2});
    assert_string_equal(buf_text(&text), "gpu_0+2 gpu_1+3");
    /* an NVLink between 0 and 3, and 1 and 2, counts for more */
    static const uint8_t distance[] = {0,   150, 110, 10,  150, 0,   10,  110,
                                       110, 10,  0,   150, 10,  110, 150, 0};
    list.distance = xmalloc(sizeof(distance));
    memcpy(list.distance, distance, sizeof(distance));
    buf_reset(&text);
    labels(&text, &list, 4, (struct seat_opts){.devices_per_worker = 2});
    assert_string_equal(buf_text(&text), "gpu_0+3 gpu_1+2");
    buf_release(&text);
    device_list_release(&list);
}

static void what_does_not_fill_a_seat_is_left_over(void **state)
{
    (void)state;
    struct device_list list = gpus(5);
    struct buf notes = BUF_INIT;
    struct err err = {0};
    size_t chosen[] = {0, 1, 2, 3, 4}, n_chosen = 5;
    /* NUMA nodes 0 1 0 1 0: device 4 is in nobody's way. */
    for (size_t i = 0; i < list.len; i++)
        list.at[i].numa_node = (int)i % 2;
    assert_int_equal(seats_fit(&list, chosen, &n_chosen, 2, &notes, &err), 0);
    assert_int_equal(n_chosen, 4);
    assert_string_equal(buf_text(&notes), "gpu 4 is left over: a worker takes 2 devices\n");
    assert_int_equal(chosen[0] + chosen[1], 0 + 2);
    assert_int_equal(chosen[2] + chosen[3], 1 + 3);
    n_chosen = 1;
    assert_int_equal(seats_fit(&list, chosen, &n_chosen, 2, &notes, &err), ERR_UNAVAILABLE);
    assert_string_equal(err.text, "a worker takes 2 devices (--gpus-per-worker), and 1 can be had");
    buf_release(&notes);
    device_list_release(&list);
}

static void what_can_never_fill_seats_is_wrong_usage(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        uint32_t group;
        const char *sentence; /* NULL: it can */
    } cases[] = {
        {"0-2", 2, "the 3 devices of -g cannot be shared out among workers of 2: name 2 or 4"},
        {"0", 2, "a worker takes 2 devices (--gpus-per-worker), -g names 1"},
        {"any:3", 4, "a worker takes 4 devices (--gpus-per-worker), -g names 3"},
        {"cpu:1", 2, "a worker takes 2 devices (--gpus-per-worker), -g names 1"},
        {"0-3", 2, NULL},
        {"0-2", 0, NULL},
        {"any:3", 2, NULL},
        {"sim:5", 2, NULL},
        {"cpu", 64, NULL},
        {"free", 64, NULL},
        {"all", 64, NULL},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct device_spec spec;
        struct err err = {0};
        assert_int_equal(spec_parse(cases[i].spec, &spec, &err), 0);
        int rc = seats_possible(&spec, cases[i].group, &err);
        assert_int_equal(rc, cases[i].sentence ? ERR_USAGE : 0);
        assert_string_equal(err.text, cases[i].sentence ? cases[i].sentence : "");
    }
}

static void a_worker_gets_one_mig_instance_at_most(void **state)
{
    (void)state;
    struct device_list list = gpus(2);
    struct buf text = BUF_INIT;
    snprintf(list.at[1].parent_uuid, sizeof(list.at[1].parent_uuid), "GPU-x");
    labels(&text, &list, 2, (struct seat_opts){.devices_per_worker = 2});
    assert_string_equal(buf_text(&text),
                        "-3: a worker can use one MIG instance, not 2 (CUDA's limit)");
    buf_release(&text);
    device_list_release(&list);
}

static const char *env_value(const struct env_list *env, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < env->len; i++)
        if (strncmp(env->at[i], name, len) == 0 && env->at[i][len] == '=')
            return env->at[i] + len + 1;
    return "(unset)";
}

/* Universe 0 and 1 are physical 6 and 2, as with CUDA_VISIBLE_DEVICES=6,2. */
static struct device_list pair(enum device_kind kind, const char *parent_uuid)
{
    struct device_list list = gpus(2);
    list.at[0].physical = 6;
    list.at[1].physical = 2;
    for (size_t i = 0; i < 2; i++) {
        list.at[i].kind = kind;
        snprintf(list.at[i].uuid, sizeof(list.at[i].uuid), "U%zu", i);
        snprintf(list.at[i].parent_uuid, sizeof(list.at[i].parent_uuid), "%s", parent_uuid);
    }
    return list;
}

static void a_worker_sees_its_devices_and_nothing_else(void **state)
{
    (void)state;
    static const struct {
        enum device_kind kind;
        const char *parent_uuid, *library;
        enum visible_mode mode;
        const char *visible, *order, *kind_name;
    } cases[] = {
        {DEVICE_CUDA, "", NULL, VISIBLE_INDEX, "6,2", "PCI_BUS_ID", "cuda"},
        {DEVICE_CUDA, "", NULL, VISIBLE_UUID, "U0,U1", "PCI_BUS_ID", "cuda"},
        {DEVICE_CUDA, "GPU-p", NULL, VISIBLE_INDEX, "U0,U1", "PCI_BUS_ID", "cuda"},
        {DEVICE_SIM, "", NULL, VISIBLE_INDEX, "6,2", "PCI_BUS_ID", "cuda"},
        {DEVICE_CPU, "", NULL, VISIBLE_INDEX, "(unset)", "(unset)", "cpu"},
        {DEVICE_CPU, "", "/there/is/a/driver", VISIBLE_INDEX, "", "(unset)", "cpu"},
    };
    bool has_driver = access("/dev/nvidiactl", F_OK) == 0 || access("/dev/dxg", F_OK) == 0 ||
                      access("/proc/driver/nvidia/version", F_OK) == 0;
    unsetenv("OMP_NUM_THREADS");
    for (size_t i = 0; i < countof(cases); i++) {
        struct device_list list = pair(cases[i].kind, cases[i].parent_uuid);
        struct seat seat = {.n_devices = 2, .devices = {0, 1}, .threads = 7};
        struct env_list env = {0};
        unsetenv("MUSTER_NVML");
        if (cases[i].library)
            setenv("MUSTER_NVML", cases[i].library, 1);
        seat_environment(&seat, &list, cases[i].mode, &env);
        if (!(has_driver && cases[i].kind == DEVICE_CPU && !cases[i].library))
            assert_string_equal(env_value(&env, "CUDA_VISIBLE_DEVICES"), cases[i].visible);
        assert_string_equal(env_value(&env, "CUDA_DEVICE_ORDER"), cases[i].order);
        assert_string_equal(env_value(&env, "MUSTER_DEVICE"), "U0,U1");
        char numbers[32]; /* the physical ones; CPU slots have only muster's own */
        snprintf(numbers, sizeof(numbers), "%d,%d",
                 list.at[0].physical < 0 ? list.at[0].index : list.at[0].physical,
                 list.at[1].physical < 0 ? list.at[1].index : list.at[1].physical);
        assert_string_equal(env_value(&env, "MUSTER_DEVICE_INDEX"), numbers);
        assert_string_equal(env_value(&env, "MUSTER_DEVICE_KIND"), cases[i].kind_name);
        assert_string_equal(env_value(&env, "OMP_NUM_THREADS"), "7");
        env_list_release(&env);
        device_list_release(&list);
    }
}

static void a_thread_count_that_is_set_is_left_alone(void **state)
{
    (void)state;
    struct device_list list = pair(DEVICE_CUDA, "");
    struct seat seat = {.n_devices = 1, .threads = 7};
    struct env_list env = {0};
    setenv("OMP_NUM_THREADS", "3", 1);
    seat_environment(&seat, &list, VISIBLE_INDEX, &env);
    assert_string_equal(env_value(&env, "OMP_NUM_THREADS"), "(unset)");
    unsetenv("OMP_NUM_THREADS");
    env_list_release(&env);
    device_list_release(&list);
}

static void seats_of_one_node_share_its_threads(void **state)
{
    (void)state;
    struct device_list list = gpus(3);
    struct seat_opts opts = {0};
    struct seat *seats;
    size_t chosen[] = {0, 1, 2}, n_seats;
    setenv("MUSTER_SYSFS", "/nonexistent", 1); /* no SMT */
    for (int cpu = 0; cpu < 8; cpu++) {
        CPU_SET(cpu, &list.at[0].cpus);
        CPU_SET(cpu, &list.at[1].cpus);
        CPU_SET(cpu + 8, &list.at[2].cpus);
    }
    assert_int_equal(seats_make(&list, chosen, 3, &opts, &seats, &n_seats, NULL), 0);
    assert_int_equal(seats[0].threads, 4);
    assert_int_equal(seats[1].threads, 4);
    assert_int_equal(seats[2].threads, 8);
    assert_true(CPU_EQUAL(&seats[0].cpus, &list.at[0].cpus));
    unsetenv("MUSTER_SYSFS");
    free(seats);
    device_list_release(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seats_are_cut_and_labelled),
        cmocka_unit_test(the_nearest_devices_share_a_seat),
        cmocka_unit_test(what_does_not_fill_a_seat_is_left_over),
        cmocka_unit_test(what_can_never_fill_seats_is_wrong_usage),
        cmocka_unit_test(a_worker_gets_one_mig_instance_at_most),
        cmocka_unit_test(a_worker_sees_its_devices_and_nothing_else),
        cmocka_unit_test(a_thread_count_that_is_set_is_left_alone),
        cmocka_unit_test(seats_of_one_node_share_its_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
