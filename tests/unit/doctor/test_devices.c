/* SPDX-License-Identifier: Apache-2.0 */
#include "kit.h"

static struct device *name_one(struct facts *facts, size_t at, const char *name)
{
    struct device *device = &facts->devices.at[at];
    snprintf(device->name, sizeof(device->name), "%s", name);
    return device;
}

static void eight_like_gpus_are_fit(void **state)
{
    (void)state;
    struct facts *facts = fit_machine(8);
    expect(alike_judge, facts, "ok 8 x H200");
    expect(health_judge, facts, "ok no GPU is lost, ill, too hot, or has ECC errors");
    expect(modes_judge, facts, "ok persistence on, open to any number of processes");
    expect(processes_judge, facts, "ok nobody computes on the GPUs");
    expect(links_judge, facts, "ok NUMA node 0: gpu 0-3, node 1: gpu 4-7");
    machine_free(facts);
}

static void eight_gpus_unlike_one_another_are_told(void **state)
{
    (void)state;
    struct facts *facts = fit_machine(8);
    name_one(facts, 1, "A100")->mem_total_bytes = 40ull << 30;
    name_one(facts, 5, "A100");
    name_one(facts, 6, "T4")->mem_total_bytes = 16ull << 30;
    snprintf(facts->devices.at[7].parent_uuid, 8, "GPU-a7");
    expect(alike_judge, facts,
           "warn 4 x H200, 2 x A100, 1 x T4; warn memory from 16.0 GiB to 80.0 GiB; "
           "warn 7 whole GPUs and 1 MIG instances");
    machine_free(facts);
}

static void memory_that_differs_by_a_firmware_is_alike(void **state)
{
    (void)state;
    struct facts *facts = fit_machine(2);
    facts->devices.at[1].mem_total_bytes -= 1ull << 30;
    expect(alike_judge, facts, "ok 2 x H200");
    facts->devices.at[1].mem_total_bytes -= 1ull << 30;
    expect(alike_judge, facts, "warn memory from 78.0 GiB to 80.0 GiB");
    facts->devices.at[1].is_integrated = true; /* graphics of the processor: no run takes them */
    expect(alike_judge, facts, "ok 1 x H200");
    machine_free(facts);
}

static void slices_alone_are_alike(void **state)
{
    (void)state;
    struct facts *facts = fit_machine(2);
    for (size_t i = 0; i < 2; i++)
        snprintf(facts->devices.at[i].parent_uuid, 8, "GPU-a0");
    expect(alike_judge, facts, "ok 2 MIG instances");
    machine_free(facts);
}

static void illness_is_told_gpu_by_gpu_and_heat_together(void **state)
{
    (void)state;
    struct facts *facts = fit_machine(6);
    struct device *at = facts->devices.at;
    at[0].is_lost = true;
    snprintf(at[1].ill, sizeof(at[1].ill), "row remapping pending: the GPU needs a reset");
    at[3].ecc_uncorrected_count = 1;
    at[4].details.clock_reasons = 0x40;
    at[5].details.slowdown_c = 90;
    at[5].temperature_c = 90;
    expect(health_judge, facts,
           "fail gpu 0: lost; fail gpu 1: row remapping pending: the GPU needs a reset; "
           "warn gpu 3: 1 uncorrected ECC error; "
           "warn gpu 4,5: slowed down by heat");
    machine_free(facts);
}

static void reasons_that_are_no_trouble_are_none(void **state)
{
    (void)state;
    static const struct {
        long reasons;
        const char *wanted;
    } cases[] = {
        {0x001, "ok"},   /* idle */
        {0x004, "ok"},   /* its own power limit */
        {0x100, "ok"},   /* the display's clocks */
        {0x008, "warn"}, /* the hardware slows down */
        {0x020, "warn"}, /* the software does, for heat */
        {0x080, "warn"}, /* the power brake */
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct facts *facts = fit_machine(1);
        facts->devices.at[0].details.clock_reasons = cases[i].reasons;
        expect_begin(health_judge, facts, cases[i].wanted);
        machine_free(facts);
    }
}

static void modes_that_shut_out(void **state)
{
    (void)state;
    struct facts *facts = fit_machine(4);
    facts->devices.at[0].details.compute_mode = 3;
    facts->devices.at[1].details.compute_mode = 1;
    facts->devices.at[2].details.compute_mode = 2;
    for (size_t i = 0; i < 4; i++)
        facts->devices.at[i].details.is_persistence_off = true;
    expect(modes_judge, facts,
           "fail gpu 2: compute mode is Prohibited; warn gpu 0,1: compute mode is Exclusive; "
           "warn gpu 0-3: persistence mode is off");
    machine_free(facts);
}

static void processes_are_told_with_their_owners(void **state)
{
    (void)state;
    struct facts *facts = fit_machine(3);
    struct device *device = &facts->devices.at[1];
    device->n_processes = 2;
    device->processes[0] =
        (struct device_process){.pid = 4711, .mem_bytes = 3ull << 30, .name = "python"};
    device->processes[1] = (struct device_process){.pid = 4712, .uid = (uid_t)-1};
    facts->devices.at[2].mem_free_bytes = 40ull << 30;
    expect(processes_judge, facts,
           "warn gpu 1: in use by python 4711 of root (3.0 GiB), ? 4712 of an unknown user; "
           "warn gpu 2: 40.0 GiB in use and no process to be seen");
    device->n_processes = 0;
    facts->devices.at[2].kind = DEVICE_ROCM; /* -g free leaves it out just as well */
    expect(processes_judge, facts, "warn gpu 2: 40.0 GiB in use and no process to be seen");
    facts->devices.at[2].is_integrated = true; /* the computer's memory, not a holder's */
    expect(processes_judge, facts, "ok nobody computes on the GPUs");
    machine_free(facts);
}

static void a_slow_link_counts_only_where_it_is_one(void **state)
{
    (void)state;
    static const struct {
        int gen, width, busy;
        const char *wanted;
    } cases[] = {
        {5, 16, 0, "ok"},
        {1, 16, 0, "ok"}, /* idle: the generation is lowered on purpose */
        {1, 16, 99, "warn gpu 0: PCIe link of generation 1 instead of 5"},
        {5, 8, 0, "warn gpu 0: PCIe link of 8 lanes instead of 16"},
        {0, 0, 99, "ok"}, /* not told */
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct facts *facts = fit_machine(1);
        struct device *device = &facts->devices.at[0];
        device->details.pcie_gen = cases[i].gen;
        device->details.pcie_width = cases[i].width;
        device->busy_percent = cases[i].busy;
        device->details.pcie_gen_max = 5;
        device->details.pcie_width_max = 16;
        expect_begin(links_judge, facts, cases[i].wanted);
        machine_free(facts);
    }
}

static void nvlinks_that_are_down_are_those_that_others_have(void **state)
{
    (void)state;
    struct facts *facts = fit_machine(3);
    facts->devices.at[0].details.nvlinks_up = facts->devices.at[1].details.nvlinks_up = 18;
    facts->devices.at[2].details.nvlinks_up = 12;
    expect(links_judge, facts, "warn gpu 2: 12 NVLinks are up, 18 on others of its model");
    name_one(facts, 2, "T4")->details.nvlinks_up = 0;
    expect_begin(links_judge, facts, "ok ");
    facts->devices.distance = xcalloc(9, 1);
    facts->devices.distance[1] = 10;
    facts->devices.distance[2] = facts->devices.distance[5] = 150;
    expect(links_judge, facts, "ok 1 of 3 pairs by NVLink; NUMA node 0: gpu 0,1, node 1: gpu 2");
    machine_free(facts);
}

/* Whatever NVIDIA's tools could do for it, they do not know the device. */
static void amd_findings_have_means_and_cures_of_amd(void **state)
{
    (void)state;
    struct facts *facts = fit_machine(5);
    struct findings findings = {0};
    struct device *at = facts->devices.at;
    for (size_t i = 0; i < 5; i++)
        at[i].kind = DEVICE_ROCM;
    at[0].is_lost = true;
    snprintf(at[1].ill, sizeof(at[1].ill), "a bad page");
    at[2].ecc_uncorrected_count = 1;
    at[3].mem_free_bytes = 0;
    name_one(facts, 4, "MI210");
    facts->env.at[ENV_HIP_VISIBLE_DEVICES] = "9";
    facts->driver.took_ms = 9000;
    struct facts whole = facts_whole(facts);
    health_judge(&whole, &findings);
    processes_judge(&whole, &findings);
    alike_judge(&whole, &findings);
    visible_judge(&whole, &findings);
    whole.devices.len = whole.machine.len = 4; /* none is lost: it is only slow */
    at[0].is_lost = false;
    driver_judge(&whole, &findings);
    snprintf(whole.driver.said, 64, "the AMD driver did not answer kfd/topology");
    driver_judge(&whole, &findings);
    snprintf(whole.driver.said, 64, "the helper that asks the AMD driver ended in its start");
    driver_judge(&whole, &findings);
    size_t n_troubles = 0;
    for (size_t i = 0; i < findings.len; i++) {
        const struct finding *finding = &findings.at[i];
        n_troubles += finding->level != FINDING_OK;
        if (strstr(finding->cure, "nvidia") || strstr(finding->cure, "Xid") ||
            strstr(finding->cure, "CUDA") || strstr(finding->means, "nvidia") ||
            strstr(finding->means, "CUDA"))
            fail_msg("%s: %s: %s %s", finding->subject, finding->found, finding->means,
                     finding->cure);
    }
    assert_int_equal(n_troubles, 10);
    findings_release(&findings);
    machine_free(facts);
}

static void a_link_is_called_as_its_maker_calls_it(void **state)
{
    (void)state;
    struct facts *facts = fit_machine(5);
    struct device_list *devices = &facts->devices;
    for (size_t i = 2; i < 5; i++)
        devices->at[i].kind = DEVICE_ROCM;
    devices->distance = xcalloc(25, 1);
    memset(devices->distance, DISTANCE_UNKNOWN, 25);
    devices->distance[2 * 5 + 3] = 15;
    devices->distance[2 * 5 + 4] = DISTANCE_NOT_LINKED;
    devices->distance[0 * 5 + 1] = 20;
    expect(links_judge, facts,
           "ok 1 of 1 pairs by NVLink; 1 of 3 pairs by XGMI; "
           "NUMA node 0: gpu 0-2, node 1: gpu 3,4");
    machine_free(facts);
}

static void cpu_slots_are_not_taken_for_gpus(void **state)
{
    (void)state;
    struct facts *facts = fit_machine(2);
    facts->devices.at[0].kind = facts->devices.at[1].kind = DEVICE_CPU;
    expect(alike_judge, facts, "");
    expect(health_judge, facts, "");
    expect(modes_judge, facts, "");
    expect(processes_judge, facts, "");
    expect(links_judge, facts, "");
    machine_free(facts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eight_like_gpus_are_fit),
        cmocka_unit_test(eight_gpus_unlike_one_another_are_told),
        cmocka_unit_test(memory_that_differs_by_a_firmware_is_alike),
        cmocka_unit_test(slices_alone_are_alike),
        cmocka_unit_test(illness_is_told_gpu_by_gpu_and_heat_together),
        cmocka_unit_test(reasons_that_are_no_trouble_are_none),
        cmocka_unit_test(modes_that_shut_out),
        cmocka_unit_test(processes_are_told_with_their_owners),
        cmocka_unit_test(a_slow_link_counts_only_where_it_is_one),
        cmocka_unit_test(nvlinks_that_are_down_are_those_that_others_have),
        cmocka_unit_test(amd_findings_have_means_and_cures_of_amd),
        cmocka_unit_test(a_link_is_called_as_its_maker_calls_it),
        cmocka_unit_test(cpu_slots_are_not_taken_for_gpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
