/* SPDX-License-Identifier: Apache-2.0
 *
 * The questions that hwloc answers better than a handful of sysfs files: the cores of a machine
 * with several NUMA nodes in order of nearness, where each core is, and where a PCI device is in a
 * topology from a file.
 */
#pragma once

#include "device/topology.h"

/* False if hwloc cannot load a topology. */
bool hwloc_cores_list(struct core_list *out);
/* False if hwloc cannot load a topology. */
bool hwloc_core_places_list(struct cpu_cores *out);
/* False if the topology does not know the device. */
bool hwloc_locate(struct device *device);
