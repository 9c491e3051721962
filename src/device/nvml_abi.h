/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of NVML that muster uses, written from its published binary interface: layouts and
 * numbers. So no NVIDIA header is needed to build muster, and no driver to run it.
 */
#pragma once

#include <assert.h>

#include "base/err.h"

enum nvml_result {
    NVML_OK = 0,
    NVML_NOT_SUPPORTED = 3,
    NVML_NOT_FOUND = 6,
    NVML_TOO_SMALL = 7,
    NVML_NO_DRIVER = 9,
    NVML_NO_FUNCTION = 13,
    NVML_GPU_IS_LOST = 15,
    NVML_RESET_REQUIRED = 16,
    NVML_UNKNOWN = 999,
};

/* nvmlTemperatureSensors, nvmlMemoryErrorType, nvmlEccCounterType, nvmlGpuP2PCapsIndex */
enum {
    NVML_SENSOR_GPU = 0,
    NVML_UNCORRECTED = 1,
    NVML_VOLATILE = 0,
    NVML_P2P_NVLINK = 2
};

/* nvmlTemperatureThresholds, NVML_NVLINK_MAX_LINKS */
enum {
    NVML_SLOWDOWN = 1,
    NVML_LINKS_MAX = 18
};

/* nvmlGpuTopologyLevel: one board, one switch, several switches, host bridge, NUMA node, system */
enum nvml_near {
    NVML_NEAR_BOARD = 0,
    NVML_NEAR_SYSTEM = 50
};

struct nvml_memory {
    unsigned long long total_bytes, free_bytes, used_bytes;
};

struct nvml_utilization {
    unsigned gpu_percent, memory_percent;
};

struct nvml_pci {
    char bus_id_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

/* of …ComputeRunningProcesses_v2 and _v3 */
struct nvml_process {
    unsigned pid;
    unsigned long long mem_bytes; /* ULLONG_MAX: not available */
    unsigned gpu_instance, compute_instance;
};

/* of …ComputeRunningProcesses without a suffix, drivers before 450 */
struct nvml_process_v1 {
    unsigned pid;
    unsigned long long mem_bytes;
};

static_assert(sizeof(struct nvml_memory) == 24, "NVML ABI");
static_assert(sizeof(struct nvml_pci) == 68, "NVML ABI");
static_assert(sizeof(struct nvml_process) == 24, "NVML ABI");
static_assert(sizeof(struct nvml_process_v1) == 16, "NVML ABI");

typedef struct nvml_device_opaque *nvml_device;

/* Our name, NVML's, arguments. Each may be missing in some driver. All return an nvml_result. */
#define NVML_FUNCTIONS(X)                                                                          \
    X(init, "nvmlInit_v2", (void))                                                                 \
    X(shutdown, "nvmlShutdown", (void))                                                            \
    X(driver_version, "nvmlSystemGetDriverVersion", (char *, unsigned))                            \
    X(count, "nvmlDeviceGetCount_v2", (unsigned *))                                                \
    X(by_index, "nvmlDeviceGetHandleByIndex_v2", (unsigned, nvml_device *))                        \
    X(by_uuid, "nvmlDeviceGetHandleByUUID", (const char *, nvml_device *))                         \
    X(uuid, "nvmlDeviceGetUUID", (nvml_device, char *, unsigned))                                  \
    X(name, "nvmlDeviceGetName", (nvml_device, char *, unsigned))                                  \
    X(pci, "nvmlDeviceGetPciInfo_v3", (nvml_device, struct nvml_pci *))                            \
    X(pci_v2, "nvmlDeviceGetPciInfo_v2", (nvml_device, struct nvml_pci *))                         \
    X(memory, "nvmlDeviceGetMemoryInfo", (nvml_device, struct nvml_memory *))                      \
    X(utilization, "nvmlDeviceGetUtilizationRates", (nvml_device, struct nvml_utilization *))      \
    X(temperature, "nvmlDeviceGetTemperature", (nvml_device, unsigned, unsigned *))                \
    X(power, "nvmlDeviceGetPowerUsage", (nvml_device, unsigned *))                                 \
    X(ecc_errors, "nvmlDeviceGetTotalEccErrors",                                                   \
      (nvml_device, unsigned, unsigned, unsigned long long *))                                     \
    X(remapped_rows, "nvmlDeviceGetRemappedRows",                                                  \
      (nvml_device, unsigned *, unsigned *, unsigned *, unsigned *))                               \
    X(retired_pending, "nvmlDeviceGetRetiredPagesPendingStatus", (nvml_device, unsigned *))        \
    X(processes_v3, "nvmlDeviceGetComputeRunningProcesses_v3",                                     \
      (nvml_device, unsigned *, struct nvml_process *))                                            \
    X(processes_v2, "nvmlDeviceGetComputeRunningProcesses_v2",                                     \
      (nvml_device, unsigned *, struct nvml_process *))                                            \
    X(processes_v1, "nvmlDeviceGetComputeRunningProcesses",                                        \
      (nvml_device, unsigned *, struct nvml_process_v1 *))                                         \
    X(mig_mode, "nvmlDeviceGetMigMode", (nvml_device, unsigned *, unsigned *))                     \
    X(mig_count_max, "nvmlDeviceGetMaxMigDeviceCount", (nvml_device, unsigned *))                  \
    X(mig_by_index, "nvmlDeviceGetMigDeviceHandleByIndex", (nvml_device, unsigned, nvml_device *)) \
    X(common_ancestor, "nvmlDeviceGetTopologyCommonAncestor", (nvml_device, nvml_device, int *))   \
    X(p2p_status, "nvmlDeviceGetP2PStatus", (nvml_device, nvml_device, int, int *))                \
    X(persistence, "nvmlDeviceGetPersistenceMode", (nvml_device, unsigned *))                      \
    X(compute_mode, "nvmlDeviceGetComputeMode", (nvml_device, unsigned *))                         \
    X(pcie_gen, "nvmlDeviceGetCurrPcieLinkGeneration", (nvml_device, unsigned *))                  \
    X(pcie_gen_max, "nvmlDeviceGetMaxPcieLinkGeneration", (nvml_device, unsigned *))               \
    X(pcie_width, "nvmlDeviceGetCurrPcieLinkWidth", (nvml_device, unsigned *))                     \
    X(pcie_width_max, "nvmlDeviceGetMaxPcieLinkWidth", (nvml_device, unsigned *))                  \
    X(nvlink_state, "nvmlDeviceGetNvLinkState", (nvml_device, unsigned, unsigned *))               \
    X(threshold, "nvmlDeviceGetTemperatureThreshold", (nvml_device, unsigned, unsigned *))         \
    X(clock_reasons, "nvmlDeviceGetCurrentClocksThrottleReasons",                                  \
      (nvml_device, unsigned long long *))

struct nvml {
    void *library;
#define X(field, symbol, args) int(*field) args;
    NVML_FUNCTIONS(X)
#undef X
    const char *(*error_text)(int result);
};

/* What NVML calls each function, by our name: `nvml_symbols.memory`. */
struct nvml_symbols {
#define X(field, symbol, args) const char *field;
    NVML_FUNCTIONS(X)
#undef X
};
extern const struct nvml_symbols nvml_symbols;

/*
 * Loads libnvidia-ml.so.1, or the library that MUSTER_NVML names. Functions that this driver lacks
 * stay NULL. ERR_UNAVAILABLE if the library, or a function that muster cannot do without, is not
 * there. Only the helper process calls this.
 */
MUST_CHECK int nvml_load(struct nvml *out, struct err *err);
