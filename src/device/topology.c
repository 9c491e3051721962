/* SPDX-License-Identifier: Apache-2.0 */
#include "device/topology.h"

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "device/sysfs.h"
#include "device/topology_hwloc.h"

unsigned smt_width(void)
{
    cleanup_buf struct buf text = BUF_INIT;
    return sysfs_read(&text, "devices/system/cpu/smt/active") && text.at[0] == '1' ? 2 : 1;
}

static void cores_from_sysfs(struct core_list *out)
{
    cleanup_buf struct buf text = BUF_INIT;
    cpu_set_t allowed, left, core;
    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) {
        CPU_ZERO(&allowed);
        CPU_SET(0, &allowed);
    }
    left = allowed;
    *out = (struct core_list){xcalloc((size_t)CPU_COUNT(&allowed) + 1, sizeof(cpu_set_t)), 0};
    for (uint32_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &left))
            continue;
        if (!sysfs_read(&text, "devices/system/cpu/cpu%u/topology/thread_siblings_list", cpu) ||
            !cpulist_parse(buf_str(&text), &core))
            CPU_ZERO(&core);
        CPU_SET(cpu, &core);
        CPU_AND(&core, &core, &allowed);
        out->at[out->len++] = core;
        /* left minus core; core is a subset of allowed, not always of left */
        CPU_AND(&core, &core, &left);
        CPU_XOR(&left, &left, &core);
    }
}

void cores_list(struct core_list *out)
{
    cleanup_buf struct buf nodes = BUF_INIT;
    bool is_plain = !getenv("HWLOC_XMLFILE") && !getenv("HWLOC_SYNTHETIC") &&
                    (!sysfs_read(&nodes, "devices/system/node/online") ||
                     str_equal(str_trim(buf_str(&nodes)), STR("0")));
    if (is_plain || !hwloc_cores_list(out))
        cores_from_sysfs(out);
    ASSERT(out->len > 0);
}

void core_list_release(struct core_list *cores)
{
    free(cores->at);
    *cores = (struct core_list){0};
}

/* For the case that hwloc knows nothing: one NUMA node with all cores. */
static void cpu_cores_plain(struct cpu_cores *out)
{
    struct core_list cores;
    cores_from_sysfs(&cores);
    *out = (struct cpu_cores){xcalloc(cores.len + 1, sizeof(*out->at)), cores.len};
    for (size_t i = 0; i < cores.len; i++)
        out->at[i] = (struct cpu_core){.cpus = cores.at[i], .first_cpu = (uint32_t)i};
    core_list_release(&cores);
}

void cpu_cores_list(struct cpu_cores *out)
{
    if (!hwloc_core_places_list(out))
        cpu_cores_plain(out);
    ASSERT(out->len > 0);
}

void cpu_cores_release(struct cpu_cores *cores)
{
    free(cores->at);
    *cores = (struct cpu_cores){0};
}

/*
 * Reads only the first 4 KiB of /proc/cpuinfo, because the whole file takes milliseconds on
 * machines with many cores.
 */
static void cpu_model(char out[64])
{
    cleanup_buf struct buf text = BUF_INIT;
    struct str rest, line;
    snprintf(out, 64, "CPU");
    if (!small_file("/proc/cpuinfo", &text))
        return;
    rest = buf_str(&text);
    while (str_next(&rest, '\n', &line)) {
        const char *colon = line.len ? memchr(line.at, ':', line.len) : NULL;
        if (!colon || !str_starts_with(line, STR("model name")))
            continue;
        struct str name =
            str_trim((struct str){colon + 1, line.len - (size_t)(colon + 1 - line.at)});
        snprintf(out, 64, "%.*s", (int)MIN(name.len, (size_t)63), name.at);
        return;
    }
}

/* Cores [i*C/N, (i+1)*C/N) of C, at least one: with more slots than cores, neighbours share. */
static void slot_cpus(struct device *slot, uint32_t i, uint32_t n_slots,
                      const struct core_list *cores)
{
    size_t first = (size_t)i * cores->len / n_slots;
    size_t end = MAX(((size_t)i + 1) * cores->len / n_slots, first + 1);
    for (size_t c = first; c < end; c++)
        CPU_OR(&slot->cpus, &slot->cpus, &cores->at[c]);
}

void cpu_devices(uint32_t n_slots, struct device_list *out)
{
    struct core_list cores;
    char model[64];
    cores_list(&cores);
    cpu_model(model);
    if (n_slots == 0)
        n_slots = (uint32_t)MIN(cores.len, (size_t)DEVICES_MAX);
    *out = (struct device_list){xcalloc(n_slots, sizeof(*out->at)), n_slots};
    for (uint32_t i = 0; i < n_slots; i++) {
        struct device *slot = &out->at[i];
        device_reset(slot, DEVICE_CPU, -1);
        slot->index = (int)i;
        snprintf(slot->uuid, sizeof(slot->uuid), "cpu-%u", i);
        memcpy(slot->name, model, sizeof(slot->name));
        slot_cpus(slot, i, n_slots, &cores);
    }
    core_list_release(&cores);
}

void device_locate(struct device *device)
{
    cleanup_buf struct buf text = BUF_INIT;
    double node;
    if (device->pci[0] == '\0' || (getenv("HWLOC_XMLFILE") && hwloc_locate(device)))
        return;
    if (sysfs_read(&text, "bus/pci/devices/%s/numa_node", device->pci) &&
        double_parse(str_trim(buf_str(&text)), &node, NULL) == 0)
        device->numa_node = (int)node;
    /* Without NUMA the kernel lists every core, which is no preference: no worker is bound then. */
    if (device->numa_node >= 0 &&
        sysfs_read(&text, "bus/pci/devices/%s/local_cpulist", device->pci) &&
        !cpulist_parse(buf_str(&text), &device->cpus))
        CPU_ZERO(&device->cpus);
}
