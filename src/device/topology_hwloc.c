/* SPDX-License-Identifier: Apache-2.0 */
#include "device/topology_hwloc.h"

#include <hwloc.h>
#include <hwloc/glibc-sched.h>

#include "base/xalloc.h"

static bool load(hwloc_topology_t *out, bool with_pci)
{
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology) != 0)
        return false;
    if (with_pci)
        hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    if (hwloc_topology_load(topology) != 0) {
        hwloc_topology_destroy(topology);
        return false;
    }
    *out = topology;
    return true;
}

/* Keeps the hardware threads that this process may run on, unless the topology is from a file. */
static void narrow(hwloc_topology_t topology, cpu_set_t *cpus)
{
    cpu_set_t allowed;
    if (hwloc_topology_is_thissystem(topology) &&
        sched_getaffinity(0, sizeof(allowed), &allowed) == 0)
        CPU_AND(cpus, cpus, &allowed);
}

bool hwloc_cores_list(struct core_list *out)
{
    hwloc_topology_t topology;
    if (!load(&topology, false))
        return false;
    int n_cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
    *out = (struct core_list){xcalloc((size_t)MAX(n_cores, 0) + 1, sizeof(cpu_set_t)), 0};
    for (int i = 0; i < n_cores; i++) {
        cpu_set_t cpus;
        hwloc_obj_t core = hwloc_get_obj_by_type(topology, HWLOC_OBJ_CORE, (unsigned)i);
        hwloc_cpuset_to_glibc_sched_affinity(topology, core->cpuset, &cpus, sizeof(cpus));
        narrow(topology, &cpus);
        if (CPU_COUNT(&cpus) > 0)
            out->at[out->len++] = cpus;
    }
    hwloc_topology_destroy(topology);
    if (out->len == 0)
        core_list_release(out);
    return out->len > 0;
}

static int by_first_cpu(const void *a, const void *b)
{
    uint32_t x = ((const struct cpu_core *)a)->first_cpu,
             y = ((const struct cpu_core *)b)->first_cpu;
    return (x > y) - (x < y);
}

/*
 * A number that identifies the last-level data cache above a core. All cores without a cache have
 * one number in common.
 */
static int cache_of(hwloc_obj_t core)
{
    int number = -1;
    for (hwloc_obj_t up = core; up; up = up->parent)
        if (hwloc_obj_type_is_dcache(up->type))
            number = (int)up->gp_index;
    return number;
}

static struct cpu_core cpu_core_of(hwloc_topology_t topology, hwloc_obj_t core)
{
    hwloc_obj_t socket = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_PACKAGE, core);
    int node = core->nodeset ? hwloc_bitmap_first(core->nodeset) : -1;
    struct cpu_core place = {.first_cpu = (uint32_t)hwloc_bitmap_first(core->cpuset),
                             .node = MAX(node, 0),
                             .socket = socket ? (int)socket->gp_index : 0,
                             .cache = cache_of(core)};
    hwloc_cpuset_to_glibc_sched_affinity(topology, core->cpuset, &place.cpus, sizeof(place.cpus));
    narrow(topology, &place.cpus);
    return place;
}

/* Some virtual machines have hardware threads without cores. */
static hwloc_obj_type_t core_type(hwloc_topology_t topology)
{
    return hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
}

bool hwloc_core_places_list(struct cpu_cores *out)
{
    hwloc_topology_t topology;
    bool any = false;
    if (!load(&topology, false))
        return false;
    hwloc_obj_type_t type = core_type(topology);
    int n_cores = MAX(hwloc_get_nbobjs_by_type(topology, type), 0);
    *out = (struct cpu_cores){xcalloc((size_t)n_cores + 1, sizeof(*out->at)), (size_t)n_cores};
    for (int i = 0; i < n_cores; i++) {
        out->at[i] = cpu_core_of(topology, hwloc_get_obj_by_type(topology, type, (unsigned)i));
        any = any || CPU_COUNT(&out->at[i].cpus) > 0;
    }
    hwloc_topology_destroy(topology);
    qsort(out->at, out->len, sizeof(*out->at), by_first_cpu);
    if (!any)
        cpu_cores_release(out);
    return any;
}

bool hwloc_locate(struct device *device)
{
    hwloc_topology_t topology;
    if (!load(&topology, true))
        return false;
    hwloc_obj_t pci = hwloc_get_pcidev_by_busidstring(topology, device->pci);
    hwloc_obj_t near = pci ? hwloc_get_non_io_ancestor_obj(topology, pci) : NULL;
    if (near) {
        hwloc_cpuset_to_glibc_sched_affinity(topology, near->cpuset, &device->cpus,
                                             sizeof(device->cpus));
        int node = near->nodeset ? hwloc_bitmap_first(near->nodeset) : -1;
        bool is_whole =
            hwloc_bitmap_isequal(near->cpuset, hwloc_topology_get_topology_cpuset(topology));
        device->numa_node = is_whole ? -1 : node;
        if (is_whole)
            CPU_ZERO(&device->cpus);
    }
    hwloc_topology_destroy(topology);
    return near != NULL;
}
