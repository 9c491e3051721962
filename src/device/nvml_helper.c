/* SPDX-License-Identifier: Apache-2.0
 *
 * The helper process: the only one that loads NVML, because any query may hang in the kernel.
 *
 *   nvml-helper list [detail] [brief=2,5] [gone=3]   every device once, then the distances
 *   nvml-helper watch PERIOD_MS [gone=1] UUID…       samples, until standard input ends
 *
 * It answers in lines on stdout, told apart by their first character:
 *   ?SYMBOL NUMBER  about to call SYMBOL for that GPU (its position in a watch; -1: none)
 *   {…}             a device, or a sample
 *   #A B DISTANCE   between two GPUs, by physical number
 *   -TEXT           there is no device, because …      !TEXT  the driver is there and fails
 *   .               the list, or a round of the watch, is complete
 * Of a `brief` GPU only the identity is asked, of a `gone` one nothing: it hung earlier.
 */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/idlist.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "device/nvml_abi.h"
#include "device/wire.h"

struct number_set {
    uint32_t at[DEVICES_MAX];
    size_t len;
};

struct session {
    struct nvml nvml;
    int number; /* of the GPU that is being asked, for announcements */
    struct number_set brief, gone;
    bool wants_details;
    char driver[32];
};

static bool has(const struct number_set *set, uint32_t number)
{
    for (size_t i = 0; i < set->len; i++)
        if (set->at[i] == number)
            return true;
    return false;
}

static void say(struct buf *line)
{
    buf_add_char(line, '\n');
    if (write_all(STDOUT_FILENO, line->at, line->len, NULL) != 0)
        _exit(1);
    buf_release(line);
}

static void say_text(const char *text)
{
    struct buf line = BUF_INIT;
    buf_add_text(&line, text);
    say(&line);
}

static void announce(const struct session *session, const char *symbol)
{
    struct buf line = BUF_INIT;
    buf_addf(&line, "?%s %d", symbol, session->number);
    say(&line);
}

/* Call it if this driver has it, having said so. */
#define ASK(session, field, ...)                                                       \
    ((session)->nvml.field                                                             \
         ? (announce(session, nvml_symbols.field), (session)->nvml.field(__VA_ARGS__)) \
         : NVML_NO_FUNCTION)

static const char *result_text(const struct session *session, int result)
{
    return session->nvml.error_text ? session->nvml.error_text(result) : "NVML failed";
}

static bool is_gone_result(int result)
{
    return result == NVML_GPU_IS_LOST || result == NVML_UNKNOWN;
}

/* Row remapping is Ampere's and later's, retired pages are Pascal's to Turing's. */
static void ask_health(const struct session *session, nvml_device handle, struct device *device)
{
    unsigned corrected, uncorrected, pending = 0, failed = 0;
    if (ASK(session, remapped_rows, handle, &corrected, &uncorrected, &pending, &failed) ==
        NVML_OK) {
        device->row_remap_pending = pending != 0;
        device->row_remap_failed = failed != 0;
    }
    if (failed)
        snprintf(device->ill, sizeof(device->ill), "row remapping failed: the GPU needs repair");
    else if (pending)
        snprintf(device->ill, sizeof(device->ill), "row remapping pending: the GPU needs a reset");
    pending = 0;
    if (ASK(session, retired_pending, handle, &pending) == NVML_OK && pending)
        snprintf(device->ill, sizeof(device->ill),
                 "page retirement pending: the GPU needs a reset");
}

/* Memory, load, heat. The first answer decides whether the GPU is still there. */
static void ask_state(const struct session *session, nvml_device handle, struct device *device)
{
    struct nvml_memory memory = {0};
    struct nvml_utilization load;
    unsigned number;
    int result = ASK(session, memory, handle, &memory);
    if (is_gone_result(result)) {
        device->is_lost = true;
        snprintf(device->ill, sizeof(device->ill), "%s", result_text(session, result));
        return;
    }
    if (result == NVML_RESET_REQUIRED)
        snprintf(device->ill, sizeof(device->ill), "the GPU needs a reset");
    device->mem_total_bytes = memory.total_bytes;
    device->mem_free_bytes = memory.free_bytes;
    if (ASK(session, utilization, handle, &load) == NVML_OK)
        device->busy_percent = (int)load.gpu_percent;
    if (ASK(session, temperature, handle, NVML_SENSOR_GPU, &number) == NVML_OK)
        device->temperature_c = (int)number;
    if (ASK(session, power, handle, &number) == NVML_OK)
        device->power_w = number / 1000.0;
    ask_health(session, handle, device);
}

/* Leaves what the driver does not tell at 0. */
static void ask_details(const struct session *session, nvml_device handle, struct device *device)
{
    unsigned mode = 0, number = 0, is_up = 0;
    unsigned long long reasons = 0;
    memcpy(device->driver, session->driver, sizeof(device->driver));
    if (ASK(session, persistence, handle, &mode) == NVML_OK)
        device->is_persistence_off = mode == 0;
    if (ASK(session, compute_mode, handle, &mode) == NVML_OK)
        device->compute_mode = (int)mode;
    if (ASK(session, pcie_gen, handle, &number) == NVML_OK)
        device->pcie_gen = (int)number;
    if (ASK(session, pcie_gen_max, handle, &number) == NVML_OK)
        device->pcie_gen_max = (int)number;
    if (ASK(session, pcie_width, handle, &number) == NVML_OK)
        device->pcie_width = (int)number;
    if (ASK(session, pcie_width_max, handle, &number) == NVML_OK)
        device->pcie_width_max = (int)number;
    if (ASK(session, threshold, handle, NVML_SLOWDOWN, &number) == NVML_OK)
        device->slowdown_c = (int)number;
    if (ASK(session, clock_reasons, handle, &reasons) == NVML_OK)
        device->clock_reasons = (long)reasons;
    for (unsigned link = 0; link < NVML_LINKS_MAX; link++) {
        if (ASK(session, nvlink_state, handle, link, &is_up) != NVML_OK)
            break;
        device->nvlinks_up += is_up != 0;
    }
}

static void add_process(struct device *device, unsigned pid, unsigned long long mem_bytes)
{
    struct device_process *process = &device->processes[device->n_processes];
    char path[64];
    struct stat st;
    *process = (struct device_process){.pid = (pid_t)pid, .uid = (uid_t)-1};
    process->mem_bytes = mem_bytes == ULLONG_MAX ? 0 : mem_bytes;
    snprintf(path, sizeof(path), "/proc/%u", pid);
    if (stat(path, &st) == 0)
        process->uid = st.st_uid;
    snprintf(path, sizeof(path), "/proc/%u/comm", pid);
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, process->name, sizeof(process->name) - 1);
    if (got > 0 && process->name[got - 1] == '\n')
        process->name[got - 1] = '\0';
    device->n_processes++;
}

static void ask_processes(const struct session *session, nvml_device handle, struct device *device)
{
    struct nvml_process found[DEVICE_PROCESSES_MAX] = {0};
    struct nvml_process_v1 found_v1[DEVICE_PROCESSES_MAX] = {0};
    unsigned n_found = DEVICE_PROCESSES_MAX;
    int result = ASK(session, processes_v3, handle, &n_found, found);
    if (result == NVML_NO_FUNCTION)
        result = ASK(session, processes_v2, handle, &n_found, found);
    bool is_v1 = result == NVML_NO_FUNCTION;
    if (is_v1)
        result = ASK(session, processes_v1, handle, &n_found, found_v1);
    /* NVML_TOO_SMALL: more than we show; which is told by a full table */
    if (result != NVML_OK && result != NVML_TOO_SMALL)
        return;
    for (unsigned i = 0; i < MIN(n_found, (unsigned)DEVICE_PROCESSES_MAX); i++)
        add_process(device, is_v1 ? found_v1[i].pid : found[i].pid,
                    is_v1 ? found_v1[i].mem_bytes : found[i].mem_bytes);
}

static void device_reset(struct device *device, int physical)
{
    *device = (struct device){.kind = DEVICE_CUDA,
                              .physical = physical,
                              .busy_percent = -1,
                              .temperature_c = -1,
                              .power_w = -1,
                              .ecc_uncorrected_count = -1,
                              .numa_node = -1};
}

static int ask_identity(const struct session *session, nvml_device handle, struct device *device)
{
    struct nvml_pci pci = {0};
    int result = ASK(session, uuid, handle, device->uuid, sizeof(device->uuid));
    if (result != NVML_OK)
        return result;
    if (ASK(session, name, handle, device->name, sizeof(device->name)) != NVML_OK)
        snprintf(device->name, sizeof(device->name), "GPU");
    result = ASK(session, pci, handle, &pci);
    if (result == NVML_NO_FUNCTION)
        result = ASK(session, pci_v2, handle, &pci);
    if (result == NVML_OK)
        snprintf(device->pci, sizeof(device->pci), "%04x:%02x:%02x.0", pci.domain, pci.bus,
                 pci.device);
    return NVML_OK;
}

static void say_device(const struct device *device)
{
    struct buf line = BUF_INIT;
    device_format_json(device, &line);
    say(&line);
}

/* A GPU that has no more to say than its number. */
static void say_gone(int physical, const char *why)
{
    struct device *device = xmalloc(sizeof(*device));
    device_reset(device, physical);
    snprintf(device->uuid, sizeof(device->uuid), "GPU-unknown-%d", physical);
    snprintf(device->name, sizeof(device->name), "unknown");
    snprintf(device->ill, sizeof(device->ill), "%s", why);
    device->is_lost = true;
    say_device(device);
    free(device);
}

/* The instances of a GPU with MIG enabled; the GPU itself is no device then. */
static void list_instances(const struct session *session, nvml_device gpu,
                           const struct device *parent)
{
    unsigned count = 0;
    struct device *device = xmalloc(sizeof(*device));
    if (ASK(session, mig_count_max, gpu, &count) != NVML_OK)
        count = 0;
    for (unsigned i = 0; i < count; i++) {
        nvml_device handle;
        if (ASK(session, mig_by_index, gpu, i, &handle) != NVML_OK)
            continue;
        device_reset(device, parent->physical);
        if (ask_identity(session, handle, device) != NVML_OK)
            continue;
        memcpy(device->parent_uuid, parent->uuid, sizeof(device->parent_uuid));
        memcpy(device->pci, parent->pci, sizeof(device->pci));
        ask_state(session, handle, device);
        memcpy(device->driver, session->driver, sizeof(device->driver));
        ask_processes(session, handle, device);
        say_device(device);
    }
    free(device);
}

static void list_gpu(struct session *session, int physical)
{
    nvml_device handle;
    struct device *device = xmalloc(sizeof(*device));
    unsigned mig = 0, mig_pending = 0;
    unsigned long long errors = 0;
    session->number = physical;
    device_reset(device, physical);
    int result = NVML_GPU_IS_LOST;
    if (!has(&session->gone, (uint32_t)physical)) {
        result = ASK(session, by_index, (unsigned)physical, &handle);
        if (result == NVML_OK)
            result = ask_identity(session, handle, device);
    }
    if (result != NVML_OK) {
        say_gone(physical, result_text(session, result));
    } else if (has(&session->brief, (uint32_t)physical)) {
        device->is_lost = true;
        say_device(device);
    } else if (ASK(session, mig_mode, handle, &mig, &mig_pending) == NVML_OK && mig) {
        list_instances(session, handle, device);
    } else {
        ask_state(session, handle, device);
        if (!device->is_lost) {
            if (ASK(session, ecc_errors, handle, NVML_UNCORRECTED, NVML_VOLATILE, &errors) ==
                NVML_OK)
                device->ecc_uncorrected_count = (long)errors;
            if (session->wants_details)
                ask_details(session, handle, device);
            ask_processes(session, handle, device);
        }
        say_device(device);
    }
    free(device);
}

/* An NVLink between two GPUs beats every PCIe path; without one the nearer common ancestor wins. */
static void say_distance(struct session *session, unsigned a, unsigned b)
{
    nvml_device first, second;
    int level = NVML_NEAR_SYSTEM, link = NVML_UNKNOWN;
    session->number = (int)b;
    if (ASK(session, by_index, a, &first) != NVML_OK ||
        ASK(session, by_index, b, &second) != NVML_OK)
        return;
    if (ASK(session, common_ancestor, first, second, &level) != NVML_OK)
        return;
    bool is_linked =
        ASK(session, p2p_status, first, second, NVML_P2P_NVLINK, &link) == NVML_OK && link == 0;
    struct buf line = BUF_INIT;
    buf_addf(&line, "#%u %u %d", a, b, level + (is_linked ? 0 : 100));
    say(&line);
}

static void list_all(struct session *session)
{
    unsigned count = 0;
    if (ASK(session, count, &count) != NVML_OK)
        count = 0;
    count = MIN(count, (unsigned)DEVICES_MAX);
    if (session->wants_details &&
        ASK(session, driver_version, session->driver, sizeof(session->driver)) != NVML_OK)
        session->driver[0] = '\0';
    for (unsigned i = 0; i < count; i++)
        list_gpu(session, (int)i);
    for (unsigned a = 0; a < count; a++)
        for (unsigned b = a + 1; b < count; b++)
            if (!has(&session->brief, a) && !has(&session->gone, a) && !has(&session->brief, b) &&
                !has(&session->gone, b))
                say_distance(session, a, b);
    say_text(".");
}

static void watch_one(struct session *session, size_t position, const char *uuid)
{
    nvml_device handle;
    struct device *device = xmalloc(sizeof(*device));
    device_reset(device, -1);
    session->number = (int)position;
    int result = ASK(session, by_uuid, uuid, &handle);
    if (result == NVML_OK)
        ask_state(session, handle, device);
    else
        snprintf(device->ill, sizeof(device->ill), "%s", result_text(session, result));
    struct device_sample sample = {
        .device = position,
        .mem_used_bytes = device->mem_total_bytes - device->mem_free_bytes,
        .mem_total_bytes = device->mem_total_bytes,
        .busy_percent = device->busy_percent,
        .temperature_c = device->temperature_c,
        .power_w = device->power_w,
        .is_lost = device->is_lost || result != NVML_OK,
    };
    memcpy(sample.ill, device->ill, sizeof(sample.ill));
    struct buf line = BUF_INIT;
    sample_format_json(&sample, &line);
    say(&line);
    /* what is gone stays gone until the run ends: asking again can only hang */
    if (sample.is_lost && session->gone.len < DEVICES_MAX)
        session->gone.at[session->gone.len++] = (uint32_t)position;
    free(device);
}

static int watch_all(struct session *session, uint64_t period_ms, int n_uuids, char **uuids)
{
    struct pollfd parent = {.fd = STDIN_FILENO};
    for (;;) {
        for (int i = 0; i < n_uuids; i++)
            if (!has(&session->gone, (uint32_t)i))
                watch_one(session, (size_t)i, uuids[i]);
        say_text(".");
        if (poll(&parent, 1, (int)MIN(period_ms, (uint64_t)INT_MAX)) != 0)
            return 0;
    }
}

/*
 * End with the parent, also in the middle of a query that never returns: when the last writer of
 * our standard input is gone the kernel sends SIGIO, whose default is to terminate. The parent-death
 * signal would not do: it comes already when the thread that started us ends.
 */
static void end_with_parent(void)
{
    int flags = fcntl(STDIN_FILENO, F_GETFL);
    fcntl(STDIN_FILENO, F_SETOWN, getpid());
    if (flags >= 0)
        fcntl(STDIN_FILENO, F_SETFL, flags | O_ASYNC);
    struct pollfd parent = {.fd = STDIN_FILENO};
    if (poll(&parent, 1, 0) > 0)
        _exit(0);
}

static bool take_set(const char *arg, const char *name, struct number_set *set)
{
    size_t len = strlen(name);
    return strncmp(arg, name, len) == 0 && idlist_parse(str_of(arg + len), DEVICES_MAX - 1, set->at,
                                                        countof(set->at), &set->len, NULL) == 0;
}

static bool take_word(const char *arg, const char *name, bool *field)
{
    *field |= strcmp(arg, name) == 0;
    return strcmp(arg, name) == 0;
}

static bool session_open(struct session *session)
{
    struct err err = {0};
    struct buf line = BUF_INIT;
    session->number = -1;
    if (nvml_load(&session->nvml, &err) != 0) {
        buf_addf(&line, "-%s", err.text);
        say(&line);
        return false;
    }
    int result = ASK(session, init);
    if (result != NVML_OK) {
        buf_addf(&line, "%cthe NVIDIA driver says: %s", result == NVML_NO_DRIVER ? '-' : '!',
                 result_text(session, result));
        say(&line);
    }
    return result == NVML_OK;
}

int nvml_helper_main(int argc, char **argv)
{
    uint64_t period_ms = 0;
    bool is_watch = argc > 1 && strcmp(argv[0], "watch") == 0;
    cleanup_free struct session *session = xcalloc(1, sizeof(*session));
    if (is_watch ? u64_parse(str_of(argv[1]), 1, INT_MAX, &period_ms, NULL) != 0
                 : argc < 1 || strcmp(argv[0], "list") != 0) {
        fprintf(stderr, "muster: nvml-helper is muster's own (list, watch)\n");
        return 2;
    }
    int first = is_watch ? 2 : 1;
    while (first < argc && (take_word(argv[first], "detail", &session->wants_details) ||
                            take_set(argv[first], "brief=", &session->brief) ||
                            take_set(argv[first], "gone=", &session->gone)))
        first++;
    end_with_parent();
    if (!session_open(session))
        return 1;
    if (is_watch)
        return watch_all(session, period_ms, argc - first, argv + first);
    list_all(session);
    return 0;
}
