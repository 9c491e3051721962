/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include <poll.h>

#include "device/simulated.h"
#include "devices.h"

static struct device_list simulate(const char *text)
{
    struct device_list list;
    struct buf notes = BUF_INIT;
    struct probe_opts opts = {0};
    struct device_spec *spec = xcalloc(1, sizeof(*spec));
    assert_int_equal(spec_parse(text, spec, NULL), 0);
    assert_int_equal(probe_universe(&opts, spec, &list, &notes, NULL), 0);
    assert_int_equal(notes.len, 0);
    free(spec);
    return list;
}

static void a_machine_is_made_from_its_description(void **state)
{
    (void)state;
    struct device_list list = simulate("sim:8xH200:141GiB,ill@2,busy@3,lost@4,full@5,lost@6:10s");
    assert_int_equal(list.len, 8);
    assert_string_equal(list.at[7].uuid, "SIM-7");
    assert_string_equal(list.at[7].name, "H200");
    assert_int_equal(list.at[7].kind, DEVICE_SIM);
    assert_true(list.at[7].mem_free_bytes == 141ull << 30);
    assert_int_equal(list.at[3].numa_node, 0);
    assert_int_equal(list.at[4].numa_node, 1);
    assert_string_equal(list.at[2].ill, "simulated fault");
    assert_int_equal(list.at[3].n_processes, 1);
    assert_true(list.at[4].is_lost);
    assert_true(list.at[5].mem_free_bytes == 0);
    assert_false(list.at[6].is_lost);
    device_list_release(&list);
}

static void faults_come_and_go_at_their_times(void **state)
{
    (void)state;
    struct device_list list = simulate("sim:2xH200:141GiB,lost@1:30s,hang@0:5s-6s,ill@0:10s-1m");
    static const struct {
        size_t device;
        uint64_t at_ms;
        bool answers, is_lost, is_ill;
    } cases[] = {
        {1, 0, true, false, false},     {1, 29999, true, false, false},
        {1, 30000, true, true, false},  {1, 1u << 30, true, true, false},
        {0, 4999, true, false, false},  {0, 5000, false, false, false},
        {0, 5999, false, false, false}, {0, 6000, true, false, false},
        {0, 10000, true, false, true},  {0, 59999, true, false, true},
        {0, 60000, true, false, false},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct device_sample sample;
        bool answers = sim_sample(&list.at[cases[i].device], cases[i].at_ms, &sample);
        if (answers != cases[i].answers || sample.is_lost != cases[i].is_lost ||
            (sample.ill[0] != '\0') != cases[i].is_ill)
            fail_msg("device %zu at %lu ms: %d %d '%s'", cases[i].device,
                     (unsigned long)cases[i].at_ms, answers, sample.is_lost, sample.ill);
    }
    device_list_release(&list);
}

/* The next whole round of samples; polls, so that nothing is asked too early. */
static size_t next_round(struct monitor *monitor, struct device_sample *out, size_t cap)
{
    struct pollfd poll_fd = {.fd = monitor_fd(monitor), .events = POLLIN};
    assert_int_equal(poll(&poll_fd, 1, 10000), 1);
    return monitor_read(monitor, out, cap);
}

static void the_monitor_follows_the_script(void **state)
{
    (void)state;
    struct device_list list = simulate("sim:3xH200:141GiB,lost@1:40ms,hang@2");
    struct device_sample samples[8];
    struct monitor *monitor;
    struct probe_opts opts = {0};
    assert_int_equal(monitor_open(&monitor, &opts, &list, 10, NULL), 0);
    assert_int_equal(monitor_pid(monitor), -1);
    assert_int_equal(next_round(monitor, samples, 8), 2);
    assert_int_equal(samples[0].device, 0);
    assert_int_equal(samples[1].device, 1);
    bool was_well = !samples[1].is_lost, is_lost = false;
    for (int round = 0; round < 500 && !is_lost; round++) {
        assert_int_equal(next_round(monitor, samples, 8), 2);
        assert_false(samples[0].is_lost);
        is_lost = samples[1].is_lost;
    }
    assert_true(was_well && is_lost);
    monitor_close(monitor);
    device_list_release(&list);
}

static void a_round_too_large_for_the_caller_is_given_out_in_parts(void **state)
{
    (void)state;
    struct device_list list = simulate("sim:5");
    struct device_sample samples[2];
    struct monitor *monitor;
    struct probe_opts opts = {0};
    assert_int_equal(monitor_open(&monitor, &opts, &list, 3600000, NULL), 0);
    assert_int_equal(next_round(monitor, samples, 2), 2);
    assert_int_equal(monitor_read(monitor, samples, 2), 2);
    assert_int_equal(samples[1].device, 3);
    assert_int_equal(monitor_read(monitor, samples, 2), 1);
    assert_int_equal(monitor_read(monitor, samples, 2), 0);
    monitor_close(monitor);
    device_list_release(&list);
}

static void a_round_comes_at_once_when_it_is_asked_for(void **state)
{
    (void)state;
    struct device_list list = simulate("sim:2");
    struct device_sample samples[2];
    struct monitor *monitor;
    struct probe_opts opts = {0};
    assert_int_equal(monitor_open(&monitor, &opts, &list, 3600000, NULL), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(next_round(monitor, samples, 2), 2);
        assert_int_equal(monitor_read(monitor, samples, 2), 0);
        monitor_hurry(monitor);
    }
    monitor_close(monitor);
    device_list_release(&list);
}

static void cpu_slots_are_not_watched(void **state)
{
    (void)state;
    struct device_list list = gpus(1);
    struct device_sample sample;
    struct monitor *monitor;
    struct probe_opts opts = {0};
    list.at[0].kind = DEVICE_CPU;
    assert_int_equal(monitor_open(&monitor, &opts, &list, 100, NULL), 0);
    assert_int_equal(monitor_fd(monitor), -1);
    assert_int_equal(monitor_pid(monitor), -1);
    monitor_hurry(monitor);
    assert_int_equal(monitor_read(monitor, &sample, 1), 0);
    monitor_close(monitor);
    device_list_release(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_machine_is_made_from_its_description),
        cmocka_unit_test(faults_come_and_go_at_their_times),
        cmocka_unit_test(the_monitor_follows_the_script),
        cmocka_unit_test(a_round_too_large_for_the_caller_is_given_out_in_parts),
        cmocka_unit_test(a_round_comes_at_once_when_it_is_asked_for),
        cmocka_unit_test(cpu_slots_are_not_watched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
