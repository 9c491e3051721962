/* SPDX-License-Identifier: Apache-2.0 */
#include "kit.h"

static void a_driver_that_answers_is_fit(void **state)
{
    (void)state;
    struct facts *facts = fit_machine(8);
    snprintf(facts->devices.at[0].details.driver, 16, "550.54.15");
    expect(driver_judge, facts, "ok NVIDIA 550.54.15 answers, 8 GPUs, 40 ms");
    facts->driver.is_asked = false;
    expect(driver_judge, facts, "ok not asked: -g names devices that need none");
    machine_free(facts);
}

static void what_keeps_a_driver_from_answering_is_told_apart(void **state)
{
    (void)state;
    static const struct {
        const char *said, *wanted, *cure;
    } cases[] = {
        {"the NVIDIA driver says: Driver/library version mismatch",
         "fail the NVIDIA driver says: Driver/library version mismatch; the kernel runs 535.104.05",
         "Reboot"},
        {"the NVIDIA driver did not answer nvmlInit_v2 (see dmesg for Xid)",
         "fail the NVIDIA driver did not answer nvmlInit_v2 (see dmesg for Xid)", "--patience"},
        {"the NVIDIA driver says: Unknown Error", "fail the NVIDIA driver says: Unknown Error",
         "dmesg"},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct facts *facts = fit_machine(0);
        struct findings findings = {0};
        snprintf(facts->driver.said, sizeof(facts->driver.said), "%s", cases[i].said);
        snprintf(facts->driver.module_version, 16, "535.104.05");
        expect(driver_judge, facts, cases[i].wanted);
        driver_judge(facts, &findings);
        assert_non_null(strstr(findings.at[0].cure, cases[i].cure));
        findings_release(&findings);
        machine_free(facts);
    }
}

static void no_gpu_is_well_only_where_there_is_none(void **state)
{
    (void)state;
    struct facts *facts = fit_machine(0);
    facts->driver.is_there = false;
    expect(driver_judge, facts, "ok no GPU on this machine: work runs on CPU slots");
    snprintf(facts->driver.notes, 64, "no GPU but graphics of the processor (-g all uses them)\n");
    expect(driver_judge, facts, "ok no GPU but graphics of the processor: work runs on CPU slots");
    facts->driver.notes[0] = '\0';
    facts->driver.n_pci_nvidia = 2;
    expect(driver_judge, facts, "fail 2 NVIDIA GPUs on the PCI bus and no driver");
    facts->driver.is_there = true;
    snprintf(facts->driver.notes, 64, "NVIDIA's management library: libx: not found\nusing 2 CPU");
    expect(driver_judge, facts, "fail NVIDIA's management library: libx: not found");
    machine_free(facts);
}

static void amd_beside_nvidia_and_alone(void **state)
{
    (void)state;
    struct facts *facts = fit_machine(3);
    facts->devices.at[2].kind = DEVICE_ROCM;
    facts->devices.at[2].physical = 0;
    snprintf(facts->devices.at[0].details.driver, 16, "550.54.15");
    expect(driver_judge, facts, "ok NVIDIA 550.54.15 and AMD answer, 3 GPUs, 40 ms");
    facts->devices.len = 2;
    snprintf(facts->driver.notes, 64, "there are AMD GPUs, but no /dev/kfd\n");
    expect(driver_judge, facts,
           "warn there are AMD GPUs, but no /dev/kfd; ok NVIDIA 550.54.15 answers, 2 GPUs, 40 ms");
    facts->devices.len = 0;
    facts->driver.is_there = false;
    expect(driver_judge, facts, "fail there are AMD GPUs, but no /dev/kfd");
    snprintf(facts->driver.notes, 64, "no NVIDIA or AMD driver on this machine\n");
    expect(driver_judge, facts, "ok no GPU on this machine: work runs on CPU slots");
    facts->driver.n_pci_amd = 1;
    expect(driver_judge, facts, "warn 1 AMD GPU on the PCI bus and no driver for computing");
    facts->driver.is_amd_there = true;
    expect_begin(driver_judge, facts, "ok no GPU");
    facts->devices.len = 3;
    facts->devices.at[0].kind = facts->devices.at[1].kind = DEVICE_ROCM;
    facts->devices.at[0].details.driver[0] = '\0';
    facts->devices.at[2].physical = 2;
    expect(driver_judge, facts, "ok AMD answers, 3 GPUs, 40 ms");
    machine_free(facts);
}

static void an_nvidia_driver_in_trouble_is_heard_of_beside_amd(void **state)
{
    (void)state;
    struct facts *facts = fit_machine(2);
    facts->devices.at[0].kind = facts->devices.at[1].kind = DEVICE_ROCM;
    snprintf(facts->driver.notes, 128, "NVIDIA's management library: libx: not found\n");
    expect(driver_judge, facts,
           "warn NVIDIA's management library: libx: not found; ok AMD answers, 2 GPUs, 40 ms");
    snprintf(facts->driver.notes, 128, "the NVIDIA driver is there and has no GPU\n");
    expect(driver_judge, facts,
           "warn the NVIDIA driver is there and has no GPU; ok AMD answers, 2 GPUs, 40 ms");
    facts->driver.notes[0] = '\0';
    snprintf(facts->driver.said, 128, "the NVIDIA driver says: Unknown Error");
    facts->driver.took_ms = 2000; /* of which AMD's needed little */
    expect(driver_judge, facts,
           "fail the NVIDIA driver says: Unknown Error; ok AMD answers, 2 GPUs, 2.0 s");
    facts->devices.len = 0;
    expect(driver_judge, facts, "fail the NVIDIA driver says: Unknown Error");
    machine_free(facts);
}

static void a_gpu_that_is_missing_is_noticed_where_all_should_be_seen(void **state)
{
    (void)state;
    struct facts *facts = fit_machine(3);
    facts->driver.n_pci_nvidia = 4;
    expect(driver_judge, facts,
           "warn 4 NVIDIA GPUs on the PCI bus, 3 answer; ok NVIDIA answers, 3 GPUs, 40 ms");
    facts->driver.is_container = true;
    expect(driver_judge, facts, "ok NVIDIA answers, 3 GPUs, 40 ms");
    facts->driver.is_container = false;
    facts->env.at[ENV_SLURM_JOB_ID] = "7";
    expect(driver_judge, facts, "ok NVIDIA answers, 3 GPUs, 40 ms");
    machine_free(facts);
}

static void a_slow_driver_is_a_warning_unless_a_lost_gpu_explains_it(void **state)
{
    (void)state;
    struct facts *facts = fit_machine(2);
    facts->driver.took_ms = 2600;
    expect(driver_judge, facts, "warn answers after 2.6 s");
    facts->devices.at[1].is_lost = true;
    expect_begin(driver_judge, facts, "ok");
    machine_free(facts);
}

static void device_files_that_cannot_be_opened(void **state)
{
    (void)state;
    struct facts *facts = fit_machine(2);
    expect(access_judge, facts, "");
    facts->driver.has_ctl = facts->driver.may_open_ctl = facts->driver.has_uvm = true;
    expect_begin(access_judge, facts, "ok");
    facts->driver.has_uvm = facts->driver.may_open_ctl = false;
    expect(access_judge, facts,
           "fail /dev/nvidiactl: no right to open it; fail /dev/nvidia-uvm: it is not there");
    facts->devices.at[0].kind = facts->devices.at[1].kind = DEVICE_ROCM;
    expect(access_judge, facts, "fail /dev/nvidiactl: no right to open it");
    facts->driver.is_asked = false;
    expect(access_judge, facts, "");
    machine_free(facts);
}

static void a_closed_kfd_is_told_once_and_only_where_there_is_a_gpu_behind_it(void **state)
{
    (void)state;
    struct facts *facts = fit_machine(0);
    facts->driver.has_kfd = facts->driver.is_amd_there = true;
    expect(access_judge, facts, "ok those that are needed are there, and may be opened");
    snprintf(facts->driver.notes, sizeof(facts->driver.notes),
             "there are AMD GPUs, but /dev/kfd is closed to this user (be in the group that owns "
             "it, mostly render)\n");
    expect(driver_judge, facts,
           "ok AMD's is there; its device file is closed to this user, see access");
    expect(access_judge, facts, "fail /dev/kfd: no right to open it, and there are AMD GPUs");
    facts->devices.len = 1;
    facts->devices.at[0].kind = DEVICE_CUDA;
    expect(driver_judge, facts, "ok NVIDIA answers, 1 GPU, 40 ms");
    expect(access_judge, facts, "warn /dev/kfd: no right to open it, and there are AMD GPUs");
    machine_free(facts);
}

static void a_machine_is_read_from_its_files(void **state)
{
    (void)state;
    char *root = root_new();
    struct driver_facts facts = {0};
    file_put(root, "/sys/bus/pci/devices/0000:10:00.0/class", "0x030200\n");
    file_put(root, "/sys/bus/pci/devices/0000:10:00.0/vendor", "0x10de\n");
    file_put(root, "/sys/bus/pci/devices/0000:20:00.0/class", "0x030000\n");
    file_put(root, "/sys/bus/pci/devices/0000:20:00.0/vendor", "0x1002\n");
    file_put(root, "/sys/bus/pci/devices/0000:30:00.0/class", "0x068000\n"); /* an NVSwitch */
    file_put(root, "/sys/bus/pci/devices/0000:30:00.0/vendor", "0x10de\n");
    file_put(root, "/proc/driver/nvidia/version",
             "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC "
             "2023\nGCC version:  gcc version 12.2.0\n");
    file_put(root, "/dev/nvidiactl", "");
    file_put(root, "/.dockerenv", "");
    driver_gather(root, &facts);
    assert_int_equal(facts.n_pci_nvidia, 1);
    assert_int_equal(facts.n_pci_amd, 1);
    assert_string_equal(facts.module_version, "535.104.05");
    assert_true(facts.has_ctl && facts.may_open_ctl && !facts.has_uvm && facts.is_container);
    root_free(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_driver_that_answers_is_fit),
        cmocka_unit_test(what_keeps_a_driver_from_answering_is_told_apart),
        cmocka_unit_test(no_gpu_is_well_only_where_there_is_none),
        cmocka_unit_test(amd_beside_nvidia_and_alone),
        cmocka_unit_test(an_nvidia_driver_in_trouble_is_heard_of_beside_amd),
        cmocka_unit_test(a_gpu_that_is_missing_is_noticed_where_all_should_be_seen),
        cmocka_unit_test(a_slow_driver_is_a_warning_unless_a_lost_gpu_explains_it),
        cmocka_unit_test(device_files_that_cannot_be_opened),
        cmocka_unit_test(a_closed_kfd_is_told_once_and_only_where_there_is_a_gpu_behind_it),
        cmocka_unit_test(a_machine_is_read_from_its_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
