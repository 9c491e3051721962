/* SPDX-License-Identifier: Apache-2.0
 *
 * Queries NVIDIA's GPUs through NVML. Runs in the helper process, the only one that loads NVML.
 */
#include <limits.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/xalloc.h"
#include "device/driver_probe.h"
#include "device/nvml_abi.h"

static const struct nvml *library(const struct driver_probe *probe)
{
    return probe->state;
}

/* Announces a query and calls its function, if this driver has it. */
#define ASK(probe, field, ...)                                                       \
    (library(probe)->field                                                           \
         ? (announce(probe, nvml_symbols.field), library(probe)->field(__VA_ARGS__)) \
         : NVML_NO_FUNCTION)

static const char *result_text(const struct driver_probe *probe, int result)
{
    return library(probe)->error_text ? library(probe)->error_text(result) : "NVML failed";
}

static bool is_gone_result(int result)
{
    return result == NVML_GPU_IS_LOST || result == NVML_UNKNOWN;
}

/* GPUs from Ampere on remap rows; those from Pascal to Turing retire pages. */
static void ask_health(const struct driver_probe *probe, nvml_device handle, struct device *device)
{
    unsigned corrected, uncorrected, pending = 0, failed = 0;
    if (ASK(probe, remapped_rows, handle, &corrected, &uncorrected, &pending, &failed) == NVML_OK) {
        device->row_remap_pending = pending != 0;
        device->row_remap_failed = failed != 0;
    }
    if (failed)
        snprintf(device->ill, sizeof(device->ill), "row remapping failed: the GPU needs repair");
    else if (pending)
        snprintf(device->ill, sizeof(device->ill), "row remapping pending: the GPU needs a reset");
    pending = 0;
    if (ASK(probe, retired_pending, handle, &pending) == NVML_OK && pending)
        snprintf(device->ill, sizeof(device->ill),
                 "page retirement pending: the GPU needs a reset");
}

/* Queries memory, load and heat. The first answer decides whether the GPU is still there. */
static void ask_state(const struct driver_probe *probe, nvml_device handle, struct device *device)
{
    struct nvml_memory memory = {0};
    struct nvml_utilization load;
    unsigned number;
    int result = ASK(probe, memory, handle, &memory);
    if (is_gone_result(result)) {
        device->is_lost = true;
        snprintf(device->ill, sizeof(device->ill), "%s", result_text(probe, result));
        return;
    }
    if (result == NVML_RESET_REQUIRED)
        snprintf(device->ill, sizeof(device->ill), "the GPU needs a reset");
    device->mem_total_bytes = memory.total_bytes;
    device->mem_free_bytes = memory.free_bytes;
    if (ASK(probe, utilization, handle, &load) == NVML_OK)
        device->busy_percent = (int)load.gpu_percent;
    if (ASK(probe, temperature, handle, NVML_SENSOR_GPU, &number) == NVML_OK)
        device->temperature_c = (int)number;
    if (ASK(probe, power, handle, &number) == NVML_OK)
        device->power_w = number / 1000.0;
    ask_health(probe, handle, device);
}

static void ask_driver(const struct driver_probe *probe, struct device *device)
{
    if (ASK(probe, driver_version, device->details.driver, sizeof(device->details.driver)) !=
        NVML_OK)
        device->details.driver[0] = '\0';
}

/* Members that the driver does not know stay 0. */
static void ask_details(const struct driver_probe *probe, nvml_device handle, struct device *device)
{
    unsigned mode = 0, number = 0, is_up = 0;
    unsigned long long reasons = 0;
    if (ASK(probe, persistence, handle, &mode) == NVML_OK)
        device->details.is_persistence_off = mode == 0;
    if (ASK(probe, compute_mode, handle, &mode) == NVML_OK)
        device->details.compute_mode = (int)mode;
    if (ASK(probe, pcie_gen, handle, &number) == NVML_OK)
        device->details.pcie_gen = (int)number;
    if (ASK(probe, pcie_gen_max, handle, &number) == NVML_OK)
        device->details.pcie_gen_max = (int)number;
    if (ASK(probe, pcie_width, handle, &number) == NVML_OK)
        device->details.pcie_width = (int)number;
    if (ASK(probe, pcie_width_max, handle, &number) == NVML_OK)
        device->details.pcie_width_max = (int)number;
    if (ASK(probe, threshold, handle, NVML_SLOWDOWN, &number) == NVML_OK)
        device->details.slowdown_c = (int)number;
    if (ASK(probe, clock_reasons, handle, &reasons) == NVML_OK)
        device->details.clock_reasons = (long)reasons;
    for (unsigned link = 0; link < NVML_LINKS_MAX; link++) {
        if (ASK(probe, nvlink_state, handle, link, &is_up) != NVML_OK)
            break;
        device->details.nvlinks_up += is_up != 0;
    }
}

static void add_process(struct device *device, unsigned pid, unsigned long long mem_bytes)
{
    device_process_add(device, (pid_t)pid, mem_bytes == ULLONG_MAX ? 0 : mem_bytes, true);
}

static void ask_processes(const struct driver_probe *probe, nvml_device handle,
                          struct device *device)
{
    struct nvml_process found[DEVICE_PROCESSES_MAX] = {0};
    struct nvml_process_v1 found_v1[DEVICE_PROCESSES_MAX] = {0};
    unsigned n_found = DEVICE_PROCESSES_MAX;
    int result = ASK(probe, processes_v3, handle, &n_found, found);
    if (result == NVML_NO_FUNCTION)
        result = ASK(probe, processes_v2, handle, &n_found, found);
    bool is_v1 = result == NVML_NO_FUNCTION;
    if (is_v1)
        result = ASK(probe, processes_v1, handle, &n_found, found_v1);
    /* NVML_TOO_SMALL: not all processes fit into the table, which is then full */
    if (result != NVML_OK && result != NVML_TOO_SMALL)
        return;
    for (unsigned i = 0; i < MIN(n_found, (unsigned)DEVICE_PROCESSES_MAX); i++)
        add_process(device, is_v1 ? found_v1[i].pid : found[i].pid,
                    is_v1 ? found_v1[i].mem_bytes : found[i].mem_bytes);
}

static int ask_identity(const struct driver_probe *probe, nvml_device handle, struct device *device)
{
    struct nvml_pci pci = {0};
    int result = ASK(probe, uuid, handle, device->uuid, sizeof(device->uuid));
    if (result != NVML_OK)
        return result;
    if (ASK(probe, name, handle, device->name, sizeof(device->name)) != NVML_OK)
        snprintf(device->name, sizeof(device->name), "GPU");
    result = ASK(probe, pci, handle, &pci);
    if (result == NVML_NO_FUNCTION)
        result = ASK(probe, pci_v2, handle, &pci);
    if (result == NVML_OK)
        snprintf(device->pci, sizeof(device->pci), "%04x:%02x:%02x.0", pci.domain, pci.bus,
                 pci.device);
    return NVML_OK;
}

/* Writes the instances of a GPU with MIG enabled; the GPU itself is then not a device. */
static void list_instances(const struct driver_probe *probe, nvml_device gpu,
                           const struct device *parent)
{
    unsigned count = 0;
    struct device *device = xmalloc(sizeof(*device));
    if (ASK(probe, mig_count_max, gpu, &count) != NVML_OK)
        count = 0;
    for (unsigned i = 0; i < count; i++) {
        nvml_device handle;
        if (ASK(probe, mig_by_index, gpu, i, &handle) != NVML_OK)
            continue;
        device_reset(device, DEVICE_CUDA, parent->physical);
        if (ask_identity(probe, handle, device) != NVML_OK)
            continue;
        memcpy(device->parent_uuid, parent->uuid, sizeof(device->parent_uuid));
        memcpy(device->pci, parent->pci, sizeof(device->pci));
        ask_state(probe, handle, device);
        ask_driver(probe, device);
        ask_processes(probe, handle, device);
        say_device(device);
    }
    free(device);
}

static void list_gpu(struct driver_probe *probe, unsigned physical, bool is_brief)
{
    nvml_device handle;
    cleanup_free struct device *device = xmalloc(sizeof(*device));
    unsigned mig = 0, mig_pending = 0;
    unsigned long long errors = 0;
    device_reset(device, DEVICE_CUDA, (int)physical);
    int result = ASK(probe, by_index, physical, &handle);
    if (result == NVML_OK)
        result = ask_identity(probe, handle, device);
    if (result != NVML_OK) {
        say_gone(DEVICE_CUDA, physical, result_text(probe, result));
        return;
    }
    device->is_lost = is_brief;
    if (!is_brief && ASK(probe, mig_mode, handle, &mig, &mig_pending) == NVML_OK && mig) {
        list_instances(probe, handle, device);
        return;
    }
    if (!is_brief)
        ask_state(probe, handle, device);
    if (!device->is_lost) {
        if (ASK(probe, ecc_errors, handle, NVML_UNCORRECTED, NVML_VOLATILE, &errors) == NVML_OK)
            device->ecc_uncorrected_count = (long)errors;
        if (!is_brief)
            ask_driver(probe, device);
        if (probe->wants_details)
            ask_details(probe, handle, device);
        ask_processes(probe, handle, device);
    }
    say_device(device);
}

/* An NVLink between two GPUs beats every PCIe path; without one the nearer common ancestor wins. */
static void say_distance(struct driver_probe *probe, unsigned a, unsigned b)
{
    nvml_device first, second;
    int level = NVML_NEAR_SYSTEM, link = NVML_UNKNOWN;
    if (ASK(probe, by_index, a, &first) != NVML_OK || ASK(probe, by_index, b, &second) != NVML_OK)
        return;
    if (ASK(probe, common_ancestor, first, second, &level) != NVML_OK)
        return;
    bool is_linked =
        ASK(probe, p2p_status, first, second, NVML_P2P_NVLINK, &link) == NVML_OK && link == 0;
    struct buf line = BUF_INIT;
    buf_addf(&line, "#%u %u %d", a, b, level + (is_linked ? 0 : DISTANCE_NOT_LINKED));
    say_line(&line);
}

static bool sample(struct driver_probe *probe, const char *uuid, struct device *out)
{
    nvml_device handle;
    int result = ASK(probe, by_uuid, uuid, &handle);
    if (result != NVML_OK) {
        snprintf(out->ill, sizeof(out->ill), "%s", result_text(probe, result));
        return false;
    }
    ask_state(probe, handle, out);
    if (!out->is_lost)
        ask_processes(probe, handle, out);
    return true;
}

static unsigned count(struct driver_probe *probe)
{
    unsigned n_gpus = 0;
    return ASK(probe, count, &n_gpus) == NVML_OK ? n_gpus : 0;
}

static bool open_library(struct driver_probe *probe)
{
    struct err err = {0};
    struct buf line = BUF_INIT;
    if (!probe->state)
        probe->state = xcalloc(1, sizeof(struct nvml));
    if (nvml_load(probe->state, &err) != 0) {
        buf_addf(&line, "-%s", err.text);
        say_line(&line);
        return false;
    }
    int result = ASK(probe, init);
    if (result != NVML_OK) {
        buf_addf(&line, "%cthe NVIDIA driver says: %s", result == NVML_NO_DRIVER ? '-' : '!',
                 result_text(probe, result));
        say_line(&line);
    }
    return result == NVML_OK;
}

static void close_library(struct driver_probe *probe)
{
    free(probe->state);
}

const struct driver_probe_ops nvml_probe_ops = {
    .open = open_library,
    .close = close_library,
    .count = count,
    .list = list_gpu,
    .say_distance = say_distance,
    .sample = sample,
};
