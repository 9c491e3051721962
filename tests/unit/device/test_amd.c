/* SPDX-License-Identifier: Apache-2.0
 *
 * AMD's GPUs from trees of files (tests/fixtures/amd/trees.py), through a real helper process, alone
 * and beside NVIDIA's.
 */
#include "unit/test.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/seat.h"
#include "device/topology.h"
#include "device/vendor.h"
#include "probing.h"

static const char *const lists[] = {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
                                    "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"};

static void no_lists(void)
{
    for (size_t i = 0; i < countof(lists); i++)
        unsetenv(lists[i]);
}

static void machine(const char *name)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s/sys", getenv("AMD_TREES"), name);
    assert_true(path_exists(path));
    setenv("MUSTER_SYSFS", path, 1);
    unsetenv("MUSTER_NVML");
    unsetenv("MUSTER_FAKE_NVML");
    no_lists();
}

/* A copy of that machine that the test may change; its folder, to be removed. */
static char *machine_copy(const char *name)
{
    static char folder[32], path[64];
    char from[512];
    snprintf(folder, sizeof(folder), "/tmp/muster-test-amd-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(from, sizeof(from), "%s/%s/.", getenv("AMD_TREES"), name);
    pid_t pid = fork();
    if (pid == 0) {
        execlp("cp", "cp", "-a", from, folder, (char *)NULL);
        _exit(127);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    machine(name);
    snprintf(path, sizeof(path), "%s/sys", folder);
    setenv("MUSTER_SYSFS", path, 1);
    return folder;
}

/* A file of a PCI device, or without a name the link to its folder. */
static char *file_of(const char *folder, const char *pci, const char *name)
{
    static char path[256];
    snprintf(path, sizeof(path), "%s/sys/bus/pci/devices/%s%s%s", folder, pci, name ? "/" : "",
             name ? name : "");
    return path;
}

/* As a GPU that blocks whoever asks: nobody ever writes into the pipe. */
static void make_hang(const char *path)
{
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0666), 0);
}

static void eight_gpus_are_found_with_all_that_the_kernel_tells(void **state)
{
    (void)state;
    struct buf notes = BUF_INIT;
    machine("mi300x");
    struct device_list list = probe("all", &notes);
    assert_string_equal(buf_text(&notes), "");
    assert_int_equal(list.len, 8);
    const struct device *device = &list.at[5];
    assert_int_equal(device->index, 5);
    assert_int_equal(device->physical, 5);
    assert_int_equal(device->kind, DEVICE_ROCM);
    assert_string_equal(device->uuid, "GPU-7a3bc1d2e4f50605");
    assert_string_equal(device->name, "AMD Instinct MI300X OAM");
    assert_string_equal(device->pci, "0000:a6:00.0");
    assert_true(device->mem_total_bytes == 206141652992);
    assert_true(device->mem_free_bytes == 206141652992 - (297 << 20));
    assert_int_equal(device->busy_percent, 0);
    assert_int_equal(device->temperature_c, 46);
    assert_true(device->power_w > 137.9 && device->power_w < 138.1);
    assert_int_equal(device->ecc_uncorrected_count, 0);
    assert_string_equal(device->ill, "");
    assert_int_equal(device->n_processes, 0);
    assert_int_equal(device->numa_node, 1);
    assert_true(CPU_ISSET(48, &device->cpus) && !CPU_ISSET(0, &device->cpus));
    assert_int_equal(list.at[3].numa_node, 0);
    device_list_release(&list);
    buf_release(&notes);
}

static void linked_gpus_are_nearer_than_any_way_over_pcie(void **state)
{
    (void)state;
    struct buf notes = BUF_INIT;
    machine("mi210");
    struct device_list list = probe("all", &notes);
    assert_int_equal(list.len, 4);
    /* bridges between 0 and 2, 1 and 3 */
    assert_int_equal(list.distance[0 * 4 + 2], 15);
    assert_int_equal(list.distance[3 * 4 + 1], 15);
    assert_int_equal(list.distance[0 * 4 + 1], 140);
    device_list_release(&list);
    machine("switch");
    list = probe("all", &notes);
    /* 0 and 2 under one bridge, 1 and 3 under another */
    assert_int_equal(list.distance[0 * 4 + 2], 120);
    assert_int_equal(list.distance[1 * 4 + 3], 120);
    assert_true(list.distance[0 * 4 + 1] > 120);
    device_list_release(&list);
    machine("mi300x");
    list = probe("all", &notes);
    for (size_t i = 0; i < 64; i++)
        assert_int_equal(list.distance[i], i / 8 == i % 8 ? 0 : 15);
    device_list_release(&list);
    buf_release(&notes);
}

static void who_has_memory_or_a_queue_computes_there(void **state)
{
    (void)state;
    struct buf notes = BUF_INIT;
    size_t chosen[8], n_chosen;
    machine("mi300x-busy");
    struct device_list list = probe("all", &notes);
    assert_int_equal(list.at[0].n_processes, 1);
    assert_int_equal(list.at[0].processes[0].pid, 4000001);
    assert_true(list.at[0].processes[0].mem_bytes == 99ull << 30);
    assert_int_equal(list.at[1].n_processes, 0); /* it has opened the driver, and that is all */
    assert_int_equal(list.at[2].n_processes, 1);
    assert_int_equal(list.at[2].processes[0].mem_bytes, 0);
    struct device_spec *spec = xcalloc(1, sizeof(*spec));
    assert_int_equal(spec_parse("free:150GiB", spec, NULL), 0);
    assert_int_equal(spec_select(spec, &list, chosen, 8, &n_chosen, NULL, NULL), 0);
    assert_int_equal(n_chosen, 6);
    assert_int_equal(chosen[0], 1);
    assert_int_equal(chosen[1], 3);
    free(spec);
    device_list_release(&list);
    buf_release(&notes);
}

static void graphics_of_the_processor_compute_only_when_asked_to(void **state)
{
    (void)state;
    static const struct {
        const char *machine, *spec;
        int rc;
        size_t n_chosen, first;
        const char *says;
    } cases[] = {
        {"desktop", "free", 0, 1, 0, ""},
        {"desktop", "all", 0, 1, 0, "gpu 1: graphics of the processor"},
        {"desktop", "1", 0, 1, 1, ""},
        {"desktop", "any:2", ERR_UNAVAILABLE, 1, 0, ""},
        {"laptop", "free", ERR_UNAVAILABLE, 0, 0, ""},
        {"laptop", "all", 0, 1, 0, ""},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct buf notes = BUF_INIT, warnings = BUF_INIT;
        struct err err = {0};
        struct device_spec *spec = xcalloc(1, sizeof(*spec));
        size_t chosen[4] = {0}, n_chosen;
        machine(cases[i].machine);
        struct device_list list = probe("all", &notes);
        assert_int_equal(spec_parse(cases[i].spec, spec, NULL), 0);
        int rc = spec_select(spec, &list, chosen, 4, &n_chosen, &warnings, &err);
        if (rc != cases[i].rc || n_chosen != cases[i].n_chosen || chosen[0] != cases[i].first ||
            !strstr(buf_text(&warnings), cases[i].says))
            fail_msg("%s -g %s: %d, %zu chosen, %s%s", cases[i].machine, cases[i].spec, rc,
                     n_chosen, err.text, buf_text(&warnings));
        device_list_release(&list);
        buf_release(&notes);
        buf_release(&warnings);
        free(spec);
    }
    struct buf notes = BUF_INIT;
    struct device_list list = probe(NULL, &notes);
    assert_int_equal(list.at[0].kind, DEVICE_CPU);
    assert_non_null(strstr(buf_text(&notes), "no GPU but graphics of the processor"));
    device_list_release(&list);
    buf_release(&notes);
}

static void names_come_from_board_then_table_then_chip(void **state)
{
    (void)state;
    struct buf notes = BUF_INIT;
    machine("desktop");
    struct device_list list = probe("all", &notes);
    assert_string_equal(list.at[0].name, "AMD Radeon RX 7900 XTX");
    assert_string_equal(list.at[1].name, "AMD gfx1036 (integrated)");
    assert_string_equal(list.at[1].uuid, "PCI-0000:10:00.0");
    assert_true(list.at[1].is_integrated && list.at[1].is_unnamed);
    assert_false(list.at[0].is_integrated || list.at[0].is_unnamed);
    /* half a gigabyte of its own, and its share of the computer's */
    assert_true(list.at[1].mem_total_bytes == (30ull << 30) + (512u << 20));
    device_list_release(&list);
    buf_release(&notes);
}

static void partitions_of_a_gpu_are_told_apart(void **state)
{
    (void)state;
    struct buf notes = BUF_INIT;
    machine("partitions");
    struct device_list list = probe("all", &notes);
    assert_int_equal(list.len, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(list.at[i].pci, "0000:05:00.0");
        assert_true(list.at[i].is_unnamed);
        assert_true(list.at[i].mem_total_bytes == 24ull << 30);
    }
    assert_string_equal(list.at[0].uuid, "GPU-7a3bc1d2e4f50600.0");
    assert_string_equal(list.at[1].uuid, "GPU-7a3bc1d2e4f50600.1");
    assert_true(list.at[0].mem_free_bytes == 24ull << 30);
    assert_true(list.at[1].mem_free_bytes == 16ull << 30);
    assert_int_equal(list.at[0].n_processes, 0);
    assert_int_equal(list.at[1].n_processes, 1);
    /* a UUID that fits both would show a worker neither */
    struct seat seat = {.n_devices = 1, .devices = {1}, .threads = 1};
    struct env_list env = {0};
    seat_environment(&seat, &list, VISIBLE_UUID, &env);
    bool is_shown = false;
    for (size_t i = 0; i < env.len; i++)
        is_shown |= strcmp(env.at[i], "HIP_VISIBLE_DEVICES=1") == 0;
    assert_true(is_shown);
    env_list_release(&env);
    device_list_release(&list);
    machine("partitions-one-memory");
    list = probe("all", &notes);
    for (size_t i = 0; i < 2; i++)
        assert_true(list.at[i].mem_free_bytes == 206141652992 - (64ull << 30));
    device_list_release(&list);
    buf_release(&notes);
}

static void a_broken_machine_tells_what_it_can(void **state)
{
    (void)state;
    struct buf notes = BUF_INIT;
    machine("broken");
    struct device_list list = probe("all", &notes);
    assert_int_equal(list.len, 7);
    assert_int_equal(list.at[0].temperature_c, 37);
    for (size_t i = 1; i <= 2; i++) {
        assert_false(list.at[i].is_lost);
        assert_string_equal(list.at[i].ill, "");
        assert_int_equal(list.at[i].mem_total_bytes, 0);
        assert_int_equal(list.at[i].busy_percent, -1);
        assert_int_equal(list.at[i].temperature_c, -1);
        assert_true(list.at[i].power_w == -1);
        assert_int_equal(list.at[i].ecc_uncorrected_count, -1);
    }
    assert_string_equal(list.at[1].name, "AMD gfx90a");
    assert_string_equal(list.at[2].name, "no newline");
    assert_true(list.at[3].is_lost);
    assert_string_equal(list.at[3].ill, "the AMD driver does not describe it");
    assert_true(list.at[4].is_lost);
    assert_string_equal(list.at[4].ill, "it is not on the PCI bus");
    assert_non_null(strstr(list.at[5].ill, "could not be retired"));
    assert_int_equal(list.at[6].ecc_uncorrected_count, 3);
    for (int i = 0; i < 7; i++)
        assert_int_equal(list.at[i].physical, i); /* ROCm counts those in trouble too */
    device_list_release(&list);
    buf_release(&notes);
}

static void what_is_kept_from_this_process_is_explained(void **state)
{
    (void)state;
    struct buf notes = BUF_INIT;
    machine("no-gpu");
    struct device_list list = probe("all", &notes);
    assert_int_equal(list.len, 0);
    assert_non_null(strstr(buf_text(&notes), "has no GPU for computing"));
    char *folder = machine_copy("mi210");
    char *kfd = path_join(folder, "dev/kfd");
    assert_int_equal(unlink(kfd), 0);
    buf_reset(&notes);
    list = probe("all", &notes);
    assert_int_equal(list.len, 0);
    assert_non_null(strstr(buf_text(&notes), "no /dev/kfd"));
    setenv("MUSTER_SYSFS", "/nonexistent", 1);
    buf_reset(&notes);
    list = probe("all", &notes);
    assert_int_equal(list.len, 0);
    if (!nvml_is_there())
        assert_string_equal(buf_text(&notes), "no NVIDIA or AMD driver on this machine\n");
    free(kfd);
    assert_int_equal(remove_tree(folder, NULL), 0);
    buf_release(&notes);
}

static void lists_apply_layer_by_layer_as_rocm_reads_them(void **state)
{
    (void)state;
    static const struct {
        const char *rocr, *hip, *cuda, *ordinal;
        const char *kept, *says;
    } cases[] = {
        {"3,1", NULL, NULL, NULL, "3 1 ", ""},
        {NULL, "3,1", NULL, NULL, "3 1 ", ""},
        {NULL, NULL, "2", NULL, "2 ", ""},
        {"3,1,0", "1,2", NULL, NULL, "1 0 ", ""},
        {"3,1,0", NULL, "2", NULL, "0 ", ""},
        {"3,1,0", "1", "2", NULL, "1 ", ""},
        {"3,1,0", "", "2", NULL, "0 ", ""},
        {NULL, "", "", NULL, "0 1 2 3 ", ""},
        {NULL, NULL, NULL, "1", "0 1 2 3 ", ""}, /* OpenCL's alone */
        {"", NULL, NULL, NULL, "", "ROCR_VISIBLE_DEVICES='' hides every GPU"},
        {NULL, "-1", NULL, NULL, "", "HIP_VISIBLE_DEVICES='-1' hides every GPU"},
        {"2,3", "2", NULL, NULL, "", "'2' is not on this machine"},
        {"1,1,0", NULL, NULL, NULL, "1 ", "'1' is listed twice"},
        {NULL, "1,1,0", NULL, NULL, "1 0 ", ""},
        {"GPU-91f2a3b4c5d60002,0", NULL, NULL, NULL, "2 0 ", ""},
        {"GPU-91f2", NULL, NULL, NULL, "", "fits several"},
        {"0,3", "GPU-91f2a3b4c5d60003", NULL, NULL, "3 ", ""},
    };
    machine("mi210");
    for (size_t i = 0; i < countof(cases); i++) {
        struct buf notes = BUF_INIT, kept = BUF_INIT;
        const char *const values[] = {cases[i].cuda, cases[i].hip, cases[i].rocr, cases[i].ordinal};
        no_lists();
        for (size_t v = 0; v < countof(lists); v++)
            if (values[v])
                setenv(lists[v], values[v], 1);
        struct device_list list = probe("all", &notes);
        for (size_t k = 0; k < list.len; k++) {
            buf_addf(&kept, "%d ", list.at[k].physical);
            assert_int_equal(list.at[k].index, (int)k);
        }
        bool is_quiet = cases[i].says[0] != '\0' || notes.len == 0;
        if (strcmp(buf_text(&kept), cases[i].kept) != 0 || !is_quiet ||
            !strstr(buf_text(&notes), cases[i].says))
            fail_msg("case %zu: \"%s\", notes \"%s\"", i, buf_text(&kept), buf_text(&notes));
        device_list_release(&list);
        buf_release(&notes);
        buf_release(&kept);
    }
    no_lists();
}

/* ---- trouble while asking ---- */

static void a_file_that_hangs_costs_one_device_and_one_deadline(void **state)
{
    (void)state;
    struct buf notes = BUF_INIT;
    char *folder = machine_copy("mi210");
    make_hang(file_of(folder, "0000:43:00.0", "gpu_busy_percent"));
    uint64_t begin_ms = clock_now_ms();
    struct device_list list = probe("all", &notes);
    assert_true(clock_now_ms() - begin_ms < 20000);
    assert_int_equal(list.len, 4);
    assert_true(list.at[1].is_lost);
    assert_string_equal(list.at[1].uuid, "GPU-91f2a3b4c5d60001");
    assert_string_equal(list.at[1].ill, "gpu_busy_percent did not answer within 300 ms");
    assert_false(list.at[2].is_lost);
    assert_int_equal(list.at[2].temperature_c, 37);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* nothing is left of the helpers */
    device_list_release(&list);
    buf_release(&notes);
    assert_int_equal(remove_tree(folder, NULL), 0);
}

static void a_gpu_that_goes_during_the_run_is_reported_once(void **state)
{
    (void)state;
    static const char *const whys[] = {"it is not on the PCI bus",
                                       "gpu_busy_percent does not answer"};
    for (size_t i = 0; i < countof(whys); i++) {
        struct buf notes = BUF_INIT;
        struct device_sample samples[4], lost = {0};
        char *folder = machine_copy("mi210");
        struct device_list list = probe("all", &notes);
        struct monitor *monitor = watch(&list);
        assert_int_equal(wait_round(monitor, samples, 4), 4);
        assert_int_equal(samples[1].device, 1);
        assert_false(samples[1].is_lost);
        assert_int_equal(samples[1].mem_used_bytes, 11 << 20);
        assert_int_equal(samples[1].temperature_c, 37);
        if (i == 0)
            assert_int_equal(unlink(file_of(folder, "0000:43:00.0", NULL)), 0);
        else
            make_hang(file_of(folder, "0000:43:00.0", "gpu_busy_percent"));
        assert_true(wait_lost(monitor, 1, &lost));
        assert_string_equal(lost.ill, whys[i]);
        monitor_close(monitor);
        device_list_release(&list);
        buf_release(&notes);
        assert_int_equal(remove_tree(folder, NULL), 0);
    }
}

/* ---- beside another vendor ---- */

static struct device_list mixed(const char *amd, const char *nvidia, struct buf *notes)
{
    machine(amd);
    setenv("MUSTER_NVML", getenv("FAKE_NVML"), 1);
    setenv("MUSTER_FAKE_NVML", nvidia, 1);
    return probe("all", notes);
}

static void ids_count_through_nvidia_first(void **state)
{
    (void)state;
    struct buf notes = BUF_INIT;
    struct device_list list = mixed("mi210", "gpus=3", &notes);
    assert_int_equal(list.len, 7);
    for (int i = 0; i < 7; i++) {
        assert_int_equal(list.at[i].index, i);
        assert_int_equal(list.at[i].kind, i < 3 ? DEVICE_CUDA : DEVICE_ROCM);
        assert_int_equal(list.at[i].physical, i < 3 ? i : i - 3);
    }
    /* within a vendor as if it were alone; across unknown, which is far */
    assert_int_equal(list.distance[3 * 7 + 5], 15);
    assert_int_equal(list.distance[0 * 7 + 3], 255);
    assert_true(list.distance[0 * 7 + 1] < 255);
    struct device_spec *spec = xcalloc(1, sizeof(*spec));
    size_t chosen[8], n_chosen;
    struct err err = {0};
    assert_int_equal(spec_parse("phys:1", spec, NULL), 0);
    assert_int_equal(spec_select(spec, &list, chosen, 8, &n_chosen, NULL, &err), ERR_USAGE);
    assert_non_null(strstr(err.text, "phys:1 is GPU-a1000000"));
    free(spec);
    device_list_release(&list);
    buf_release(&notes);
}

static void why_one_vendor_has_nothing_is_no_news_beside_another(void **state)
{
    (void)state;
    struct buf notes = BUF_INIT;
    struct device_list list = mixed("no-gpu", "gpus=3", &notes);
    assert_int_equal(list.len, 3);
    assert_string_equal(buf_text(&notes), "");
    device_list_release(&list);
    list = mixed("no-gpu", "gpus=0", &notes);
    assert_int_equal(list.len, 0);
    assert_non_null(strstr(buf_text(&notes), "the NVIDIA driver is there and has no GPU"));
    assert_non_null(strstr(buf_text(&notes), "the AMD driver is there and has no GPU"));
    buf_release(&notes);
    /* a processor's graphics beside NVIDIA's GPU are left alone, and come last */
    list = mixed("laptop", "gpus=1", &notes);
    struct device_spec *spec = xcalloc(1, sizeof(*spec));
    size_t chosen[4], n_chosen;
    assert_int_equal(spec_parse(NULL, spec, NULL), 0);
    assert_int_equal(spec_select(spec, &list, chosen, 4, &n_chosen, NULL, NULL), 0);
    assert_int_equal(list.len, 2);
    assert_int_equal(n_chosen, 1);
    assert_int_equal(list.at[chosen[0]].kind, DEVICE_CUDA);
    free(spec);
    device_list_release(&list);
    buf_release(&notes);
}

static void a_vendor_that_fails_is_heard_of_beside_another(void **state)
{
    (void)state;
    struct device_list list;
    struct buf notes = BUF_INIT;
    struct err err = {0};
    struct probe_opts opts = options();
    struct device_spec *spec = xcalloc(1, sizeof(*spec));
    assert_int_equal(spec_parse("all", spec, NULL), 0);
    list = mixed("mi210", "gpus=0", &notes);
    device_list_release(&list);
    assert_string_equal(buf_text(&notes), "");
    opts.wants_reasons = true;
    assert_int_equal(probe_universe(&opts, spec, &list, &notes, &err), 0);
    assert_int_equal(list.len, 4);
    assert_string_equal(buf_text(&notes), "the NVIDIA driver is there and has no GPU\n");
    device_list_release(&list);
    /* one that is broken is an error; only who asks for reasons gets the others' devices too */
    setenv("MUSTER_FAKE_NVML", "init=18", 1);
    assert_int_equal(probe_universe(&opts, spec, &list, &notes, &err), ERR_UNAVAILABLE);
    assert_non_null(strstr(err.text, "version mismatch"));
    assert_int_equal(list.len, 4);
    device_list_release(&list);
    opts.wants_reasons = false;
    assert_int_equal(probe_universe(&opts, spec, &list, &notes, &err), ERR_UNAVAILABLE);
    assert_int_equal(list.len, 0);
    /* and one that hangs leaves the next its time */
    setenv("MUSTER_FAKE_NVML", "hanginit", 1);
    opts.wants_reasons = true;
    opts.until_ms = clock_now_ms() + 4 * DEADLINE_MS;
    assert_int_equal(probe_universe(&opts, spec, &list, &notes, &err), ERR_UNAVAILABLE);
    assert_non_null(strstr(err.text, "did not answer nvmlInit_v2"));
    assert_int_equal(list.len, 4);
    device_list_release(&list);
    buf_release(&notes);
    free(spec);
}

static void notes_on_lists_say_whose_devices_they_mean(void **state)
{
    (void)state;
    struct buf notes = BUF_INIT;
    struct device_list list = mixed("mi210", "gpus=3", &notes);
    device_list_release(&list);
    setenv("CUDA_VISIBLE_DEVICES", "GPU-a1", 1);
    list = probe("all", &notes);
    assert_int_equal(list.len, 1);
    assert_int_equal(list.at[0].physical, 1);
    assert_int_equal(list.at[0].kind, DEVICE_CUDA);
    assert_non_null(strstr(buf_text(&notes), "AMD's GPUs: CUDA_VISIBLE_DEVICES: 'GPU-a1'"));
    assert_non_null(strstr(buf_text(&notes), "AMD's GPUs: CUDA_VISIBLE_DEVICES='GPU-a1' hides"));
    assert_null(strstr(buf_text(&notes), "NVIDIA's"));
    no_lists();
    device_list_release(&list);
    buf_release(&notes);
}

static void a_worker_never_gets_devices_of_two_vendors(void **state)
{
    (void)state;
    struct buf notes = BUF_INIT, warnings = BUF_INIT;
    struct device_list list = mixed("mi210", "gpus=3", &notes);
    size_t chosen[] = {0, 1, 2, 3, 4, 5, 6}, n_chosen = 7, n_seats;
    assert_int_equal(seats_fit(&list, chosen, &n_chosen, 2, &warnings, NULL), 0);
    assert_int_equal(n_chosen, 6);
    assert_non_null(strstr(buf_text(&warnings), "gpu 2 is left over"));
    struct seat *seats;
    struct seat_opts opts = {.devices_per_worker = 2};
    assert_int_equal(seats_make(&list, chosen, n_chosen, &opts, &seats, &n_seats, NULL), 0);
    assert_int_equal(n_seats, 3);
    static const char *const labels[] = {"gpu_0+1", "gpu_3+5", "gpu_4+6"}; /* by their bridges */
    for (size_t i = 0; i < 3; i++)
        assert_string_equal(seats[i].label, labels[i]);
    /* two of each, and no three */
    size_t four[] = {0, 1, 3, 4}, n_four = 4;
    struct err err = {0};
    assert_int_equal(seats_fit(&list, four, &n_four, 3, &warnings, &err), ERR_UNAVAILABLE);
    assert_non_null(strstr(err.text, "not so many of one kind"));
    free(seats);
    device_list_release(&list);
    buf_release(&notes);
    buf_release(&warnings);
}

static bool has_entry(const struct env_list *env, const char *entry)
{
    for (size_t i = 0; i < env->len; i++)
        if (strcmp(env->at[i], entry) == 0)
            return true;
    return false;
}

static void a_worker_is_shown_its_devices_by_one_variable(void **state)
{
    (void)state;
    struct buf notes = BUF_INIT;
    struct device_list list = mixed("mi210", "gpus=3", &notes);
    struct env_list env = {0};
    struct seat seat = {.n_devices = 1, .devices = {5}, .threads = 1};
    seat_environment(&seat, &list, VISIBLE_INDEX, &env);
    static const char *const wanted[] = {"HIP_VISIBLE_DEVICES=2",   "ROCR_VISIBLE_DEVICES",
                                         "CUDA_VISIBLE_DEVICES",    "GPU_DEVICE_ORDINAL",
                                         "MUSTER_DEVICE_KIND=rocm", "MUSTER_DEVICE_INDEX=2"};
    for (size_t i = 0; i < countof(wanted); i++)
        assert_true(has_entry(&env, wanted[i]));
    env_list_release(&env);
    seat_environment(&seat, &list, VISIBLE_UUID, &env);
    assert_true(has_entry(&env, "HIP_VISIBLE_DEVICES=GPU-91f2a3b4c5d60002"));
    env_list_release(&env);
    seat.devices[0] = 1;
    seat_environment(&seat, &list, VISIBLE_INDEX, &env);
    assert_true(has_entry(&env, "CUDA_VISIBLE_DEVICES=1"));
    assert_true(has_entry(&env, "CUDA_DEVICE_ORDER=PCI_BUS_ID"));
    env_list_release(&env);
    /* and on a CPU slot it is shown none of either */
    struct device_list slots;
    cpu_devices(1, &slots);
    seat.devices[0] = 0;
    seat_environment(&seat, &slots, VISIBLE_INDEX, &env);
    assert_true(has_entry(&env, "CUDA_VISIBLE_DEVICES="));
    assert_true(has_entry(&env, "HIP_VISIBLE_DEVICES=-1"));
    env_list_release(&env);
    device_list_release(&slots);
    device_list_release(&list);
    buf_release(&notes);
}

static void one_helper_watches_the_devices_of_both(void **state)
{
    (void)state;
    struct buf notes = BUF_INIT;
    struct device_sample samples[3];
    struct device_list list = mixed("desktop", "gpus=1", &notes);
    assert_int_equal(list.len, 3);
    struct monitor *monitor = watch(&list);
    assert_int_equal(wait_round(monitor, samples, 3), 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(samples[i].device, i);
        assert_false(samples[i].is_lost);
    }
    assert_true(samples[0].mem_total_bytes == 141ull << 30);
    assert_true(samples[1].mem_total_bytes == 25753026560);
    monitor_close(monitor);
    device_list_release(&list);
    buf_release(&notes);
}

static void a_driver_that_fails_takes_no_samples_from_the_other(void **state)
{
    (void)state;
    struct buf notes = BUF_INIT;
    struct device_sample samples[8];
    struct device_list list = mixed("mi210", "gpus=1", &notes);
    setenv("MUSTER_NVML", "/nonexistent/library.so", 1);
    struct monitor *monitor = watch(&list);
    assert_int_equal(wait_round(monitor, samples, 8), 8);
    for (size_t i = 0; i < 8; i++)
        assert_true(samples[i].device > 0 && !samples[i].is_lost);
    monitor_close(monitor);
    device_list_release(&list);
    buf_release(&notes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eight_gpus_are_found_with_all_that_the_kernel_tells),
        cmocka_unit_test(linked_gpus_are_nearer_than_any_way_over_pcie),
        cmocka_unit_test(who_has_memory_or_a_queue_computes_there),
        cmocka_unit_test(graphics_of_the_processor_compute_only_when_asked_to),
        cmocka_unit_test(names_come_from_board_then_table_then_chip),
        cmocka_unit_test(partitions_of_a_gpu_are_told_apart),
        cmocka_unit_test(a_broken_machine_tells_what_it_can),
        cmocka_unit_test(what_is_kept_from_this_process_is_explained),
        cmocka_unit_test(lists_apply_layer_by_layer_as_rocm_reads_them),
        cmocka_unit_test(a_file_that_hangs_costs_one_device_and_one_deadline),
        cmocka_unit_test(a_gpu_that_goes_during_the_run_is_reported_once),
        cmocka_unit_test(ids_count_through_nvidia_first),
        cmocka_unit_test(why_one_vendor_has_nothing_is_no_news_beside_another),
        cmocka_unit_test(a_vendor_that_fails_is_heard_of_beside_another),
        cmocka_unit_test(notes_on_lists_say_whose_devices_they_mean),
        cmocka_unit_test(a_worker_never_gets_devices_of_two_vendors),
        cmocka_unit_test(a_worker_is_shown_its_devices_by_one_variable),
        cmocka_unit_test(one_helper_watches_the_devices_of_both),
        cmocka_unit_test(a_driver_that_fails_takes_no_samples_from_the_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
