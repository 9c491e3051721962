/* SPDX-License-Identifier: Apache-2.0
 *
 * The AMD GPUs of a machine, as the kernel lists them, in ROCm's order, and the places of their
 * files. No function here queries a GPU itself, so none can block on a GPU.
 */
#pragma once

#include "device/amd_kfd.h"
#include "device/sysfs.h"

/* Folders under /sys: KFD's nodes, and the processes that have opened it. */
#define AMD_NODES "class/kfd/kfd/topology/nodes"
#define AMD_USERS "class/kfd/kfd/proc"

enum {
    AMD_PATH_MAX = 80 /* of a folder under /sys */
};

struct amd_gpu {
    struct kfd_node node;
    unsigned node_number;
    uint64_t id; /* KFD's own number of the GPU; 0: unknown */
    bool is_unreadable;
    bool is_partition; /* shares its PCI device with other nodes */
    bool is_integrated, is_unnamed;
    char pci[32];
    char folder[48];          /* of the PCI device, under /sys */
    char hwmon[AMD_PATH_MAX]; /* "" if the GPU has none */
    char uuid[40];
};

struct amd_machine {
    struct amd_gpu *at;
    size_t len;
};

/*
 * Adds all GPUs to an empty machine; the caller frees machine->at. Returns the number of other GPUs
 * that the control group of this process withholds from it.
 */
size_t amd_machine_read(struct amd_machine *machine);
/* True if the PCI device of the GPU is still there. */
bool amd_folder_is_there(const struct amd_gpu *gpu);
/*
 * Below DISTANCE_NOT_LINKED for GPUs with an XGMI link. For other GPUs it follows from their path
 * over PCIe, by NVML's levels.
 */
unsigned amd_distance(const struct amd_gpu *a, const struct amd_gpu *b);

/* Calls `take` for each entry of a folder under /sys, until `take` returns true. */
void amd_folder_each(const char *folder, bool (*take)(const char *name, void *context),
                     void *context);
