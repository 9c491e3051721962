/* SPDX-License-Identifier: Apache-2.0
 *
 * A made-up universe for the tests of pure code: GPUs as a probe would have found them.
 */
#pragma once

#include "base/xalloc.h"
#include "device/device.h"

/* "GPU-a0000000-…" and so on, 80 GiB each, half of them on each NUMA node. */
static inline struct device_list gpus(size_t n_gpus)
{
    struct device_list list = {xcalloc(n_gpus + 1, sizeof(struct device)), n_gpus};
    for (size_t i = 0; i < n_gpus; i++) {
        struct device *device = &list.at[i];
        *device = (struct device){.kind = DEVICE_CUDA, .index = (int)i, .physical = (int)i};
        snprintf(device->uuid, sizeof(device->uuid), "GPU-a%x000000-1111", (unsigned)i);
        snprintf(device->name, sizeof(device->name), "H200");
        snprintf(device->pci, sizeof(device->pci), "0000:%02x:00.0", (unsigned)(i + 1) * 16);
        device->mem_total_bytes = device->mem_free_bytes = 80ull << 30;
        device->numa_node = i >= (n_gpus + 1) / 2;
    }
    return list;
}
