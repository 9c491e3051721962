/* SPDX-License-Identifier: Apache-2.0 */
#include "device/amd_machine.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "device/device.h"

enum {
    NODES_MAX = 4096
};

/* Distances over PCIe, by NVML's levels, all of them greater than those of linked GPUs. */
enum {
    NEAR_LINK_MAX = 90,
    NEAR_BRIDGE = DISTANCE_NOT_LINKED + 20,
    NEAR_ROOT = DISTANCE_NOT_LINKED + 30,
    NEAR_NODE = DISTANCE_NOT_LINKED + 40,
    NEAR_SYSTEM = DISTANCE_NOT_LINKED + 50
};

void amd_folder_each(const char *folder, bool (*take)(const char *name, void *context),
                     void *context)
{
    char path[SYSFS_PATH_MAX];
    struct dirent *entry;
    sysfs_path(path, "%s", folder);
    DIR *dir = opendir(path);
    while (dir && (entry = readdir(dir)))
        if (entry->d_name[0] != '.' && take(entry->d_name, context))
            break;
    if (dir)
        closedir(dir);
}

static bool hwmon_take(const char *name, void *context)
{
    struct amd_gpu *gpu = context;
    if (strncmp(name, "hwmon", 5) != 0 || strlen(name) > 16)
        return false;
    snprintf(gpu->hwmon, sizeof(gpu->hwmon), "%s/hwmon/%s", gpu->folder, name);
    return true;
}

bool amd_folder_is_there(const struct amd_gpu *gpu)
{
    char path[SYSFS_PATH_MAX];
    sysfs_path(path, "%s", gpu->folder);
    return gpu->folder[0] && path_exists(path);
}

static void gpu_locate(struct amd_gpu *gpu)
{
    unsigned domain = (unsigned)(gpu->node.domain & 0xffffffff);
    unsigned bus = (unsigned)(gpu->node.location_id >> 8 & 0xff);
    unsigned slot = (unsigned)(gpu->node.location_id >> 3 & 0x1f);
    unsigned function = (unsigned)(gpu->node.location_id & 7);
    char hwmons[AMD_PATH_MAX + 8];
    /* some kernels put the number of the partition into the PCI function */
    for (int attempt = 0; attempt < 2 && !amd_folder_is_there(gpu); attempt++) {
        snprintf(gpu->pci, sizeof(gpu->pci), "%04x:%02x:%02x.%x", domain, bus, slot,
                 attempt ? 0 : function);
        snprintf(gpu->folder, sizeof(gpu->folder), "bus/pci/devices/%s", gpu->pci);
    }
    snprintf(hwmons, sizeof(hwmons), "%s/hwmon", gpu->folder);
    amd_folder_each(hwmons, hwmon_take, gpu);
}

/* Only processors with graphics have a sensor of the northbridge voltage. An MI300A has none, and
 * counts as a GPU of its own. */
static void gpu_classify(struct amd_gpu *gpu)
{
    cleanup_buf struct buf text = BUF_INIT;
    gpu->is_integrated = gpu->node.cpu_cores_count > 0;
    if (gpu->hwmon[0] && sysfs_read(&text, "%s/in1_label", gpu->hwmon))
        gpu->is_integrated |= str_equal(str_trim(buf_str(&text)), STR("vddnb"));
}

/* Writes the id as rocminfo does; a GPU without an id is named by its PCI address. */
static void gpu_name_uuid(struct amd_gpu *gpu)
{
    cleanup_buf struct buf text = BUF_INIT;
    uint64_t id = gpu->node.unique_id;
    if (id == 0 && sysfs_read(&text, "%s/unique_id", gpu->folder) &&
        !amd_hex_parse(buf_str(&text), &id))
        id = 0;
    gpu->is_unnamed = id == 0;
    if (id == 0)
        snprintf(gpu->uuid, sizeof(gpu->uuid), "PCI-%.31s", gpu->pci);
    else
        snprintf(gpu->uuid, sizeof(gpu->uuid), "GPU-%016lx", (unsigned long)id);
}

/*
 * True if the node is a GPU that this process may use. False if it is a processor, or a GPU that is
 * withheld from this process (*is_hidden).
 */
static bool gpu_read(struct amd_gpu *gpu, unsigned node_number, bool *is_hidden)
{
    cleanup_buf struct buf text = BUF_INIT;
    *gpu = (struct amd_gpu){.node_number = node_number};
    if (!sysfs_read(&text, AMD_NODES "/%u/gpu_id", node_number))
        *is_hidden = errno == EPERM || errno == EACCES;
    else if (amd_number_parse(buf_str(&text), &gpu->id) && gpu->id == 0)
        return false;
    if (*is_hidden)
        return false;
    gpu->is_unreadable = !sysfs_read(&text, AMD_NODES "/%u/properties", node_number) ||
                         !kfd_node_parse(buf_str(&text), &gpu->node);
    if (gpu->is_unreadable)
        return gpu->id > 0;
    if (gpu->node.simd_count == 0)
        return false;
    gpu_locate(gpu);
    gpu_classify(gpu);
    gpu_name_uuid(gpu);
    return true;
}

/*
 * A GPU in partitions is several nodes of one PCI device. Where the nodes share their id as well,
 * it cannot name one of them: ROCm refuses a UUID that fits several devices.
 */
static void partitions_tell_apart(struct amd_machine *machine)
{
    for (size_t i = 0; i < machine->len; i++) {
        struct amd_gpu *gpu = &machine->at[i];
        char shared[sizeof(gpu->uuid)];
        unsigned n_same = 0;
        memcpy(shared, gpu->uuid, sizeof(shared));
        for (size_t j = i + 1; j < machine->len && shared[0]; j++) {
            struct amd_gpu *other = &machine->at[j];
            if (other->folder[0] && strcmp(gpu->folder, other->folder) == 0)
                gpu->is_partition = other->is_partition = true;
            if (strcmp(shared, other->uuid) != 0)
                continue;
            gpu->is_unnamed = other->is_unnamed = true;
            snprintf(other->uuid, sizeof(other->uuid), "%.34s.%u", shared, ++n_same);
        }
        if (n_same > 0)
            snprintf(gpu->uuid, sizeof(gpu->uuid), "%.34s.0", shared);
    }
}

size_t amd_machine_read(struct amd_machine *machine)
{
    size_t n_hidden = 0;
    for (unsigned n = 0; n < NODES_MAX; n++) {
        char path[SYSFS_PATH_MAX];
        struct amd_gpu gpu;
        bool is_hidden = false;
        sysfs_path(path, AMD_NODES "/%u", n);
        if (!path_exists(path))
            break;
        if (gpu_read(&gpu, n, &is_hidden)) {
            machine->at = xrealloc(machine->at, (machine->len + 1) * sizeof(gpu));
            machine->at[machine->len++] = gpu;
        }
        n_hidden += is_hidden;
    }
    partitions_tell_apart(machine);
    return n_hidden;
}

struct link_search {
    const struct amd_gpu *from, *to;
    unsigned weight; /* 0: none found */
};

static bool link_take(const char *name, void *context)
{
    struct link_search *search = context;
    cleanup_buf struct buf text = BUF_INIT;
    struct kfd_link link;
    if (sysfs_read(&text, AMD_NODES "/%u/io_links/%.16s/properties", search->from->node_number,
                   name) &&
        kfd_link_parse(buf_str(&text), &link) && link.type == KFD_LINK_XGMI &&
        link.node_to == search->to->node_number)
        search->weight = (unsigned)MIN(MAX(link.weight, (uint64_t)1), (uint64_t)NEAR_LINK_MAX);
    return search->weight > 0;
}

static uint64_t numa_node(const struct amd_gpu *gpu)
{
    cleanup_buf struct buf text = BUF_INIT;
    uint64_t node = UINT64_MAX;
    if (sysfs_read(&text, "%s/numa_node", gpu->folder) && !amd_number_parse(buf_str(&text), &node))
        node = UINT64_MAX;
    return node;
}

/* The distance over PCIe, by the last bridge that the paths of both devices under /sys share. */
static unsigned pci_distance(const struct amd_gpu *a, const struct amd_gpu *b)
{
    char path[SYSFS_PATH_MAX];
    sysfs_path(path, "%s", a->folder);
    cleanup_free char *first = realpath(path, NULL);
    sysfs_path(path, "%s", b->folder);
    cleanup_free char *second = realpath(path, NULL);
    unsigned distance = numa_node(a) == numa_node(b) ? NEAR_NODE : NEAR_SYSTEM;
    struct str x = str_of(first), y = str_of(second), left, right;
    while (str_next(&x, '/', &left) && str_next(&y, '/', &right) && str_equal(left, right)) {
        if (str_starts_with(left, STR("pci")) && memchr(left.at, ':', left.len))
            distance = NEAR_ROOT;
        else if (distance <= NEAR_ROOT)
            distance = NEAR_BRIDGE;
    }
    return distance;
}

unsigned amd_distance(const struct amd_gpu *a, const struct amd_gpu *b)
{
    struct link_search search = {a, b, 0};
    char folder[AMD_PATH_MAX];
    snprintf(folder, sizeof(folder), AMD_NODES "/%u/io_links", a->node_number);
    amd_folder_each(folder, link_take, &search);
    return search.weight > 0 ? search.weight : pci_distance(a, b);
}
