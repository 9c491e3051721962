/* SPDX-License-Identifier: Apache-2.0
 *
 * NVIDIA's GPUs, asked of NVML. Runs in the helper process, the only one that loads it.
 */
#include <limits.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/xalloc.h"
#include "device/nvml_abi.h"
#include "device/vendor.h"

static const struct nvml *library(const struct asker *asker)
{
    return asker->state;
}

/* Call it if this driver has it, having said so. */
#define ASK(asker, field, ...)                                                       \
    (library(asker)->field                                                           \
         ? (announce(asker, nvml_symbols.field), library(asker)->field(__VA_ARGS__)) \
         : NVML_NO_FUNCTION)

static const char *result_text(const struct asker *asker, int result)
{
    return library(asker)->error_text ? library(asker)->error_text(result) : "NVML failed";
}

static bool is_gone_result(int result)
{
    return result == NVML_GPU_IS_LOST || result == NVML_UNKNOWN;
}

/* Row remapping is Ampere's and later's, retired pages are Pascal's to Turing's. */
static void ask_health(const struct asker *asker, nvml_device handle, struct device *device)
{
    unsigned corrected, uncorrected, pending = 0, failed = 0;
    if (ASK(asker, remapped_rows, handle, &corrected, &uncorrected, &pending, &failed) == NVML_OK) {
        device->row_remap_pending = pending != 0;
        device->row_remap_failed = failed != 0;
    }
    if (failed)
        snprintf(device->ill, sizeof(device->ill), "row remapping failed: the GPU needs repair");
    else if (pending)
        snprintf(device->ill, sizeof(device->ill), "row remapping pending: the GPU needs a reset");
    pending = 0;
    if (ASK(asker, retired_pending, handle, &pending) == NVML_OK && pending)
        snprintf(device->ill, sizeof(device->ill),
                 "page retirement pending: the GPU needs a reset");
}

/* Memory, load, heat. The first answer decides whether the GPU is still there. */
static void ask_state(const struct asker *asker, nvml_device handle, struct device *device)
{
    struct nvml_memory memory = {0};
    struct nvml_utilization load;
    unsigned number;
    int result = ASK(asker, memory, handle, &memory);
    if (is_gone_result(result)) {
        device->is_lost = true;
        snprintf(device->ill, sizeof(device->ill), "%s", result_text(asker, result));
        return;
    }
    if (result == NVML_RESET_REQUIRED)
        snprintf(device->ill, sizeof(device->ill), "the GPU needs a reset");
    device->mem_total_bytes = memory.total_bytes;
    device->mem_free_bytes = memory.free_bytes;
    if (ASK(asker, utilization, handle, &load) == NVML_OK)
        device->busy_percent = (int)load.gpu_percent;
    if (ASK(asker, temperature, handle, NVML_SENSOR_GPU, &number) == NVML_OK)
        device->temperature_c = (int)number;
    if (ASK(asker, power, handle, &number) == NVML_OK)
        device->power_w = number / 1000.0;
    ask_health(asker, handle, device);
}

static void ask_driver(const struct asker *asker, struct device *device)
{
    if (asker->wants_details &&
        ASK(asker, driver_version, device->driver, sizeof(device->driver)) != NVML_OK)
        device->driver[0] = '\0';
}

/* Leaves what the driver does not tell at 0. */
static void ask_details(const struct asker *asker, nvml_device handle, struct device *device)
{
    unsigned mode = 0, number = 0, is_up = 0;
    unsigned long long reasons = 0;
    ask_driver(asker, device);
    if (ASK(asker, persistence, handle, &mode) == NVML_OK)
        device->is_persistence_off = mode == 0;
    if (ASK(asker, compute_mode, handle, &mode) == NVML_OK)
        device->compute_mode = (int)mode;
    if (ASK(asker, pcie_gen, handle, &number) == NVML_OK)
        device->pcie_gen = (int)number;
    if (ASK(asker, pcie_gen_max, handle, &number) == NVML_OK)
        device->pcie_gen_max = (int)number;
    if (ASK(asker, pcie_width, handle, &number) == NVML_OK)
        device->pcie_width = (int)number;
    if (ASK(asker, pcie_width_max, handle, &number) == NVML_OK)
        device->pcie_width_max = (int)number;
    if (ASK(asker, threshold, handle, NVML_SLOWDOWN, &number) == NVML_OK)
        device->slowdown_c = (int)number;
    if (ASK(asker, clock_reasons, handle, &reasons) == NVML_OK)
        device->clock_reasons = (long)reasons;
    for (unsigned link = 0; link < NVML_LINKS_MAX; link++) {
        if (ASK(asker, nvlink_state, handle, link, &is_up) != NVML_OK)
            break;
        device->nvlinks_up += is_up != 0;
    }
}

static void add_process(struct device *device, unsigned pid, unsigned long long mem_bytes)
{
    device_process_add(device, (pid_t)pid, mem_bytes == ULLONG_MAX ? 0 : mem_bytes, true);
}

static void ask_processes(const struct asker *asker, nvml_device handle, struct device *device)
{
    struct nvml_process found[DEVICE_PROCESSES_MAX] = {0};
    struct nvml_process_v1 found_v1[DEVICE_PROCESSES_MAX] = {0};
    unsigned n_found = DEVICE_PROCESSES_MAX;
    int result = ASK(asker, processes_v3, handle, &n_found, found);
    if (result == NVML_NO_FUNCTION)
        result = ASK(asker, processes_v2, handle, &n_found, found);
    bool is_v1 = result == NVML_NO_FUNCTION;
    if (is_v1)
        result = ASK(asker, processes_v1, handle, &n_found, found_v1);
    /* NVML_TOO_SMALL: more than we show; which is told by a full table */
    if (result != NVML_OK && result != NVML_TOO_SMALL)
        return;
    for (unsigned i = 0; i < MIN(n_found, (unsigned)DEVICE_PROCESSES_MAX); i++)
        add_process(device, is_v1 ? found_v1[i].pid : found[i].pid,
                    is_v1 ? found_v1[i].mem_bytes : found[i].mem_bytes);
}

static int ask_identity(const struct asker *asker, nvml_device handle, struct device *device)
{
    struct nvml_pci pci = {0};
    int result = ASK(asker, uuid, handle, device->uuid, sizeof(device->uuid));
    if (result != NVML_OK)
        return result;
    if (ASK(asker, name, handle, device->name, sizeof(device->name)) != NVML_OK)
        snprintf(device->name, sizeof(device->name), "GPU");
    result = ASK(asker, pci, handle, &pci);
    if (result == NVML_NO_FUNCTION)
        result = ASK(asker, pci_v2, handle, &pci);
    if (result == NVML_OK)
        snprintf(device->pci, sizeof(device->pci), "%04x:%02x:%02x.0", pci.domain, pci.bus,
                 pci.device);
    return NVML_OK;
}

/* The instances of a GPU with MIG enabled; the GPU itself is no device then. */
static void list_instances(const struct asker *asker, nvml_device gpu, const struct device *parent)
{
    unsigned count = 0;
    struct device *device = xmalloc(sizeof(*device));
    if (ASK(asker, mig_count_max, gpu, &count) != NVML_OK)
        count = 0;
    for (unsigned i = 0; i < count; i++) {
        nvml_device handle;
        if (ASK(asker, mig_by_index, gpu, i, &handle) != NVML_OK)
            continue;
        device_reset(device, DEVICE_CUDA, parent->physical);
        if (ask_identity(asker, handle, device) != NVML_OK)
            continue;
        memcpy(device->parent_uuid, parent->uuid, sizeof(device->parent_uuid));
        memcpy(device->pci, parent->pci, sizeof(device->pci));
        ask_state(asker, handle, device);
        ask_driver(asker, device);
        ask_processes(asker, handle, device);
        say_device(device);
    }
    free(device);
}

static void list_gpu(struct asker *asker, unsigned physical, bool is_brief)
{
    nvml_device handle;
    cleanup_free struct device *device = xmalloc(sizeof(*device));
    unsigned mig = 0, mig_pending = 0;
    unsigned long long errors = 0;
    device_reset(device, DEVICE_CUDA, (int)physical);
    int result = ASK(asker, by_index, physical, &handle);
    if (result == NVML_OK)
        result = ask_identity(asker, handle, device);
    if (result != NVML_OK) {
        say_gone(DEVICE_CUDA, physical, result_text(asker, result));
        return;
    }
    device->is_lost = is_brief;
    if (!is_brief && ASK(asker, mig_mode, handle, &mig, &mig_pending) == NVML_OK && mig) {
        list_instances(asker, handle, device);
        return;
    }
    if (!is_brief)
        ask_state(asker, handle, device);
    if (!device->is_lost) {
        if (ASK(asker, ecc_errors, handle, NVML_UNCORRECTED, NVML_VOLATILE, &errors) == NVML_OK)
            device->ecc_uncorrected_count = (long)errors;
        if (asker->wants_details)
            ask_details(asker, handle, device);
        ask_processes(asker, handle, device);
    }
    say_device(device);
}

/* An NVLink between two GPUs beats every PCIe path; without one the nearer common ancestor wins. */
static void say_distance(struct asker *asker, unsigned a, unsigned b)
{
    nvml_device first, second;
    int level = NVML_NEAR_SYSTEM, link = NVML_UNKNOWN;
    if (ASK(asker, by_index, a, &first) != NVML_OK || ASK(asker, by_index, b, &second) != NVML_OK)
        return;
    if (ASK(asker, common_ancestor, first, second, &level) != NVML_OK)
        return;
    bool is_linked =
        ASK(asker, p2p_status, first, second, NVML_P2P_NVLINK, &link) == NVML_OK && link == 0;
    struct buf line = BUF_INIT;
    buf_addf(&line, "#%u %u %d", a, b, level + (is_linked ? 0 : DISTANCE_NOT_LINKED));
    say_line(&line);
}

static bool sample(struct asker *asker, const char *uuid, struct device *out)
{
    nvml_device handle;
    int result = ASK(asker, by_uuid, uuid, &handle);
    if (result == NVML_OK)
        ask_state(asker, handle, out);
    else
        snprintf(out->ill, sizeof(out->ill), "%s", result_text(asker, result));
    return result == NVML_OK;
}

static unsigned count(struct asker *asker)
{
    unsigned n_gpus = 0;
    return ASK(asker, count, &n_gpus) == NVML_OK ? n_gpus : 0;
}

static bool open_library(struct asker *asker)
{
    struct err err = {0};
    struct buf line = BUF_INIT;
    if (!asker->state)
        asker->state = xcalloc(1, sizeof(struct nvml));
    if (nvml_load(asker->state, &err) != 0) {
        buf_addf(&line, "-%s", err.text);
        say_line(&line);
        return false;
    }
    int result = ASK(asker, init);
    if (result != NVML_OK) {
        buf_addf(&line, "%cthe NVIDIA driver says: %s", result == NVML_NO_DRIVER ? '-' : '!',
                 result_text(asker, result));
        say_line(&line);
    }
    return result == NVML_OK;
}

static void close_library(struct asker *asker)
{
    free(asker->state);
}

bool nvml_is_there(void)
{
    static const char *const signs[] = {"/dev/nvidiactl", "/proc/driver/nvidia/version",
                                        "/dev/dxg"};
    const char *path = getenv("MUSTER_NVML");
    bool is_there = path && *path;
    for (size_t i = 0; i < countof(signs) && !is_there; i++)
        is_there = access(signs[i], F_OK) == 0;
    return is_there;
}

const struct device_probe nvml_probe = {
    .open = open_library,
    .close = close_library,
    .count = count,
    .list = list_gpu,
    .say_distance = say_distance,
    .sample = sample,
};
