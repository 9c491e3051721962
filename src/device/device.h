/* SPDX-License-Identifier: Apache-2.0
 *
 * A device is something a worker computes on: a GPU, a MIG instance, a CPU slot, a simulated GPU.
 * Three numbers must never be confused: `index` (what the user types: the device's position in the
 * universe), `physical` (its number among the vendor's devices on the machine: PCI order for
 * NVIDIA, ROCm's order for AMD; what CUDA_VISIBLE_DEVICES and HIP_VISIBLE_DEVICES want) and a
 * worker's rank (which the caller assigns). Inside muster a device is identified by its uuid.
 *
 * The universe: every device of the machine, or, where a visibility list (CUDA_VISIBLE_DEVICES …)
 * was set when muster started, just those, in that order.
 */
#pragma once

#include <sched.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

/* kind, name in MUSTER_DEVICE_KIND, prefix of log files */
#define DEVICE_KINDS(X)    \
    X(CPU, "cpu", "cpu")   \
    X(CUDA, "cuda", "gpu") \
    X(ROCM, "rocm", "gpu") \
    X(SIM, "sim", "gpu")

enum device_kind {
#define X(kind, name, prefix) DEVICE_##kind,
    DEVICE_KINDS(X)
#undef X
};

/* A process that has a compute context on the device. */
struct device_process {
    pid_t pid;
    uid_t uid;
    uint64_t mem_bytes; /* 0: unknown (MIG, containers) */
    char name[32];
};

enum {
    DEVICE_PROCESSES_MAX = 64,
    DEVICES_MAX = 1024
};

/*
 * All members but `driver` are filled only with probe_opts.wants_details. 0, "" and false may also
 * mean unknown.
 */
struct device_details {
    char driver[32]; /* its version */
    bool is_persistence_off;
    int compute_mode; /* NVML's number: 1 and 3 admit one process, 2 none */
    int pcie_gen, pcie_gen_max, pcie_width, pcie_width_max;
    int nvlinks_up;
    int slowdown_c;     /* °C at which it slows itself down */
    long clock_reasons; /* why its clocks are not higher: bits as NVML has them */
};

struct device {
    enum device_kind kind;
    int index;    /* position in the universe */
    int physical; /* the vendor's number of the device on this machine; -1: it has none */
    char uuid[96];
    char name[64];
    char pci[32];         /* "0000:3b:00.0", "" for none */
    char parent_uuid[96]; /* of a MIG instance: the uuid of its GPU; else "" */
    bool is_unnamed;      /* the vendor's library knows it by number, not by uuid */
    bool is_integrated;   /* graphics of a processor: slower, and in the computer's memory */

    /* Numbers that may be unknown are -1 (percent, °C, W, counts) or 0 (bytes of memory). */
    uint64_t mem_total_bytes, mem_free_bytes;
    int busy_percent, temperature_c;
    double power_w;

    /*
     * Health: `ill` says in words why no work should run on the device ("row remapping pending");
     * "": healthy.
     */
    char ill[128];
    bool is_lost;               /* fell off the bus, or does not answer */
    long ecc_uncorrected_count; /* volatile, since the last reset; -1 unknown */
    bool row_remap_pending, row_remap_failed;

    size_t n_processes;
    struct device_process processes[DEVICE_PROCESSES_MAX];

    struct device_details details;

    int numa_node;  /* -1 unknown */
    cpu_set_t cpus; /* nearest cores; empty: no preference */

    char script[256]; /* faults of a simulated device, see simulated.h; else "" */
};

struct device_list {
    struct device *at;
    size_t len;
    uint8_t *distance; /* len*len, row by row, smaller is nearer; NULL: by NUMA node and order */
};

/*
 * Distances below DISTANCE_NOT_LINKED are of a vendor's own links (NVLink, XGMI), greater ones of
 * PCIe.
 */
enum {
    DISTANCE_NOT_LINKED = 100,
    DISTANCE_UNKNOWN = 255
};

/* Sets all members to unknown. */
void device_reset(struct device *device, enum device_kind kind, int physical);
void device_list_release(struct device_list *list);
/*
 * These return new lists, which the caller releases: the devices at these positions, in this order;
 * the devices of one kind; all devices. Distances are copied too, and indices stay as they are.
 */
struct device_list device_list_pick(const struct device_list *list, const size_t *positions,
                                    size_t n_positions);
struct device_list device_list_of_kind(const struct device_list *list, enum device_kind kind);
struct device_list device_list_copy(const struct device_list *list);
/* A new copy; NULL if `distance` is NULL. */
uint8_t *distance_copy_new(const uint8_t *distance, size_t n_devices);
/* Numbers the devices anew: their indices then count from 0. */
void device_list_renumber(struct device_list *list);
const char *device_kind_name(enum device_kind kind);
/*
 * True if memory is in use but no process can be seen: the holder is in another container, or hangs
 * in the kernel. Up to 2 GiB, or a quarter, does not count: the driver itself keeps up to some 700
 * MB on large GPUs, a desktop some hundred. False for graphics of a processor, which share the
 * computer's memory.
 */
bool device_is_held_unseen(const struct device *device);
/* "gpu 3" or "cpu 0": how a device is called in messages and console prefixes. */
void device_label(const struct device *device, char out[24]);
