/* SPDX-License-Identifier: Apache-2.0
 *
 * The probe and the monitor against a stand-in library, through a real helper process.
 */
#include "unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/helper.h"
#include "probing.h"

static void machine(const char *library, const char *script)
{
    setenv("MUSTER_NVML", getenv(library), 1);
    setenv("MUSTER_FAKE_NVML", script, 1);
    setenv("MUSTER_SYSFS", "/nonexistent", 1); /* no AMD driver either */
    unsetenv("CUDA_VISIBLE_DEVICES");
}

static int probe_fails(struct err *err)
{
    struct device_list list;
    struct probe_opts opts = options();
    struct buf notes = BUF_INIT;
    struct device_spec *spec = xcalloc(1, sizeof(*spec));
    assert_int_equal(spec_parse(NULL, spec, NULL), 0);
    int rc = probe_universe(&opts, spec, &list, &notes, err);
    device_list_release(&list);
    buf_release(&notes);
    free(spec);
    return rc;
}

static void eight_gpus_are_found_with_all_that_nvml_tells(void **state)
{
    (void)state;
    struct buf notes = BUF_INIT;
    machine("FAKE_NVML", "");
    struct device_list list = probe("all", &notes);
    assert_int_equal(list.len, 8);
    assert_int_equal(notes.len, 0);
    const struct device *device = &list.at[5];
    assert_int_equal(device->index, 5);
    assert_int_equal(device->physical, 5);
    assert_int_equal(device->kind, DEVICE_CUDA);
    assert_string_equal(device->uuid, "GPU-a5000000-1111-4222-8333-444444444444");
    assert_string_equal(device->name, "Stand-in H200");
    assert_string_equal(device->pci, "0000:60:00.0");
    assert_true(device->mem_total_bytes == 141ull << 30);
    assert_true(device->mem_free_bytes == (141ull << 30) - (1ull << 29));
    assert_int_equal(device->busy_percent, 0);
    assert_int_equal(device->temperature_c, 35);
    assert_true(device->power_w > 75.4 && device->power_w < 75.6);
    assert_int_equal(device->ecc_uncorrected_count, 0);
    assert_string_equal(device->ill, "");
    assert_int_equal(device->n_processes, 0);
    /* an NVLink between 0 and 4, none between 0 and its PCIe neighbour 1 */
    assert_non_null(list.distance);
    assert_true(list.distance[0 * 8 + 4] < list.distance[0 * 8 + 1]);
    assert_true(list.distance[0 * 8 + 1] < list.distance[0 * 8 + 2]);
    device_list_release(&list);
    buf_release(&notes);
}

static void details_are_told_to_those_who_ask(void **state)
{
    (void)state;
    struct device_list list, plain;
    struct buf notes = BUF_INIT;
    struct probe_opts opts = options();
    machine("FAKE_NVML", "gpus=3,nopersist=0,mode=0:3,narrow=1,links=1:2,hot=1,ecc=1:7,mig=2:1");
    assert_int_equal(gpu_list(vendor_of(DEVICE_CUDA), &opts, &plain, &notes, NULL), 0);
    assert_int_equal(plain.at[0].details.pcie_width_max, 0);
    opts.wants_details = true;
    assert_int_equal(gpu_list(vendor_of(DEVICE_CUDA), &opts, &list, &notes, NULL), 0);
    assert_int_equal(list.len, 3);
    const struct device *first = &list.at[0], *second = &list.at[1];
    assert_string_equal(first->details.driver, "550.54.15");
    assert_true(first->details.is_persistence_off && !second->details.is_persistence_off);
    assert_int_equal(first->details.compute_mode, 3);
    assert_int_equal(first->details.pcie_gen, 1);
    assert_int_equal(first->details.pcie_gen_max, 5);
    assert_int_equal(first->details.pcie_width, 16);
    assert_int_equal(second->details.pcie_width, 8);
    assert_int_equal(second->details.pcie_width_max, 16);
    assert_int_equal(first->details.nvlinks_up, 4);
    assert_int_equal(second->details.nvlinks_up, 2);
    assert_int_equal(first->details.slowdown_c, 90);
    assert_int_equal(second->temperature_c, 91);
    assert_int_equal(second->details.clock_reasons, 0x40);
    assert_int_equal(second->ecc_uncorrected_count, 7);
    assert_string_equal(list.at[2].details.driver, "550.54.15");
    device_list_release(&list);
    device_list_release(&plain);
    buf_release(&notes);
}

static void troubles_are_told_device_by_device(void **state)
{
    (void)state;
    struct buf notes = BUF_INIT;
    machine("FAKE_NVML", "mig=1:2,lost=3:5,full=4,remap=5,reset=6");
    struct device_list list = probe("all", &notes);
    assert_int_equal(list.len, 9);
    for (int i = 1; i <= 2; i++) {
        assert_int_equal(list.at[i].physical, 1);
        assert_string_equal(list.at[i].parent_uuid, "GPU-a1000000-1111-4222-8333-444444444444");
        assert_true(strncmp(list.at[i].uuid, "MIG-b1", 6) == 0);
        assert_string_equal(list.at[i].pci, "0000:20:00.0");
        assert_true(list.at[i].mem_total_bytes == 70ull << 30);
        assert_int_equal(list.at[i].busy_percent, -1);
    }
    assert_true(list.at[4].is_lost);
    assert_string_equal(list.at[4].ill, "GPU is lost");
    const struct device *full = &list.at[5];
    assert_int_equal(full->n_processes, 2);
    assert_int_equal(full->processes[0].pid, 1);
    assert_int_equal(full->processes[0].uid, 0);
    assert_true(full->processes[0].mem_bytes == 100ull << 30);
    assert_int_equal(full->processes[1].mem_bytes, 0);
    assert_true(full->processes[0].name[0] != '\0');
    assert_true(list.at[6].row_remap_pending);
    assert_non_null(strstr(list.at[6].ill, "row remapping pending"));
    assert_non_null(strstr(list.at[7].ill, "needs a reset"));
    assert_string_equal(list.at[8].ill, "");
    device_list_release(&list);
    buf_release(&notes);
}

static void a_hanging_query_costs_one_device_and_one_deadline(void **state)
{
    (void)state;
    static const struct {
        const char *script, *uuid, *why;
    } cases[] = {
        {"hang=2", "GPU-a2000000-1111-4222-8333-444444444444",
         "nvmlDeviceGetMemoryInfo did not answer within 300 ms"},
        {"hangid=2", "GPU-unknown-2", "nvmlDeviceGetUUID did not answer within 300 ms"},
        {"crash=2", "GPU-a2000000-1111-4222-8333-444444444444", "nvmlDeviceGetMemoryInfo crashed"},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct buf notes = BUF_INIT;
        machine("FAKE_NVML", cases[i].script);
        struct device_list list = probe("all", &notes);
        assert_int_equal(list.len, 8);
        assert_true(list.at[2].is_lost);
        assert_string_equal(list.at[2].uuid, cases[i].uuid);
        assert_string_equal(list.at[2].ill, cases[i].why);
        assert_false(list.at[3].is_lost);
        assert_true(list.at[3].mem_total_bytes > 0);
        device_list_release(&list);
        buf_release(&notes);
    }
}

/* Whatever hangs: the waits for the answers fit into the time for all of them. */
static void an_end_for_all_answers_holds_where_all_hang(void **state)
{
    SKIP_UNDER_VALGRIND(); /* it counts milliseconds, of which Valgrind takes many */
    (void)state;
    static const char *const words[] = {"hang", "hangid"};
    for (size_t w = 0; w < countof(words); w++) {
        struct buf script = BUF_INIT, notes = BUF_INIT;
        struct device_list list;
        struct probe_opts opts = options();
        unsigned long sum_ms = 0, waited_ms = 0;
        buf_add_text(&script, "gpus=8");
        for (int i = 0; i < 7; i++)
            buf_addf(&script, ",%s=%d", words[w], i);
        machine("FAKE_NVML", buf_text(&script));
        opts.until_ms = clock_now_ms() + 6 * DEADLINE_MS;
        assert_int_equal(gpu_list(vendor_of(DEVICE_CUDA), &opts, &list, &notes, NULL), 0);
        assert_int_equal(list.len, 8);
        for (size_t i = 0; i < 7; i++) {
            const char *at = strstr(list.at[i].ill, "did not answer within ");
            assert_true(list.at[i].is_lost && at);
            assert_int_equal(sscanf(at, "did not answer within %lu ms", &waited_ms), 1);
            sum_ms += waited_ms;
        }
        assert_false(list.at[7].is_lost);
        assert_true(sum_ms < 6 * DEADLINE_MS);
        while (waitpid(-1, NULL, 0) > 0) /* those that took longer to die than there was time */
            ;
        device_list_release(&list);
        buf_release(&script);
        buf_release(&notes);
    }
}

static void a_driver_that_never_answers_is_given_up(void **state)
{
    (void)state;
    struct err err = {0};
    uint64_t begin_ms = clock_now_ms();
    machine("FAKE_NVML", "hanginit");
    assert_int_equal(probe_fails(&err), ERR_UNAVAILABLE);
    assert_non_null(strstr(err.text, "the NVIDIA driver did not answer nvmlInit_v2"));
    assert_true(clock_now_ms() - begin_ms < 30000);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* nothing is left of it */
    assert_int_equal(errno, ECHILD);
}

static void a_broken_driver_is_an_error_and_a_missing_one_is_not(void **state)
{
    (void)state;
    struct err err = {0};
    struct buf notes = BUF_INIT;
    machine("FAKE_NVML", "init=18");
    assert_int_equal(probe_fails(&err), ERR_UNAVAILABLE);
    assert_non_null(strstr(err.text, "version mismatch"));
    machine("FAKE_NVML", "init=9");
    struct device_list list = probe("all", &notes);
    assert_int_equal(list.len, 0);
    assert_non_null(strstr(buf_text(&notes), "Driver Not Loaded"));
    setenv("MUSTER_NVML", "/nonexistent/library.so", 1);
    buf_reset(&notes);
    list = probe("all", &notes);
    assert_int_equal(list.len, 0);
    assert_non_null(strstr(buf_text(&notes), "/nonexistent/library.so"));
    machine("FAKE_NVML", "gpus=0");
    list = probe("all", &notes);
    assert_int_equal(list.len, 0);
    buf_release(&notes);
}

static void an_old_driver_tells_what_it_can(void **state)
{
    (void)state;
    struct buf notes = BUF_INIT;
    machine("FAKE_NVML_OLD", "full=4,remap=5");
    struct device_list list = probe("all", &notes);
    assert_int_equal(list.len, 8);
    assert_string_equal(list.at[5].pci, "0000:60:00.0");
    assert_string_equal(list.at[5].ill, "");
    assert_int_equal(list.at[4].n_processes, 1);
    assert_int_equal(list.at[4].processes[0].pid, 1);
    device_list_release(&list);
    buf_release(&notes);
}

static void the_universe_is_what_the_visibility_list_names(void **state)
{
    (void)state;
    struct buf notes = BUF_INIT;
    machine("FAKE_NVML", "");
    setenv("CUDA_VISIBLE_DEVICES", "6,2,99,1", 1);
    struct device_list list = probe("all", &notes);
    assert_int_equal(list.len, 2);
    assert_int_equal(list.at[0].physical, 6);
    assert_int_equal(list.at[1].index, 1);
    assert_int_equal(list.at[1].physical, 2);
    assert_non_null(strstr(buf_text(&notes), "'99' is not on this machine"));
    device_list_release(&list);
    struct probe_opts opts = options();
    opts.ignore_visibility = true;
    struct device_spec *spec = xcalloc(1, sizeof(*spec));
    assert_int_equal(spec_parse("all", spec, NULL), 0);
    assert_int_equal(probe_universe(&opts, spec, &list, &notes, NULL), 0);
    assert_int_equal(list.len, 8);
    device_list_release(&list);
    free(spec);
    buf_release(&notes);
}

static void only_the_default_falls_back_to_cpu_slots(void **state)
{
    (void)state;
    struct buf notes = BUF_INIT;
    machine("FAKE_NVML", "");
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    struct device_list list = probe("free", &notes);
    assert_int_equal(list.len, 0);
    list = probe(NULL, &notes);
    assert_true(list.len > 0);
    assert_int_equal(list.at[0].kind, DEVICE_CPU);
    assert_non_null(strstr(buf_text(&notes), "hides every GPU"));
    assert_non_null(strstr(buf_text(&notes), "CPU slot"));
    device_list_release(&list);
    buf_release(&notes);
}

static void a_helper_that_cannot_be_started_is_named(void **state)
{
    SKIP_UNDER_VALGRIND();
    (void)state;
    struct device_list list;
    struct err err = {0};
    struct buf notes = BUF_INIT;
    struct probe_opts opts = {.self_path = "/nonexistent/muster"};
    machine("FAKE_NVML", "");
    assert_int_equal(gpu_list(vendor_of(DEVICE_CUDA), &opts, &list, &notes, &err), ERR_UNAVAILABLE);
    assert_non_null(strstr(err.text, "muster-devices is not beside /nonexistent/muster"));
    buf_release(&notes);
}

/* ---- watching ---- */

static void samples_come_for_every_device_in_the_list(void **state)
{
    (void)state;
    struct buf notes = BUF_INIT;
    struct device_sample samples[6];
    machine("FAKE_NVML", "mig=1:2,full=2,gpus=3");
    struct device_list list = probe("all", &notes);
    struct monitor *monitor = watch(&list);
    assert_true(monitor_pid(monitor) > 0);
    assert_int_equal(wait_round(monitor, samples, 4), 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(samples[i].device, i);
    assert_true(samples[0].mem_used_bytes == 1ull << 29);
    assert_true(samples[1].mem_total_bytes == 70ull << 30);
    assert_int_equal(samples[3].busy_percent, 97);
    assert_int_equal(samples[3].temperature_c, 32);
    monitor_close(monitor);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    device_list_release(&list);
    buf_release(&notes);
}

static void a_driver_that_wakes_slowly_is_waited_for(void **state)
{
    (void)state;
    struct buf notes = BUF_INIT;
    struct device_sample samples[2];
    machine("FAKE_NVML", "gpus=2,slowinit=700"); /* more than two deadlines */
    struct device_list list = probe("all", &notes);
    assert_int_equal(list.len, 2);
    struct monitor *monitor = watch(&list);
    pid_t pid = monitor_pid(monitor);
    assert_int_equal(wait_round(monitor, samples, 2), 2);
    assert_int_equal(monitor_pid(monitor), pid);
    monitor_close(monitor);
    device_list_release(&list);
    buf_release(&notes);
}

static void a_round_comes_at_once_when_it_is_asked_for(void **state)
{
    (void)state;
    struct buf notes = BUF_INIT;
    struct device_sample samples[2];
    machine("FAKE_NVML", "gpus=2");
    struct device_list list = probe("all", &notes);
    struct monitor *monitor = watch_every(3600000, &list);
    monitor_hurry(monitor); /* it may not hear yet, and must not die of it */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(wait_round(monitor, samples, 2), 2);
        monitor_hurry(monitor);
    }
    monitor_close(monitor);
    device_list_release(&list);
    buf_release(&notes);
}

/* Until a sample of the device says that it is not lost. */
static bool wait_back(struct monitor *monitor, size_t device)
{
    struct device_sample samples[8];
    for (uint64_t end_ms = clock_now_ms() + 60000; clock_now_ms() < end_ms; usleep(1000)) {
        size_t n_samples = monitor_read(monitor, samples, countof(samples));
        for (size_t i = 0; i < n_samples; i++)
            if (samples[i].device == device && !samples[i].is_lost)
                return true;
    }
    return false;
}

static void
a_device_that_goes_during_the_run_is_reported_once_and_again_when_it_is_back(void **state)
{
    (void)state;
    static const struct {
        const char *word, *why;
    } cases[] = {
        {"lostfile", "GPU is lost"},
        {"hangfile", "nvmlDeviceGetMemoryInfo does not answer"},
        {"crashfile", "nvmlDeviceGetMemoryInfo crashed"},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        char folder[] = "/tmp/muster-test-nvml-XXXXXX", script[128];
        struct buf notes = BUF_INIT;
        struct device_sample samples[3], lost = {0};
        assert_non_null(mkdtemp(folder));
        snprintf(script, sizeof(script), "gpus=3,%s=1:%s/now", cases[i].word, folder);
        machine("FAKE_NVML", script);
        struct device_list list = probe("all", &notes);
        struct monitor *monitor = watch(&list);
        assert_int_equal(wait_round(monitor, samples, 3), 3);
        assert_false(samples[1].is_lost);
        char *path = path_join(folder, "now");
        assert_int_equal(file_replace_fast(path, STR(""), NULL), 0);
        assert_true(wait_lost(monitor, 1, &lost));
        assert_string_equal(lost.ill, cases[i].why);
        assert_int_equal(unlink(path), 0);
        assert_true(wait_back(monitor, 1));
        monitor_close(monitor);
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
        device_list_release(&list);
        buf_release(&notes);
        assert_int_equal(remove_tree(folder, NULL), 0);
        free(path);
    }
}

static void a_helper_with_nothing_left_to_ask_is_not_started_again(void **state)
{
    (void)state;
    char folder[] = "/tmp/muster-test-nvml-XXXXXX", script[128];
    struct buf notes = BUF_INIT;
    struct device_sample samples[4];
    size_t n_lost = 0;
    assert_non_null(mkdtemp(folder));
    snprintf(script, sizeof(script), "gpus=1,hangfile=0:%s/now", folder);
    machine("FAKE_NVML", script);
    struct device_list list = probe("all", &notes);
    struct monitor *monitor = watch(&list);
    assert_int_equal(wait_round(monitor, samples, 1), 1);
    char *path = path_join(folder, "now");
    assert_int_equal(file_replace_fast(path, STR(""), NULL), 0);
    for (uint64_t end_ms = clock_now_ms() + 20000; n_lost == 0 && clock_now_ms() < end_ms;) {
        size_t n_samples = monitor_read(monitor, samples, 4);
        for (size_t i = 0; i < n_samples; i++)
            n_lost += samples[i].is_lost;
        usleep(1000);
    }
    assert_int_equal(n_lost, 1);
    for (uint64_t end_ms = clock_now_ms() + 3 * DEADLINE_MS; clock_now_ms() < end_ms;) {
        assert_int_equal(monitor_read(monitor, samples, 4), 0);
        assert_int_equal(monitor_pid(monitor), -1);
        usleep(1000);
    }
    monitor_close(monitor);
    device_list_release(&list);
    buf_release(&notes);
    assert_int_equal(remove_tree(folder, NULL), 0);
    free(path);
}

/* The stand-in for NVML does not sleep unless it is told to, so the helper does between two rounds only. */
static void wait_asleep(pid_t pid)
{
    char path[64], state = '?';
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    for (uint64_t end_ms = clock_now_ms() + 20000; state != 'S' && clock_now_ms() < end_ms;) {
        struct buf text = BUF_INIT;
        if (file_read(path, 4096, &text, NULL) == 0)
            (void)sscanf(buf_text(&text), "%*d (%*[^)]) %c", &state);
        buf_release(&text);
        usleep(1000);
    }
    assert_int_equal(state, 'S');
}

static void a_killed_helper_is_started_again_and_no_device_blamed(void **state)
{
    (void)state;
    struct buf notes = BUF_INIT;
    struct device_sample samples[3];
    machine("FAKE_NVML", "gpus=3");
    struct device_list list = probe("all", &notes);
    struct monitor *monitor = watch_every(3600000, &list);
    for (int time = 0; time < 2; time++) {
        assert_int_equal(wait_round(monitor, samples, 3), 3);
        pid_t pid = monitor_pid(monitor);
        wait_asleep(pid);
        assert_int_equal(kill(pid, SIGKILL), 0);
        for (uint64_t end_ms = clock_now_ms() + 20000;
             monitor_pid(monitor) == pid || monitor_pid(monitor) < 0;) {
            struct pollfd poll_fd = {.fd = monitor_fd(monitor), .events = POLLIN};
            assert_true(clock_now_ms() < end_ms);
            poll(&poll_fd, 1, 1000);
            assert_int_equal(monitor_read(monitor, samples, 3), 0);
        }
    }
    assert_int_equal(wait_round(monitor, samples, 3), 3);
    for (size_t i = 0; i < 3; i++)
        assert_false(samples[i].is_lost);
    monitor_close(monitor);
    device_list_release(&list);
    buf_release(&notes);
}

static void one_crash_over_a_device_is_not_held_against_it(void **state)
{
    (void)state;
    char folder[] = "/tmp/muster-test-nvml-XXXXXX", script[128];
    struct buf notes = BUF_INIT;
    struct device_sample samples[6];
    assert_non_null(mkdtemp(folder));
    snprintf(script, sizeof(script), "gpus=2,crashonce=1:%s/now", folder);
    machine("FAKE_NVML", script);
    struct device_list list = probe("all", &notes);
    struct monitor *monitor = watch(&list);
    assert_int_equal(wait_round(monitor, samples, 2), 2);
    pid_t pid = monitor_pid(monitor);
    char *path = path_join(folder, "now");
    assert_int_equal(file_replace_fast(path, STR(""), NULL), 0);
    while (monitor_pid(monitor) == pid) {
        assert_int_equal(wait_round(monitor, samples, 1), 1);
        assert_false(samples[0].is_lost);
    }
    assert_int_equal(wait_round(monitor, samples, 6), 6);
    for (size_t i = 0; i < 6; i++)
        assert_false(samples[i].is_lost);
    monitor_close(monitor);
    assert_int_equal(remove_tree(folder, NULL), 0);
    free(path);
    device_list_release(&list);
    buf_release(&notes);
}

/* The helper's pipe ends when it does: that is what is waited for here. */
static void the_helper_ends_with_its_parent_even_inside_a_query(void **state)
{
    (void)state;
    static const char *const scripts[] = {"gpus=1", "gpus=1,hang=0"};
    for (size_t i = 0; i < countof(scripts); i++) {
        char watch[] = "watch", period[] = "3600000";
        char uuid[] = "cuda:GPU-a0000000-1111-4222-8333-444444444444";
        char *args[] = {watch, period, uuid, NULL};
        struct helper helper;
        struct str line;
        bool is_round_over = false;
        machine("FAKE_NVML", scripts[i]);
        assert_int_equal(helper_start(&helper, getenv("MUSTER"), args, NULL), 0);
        /* it is in the middle of the query, or asleep between two rounds */
        while (!is_round_over && strcmp(helper.query, "nvmlDeviceGetMemoryInfo") != 0) {
            assert_true(helper_wait(&helper, 20000));
            while (helper_line(&helper, &line))
                is_round_over |= line.at[0] == '.';
        }
        close(helper.hold_fd);
        helper.hold_fd = -1;
        while (!helper.is_eof && (helper_wait(&helper, 20000) || helper.is_eof))
            while (helper_line(&helper, &line))
                continue;
        assert_true(helper.is_eof);
        assert_int_equal(helper_stop(&helper, 5000), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eight_gpus_are_found_with_all_that_nvml_tells),
        cmocka_unit_test(details_are_told_to_those_who_ask),
        cmocka_unit_test(troubles_are_told_device_by_device),
        cmocka_unit_test(a_hanging_query_costs_one_device_and_one_deadline),
        cmocka_unit_test(an_end_for_all_answers_holds_where_all_hang),
        cmocka_unit_test(a_driver_that_never_answers_is_given_up),
        cmocka_unit_test(a_broken_driver_is_an_error_and_a_missing_one_is_not),
        cmocka_unit_test(an_old_driver_tells_what_it_can),
        cmocka_unit_test(the_universe_is_what_the_visibility_list_names),
        cmocka_unit_test(only_the_default_falls_back_to_cpu_slots),
        cmocka_unit_test(a_helper_that_cannot_be_started_is_named),
        cmocka_unit_test(samples_come_for_every_device_in_the_list),
        cmocka_unit_test(a_driver_that_wakes_slowly_is_waited_for),
        cmocka_unit_test(a_round_comes_at_once_when_it_is_asked_for),
        cmocka_unit_test(
            a_device_that_goes_during_the_run_is_reported_once_and_again_when_it_is_back),
        cmocka_unit_test(a_helper_with_nothing_left_to_ask_is_not_started_again),
        cmocka_unit_test(a_killed_helper_is_started_again_and_no_device_blamed),
        cmocka_unit_test(one_crash_over_a_device_is_not_held_against_it),
        cmocka_unit_test(the_helper_ends_with_its_parent_even_inside_a_query),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
