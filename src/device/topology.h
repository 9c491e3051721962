/* SPDX-License-Identifier: Apache-2.0
 *
 * Cores and NUMA nodes: which cores there are for CPU slots, and which are near a GPU. Read from
 * sysfs; hwloc is loaded only where its knowledge matters (below). MUSTER_SYSFS names another root
 * than /sys (tests), HWLOC_XMLFILE and HWLOC_SYNTHETIC another machine, as hwloc itself does.
 *
 * Measured on 2 cores with 2 PCI devices: sched_getaffinity with the sysfs siblings files 0.05 ms,
 * hwloc_topology_load 1.4-2.6 ms, with PCI devices 11-13 ms, and it grows with the machine. So the
 * plain case, one NUMA node and no foreign topology, goes without hwloc.
 */
#pragma once

#include "device/cpulist.h"
#include "device/device.h"

/*
 * For each core, those of its hardware threads on which this process may run. Cores near each other
 * are next to each other in the list.
 */
struct core_list {
    cpu_set_t *at;
    size_t len;
};
/* Lists at least one core. Release the list with core_list_release(). */
void cores_list(struct core_list *out);
void core_list_release(struct core_list *cores);

/*
 * A physical core: where it is, and those of its hardware threads on which this process may run,
 * possibly none.
 */
struct cpu_core {
    cpu_set_t cpus;
    uint32_t first_cpu; /* the first of all its threads, usable or not */
    int node;           /* the system's number of its NUMA node */
    int socket, cache;  /* numbers that tell sockets, or last-level caches, apart */
};
struct cpu_cores {
    struct cpu_core *at; /* ascending by first_cpu */
    size_t len;
};
/* Lists at least one core. Release the list with cpu_cores_release(). */
void cpu_cores_list(struct cpu_cores *out);
void cpu_cores_release(struct cpu_cores *cores);

/* Makes n_slots CPU slots (0: one per core). If there are fewer cores, slots share cores. */
void cpu_devices(uint32_t n_slots, struct device_list *out);
/* Fills in numa_node and cpus of a GPU from its PCI address. What is unknown stays -1 or empty. */
void device_locate(struct device *device);
/* Hardware threads per core: 2 where SMT is active, else 1. */
unsigned smt_width(void);
