/* SPDX-License-Identifier: Apache-2.0
 *
 * Queries AMD's GPUs through the kernel's files, without any library of ROCm. Runs in the helper
 * process: a GPU in trouble can block any process that reads its sensors.
 */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "device/amd_machine.h"
#include "device/driver_probe.h"

enum {
    TEXT_FILE_MAX = 1 << 20,
    CRUMBS_BYTES = 64 << 20
};

static const struct amd_machine *machine_of(const struct driver_probe *probe)
{
    return probe->state;
}

/* ---- answers ---- */

static bool read_said(const struct driver_probe *probe, const char *folder, const char *file,
                      struct buf *out)
{
    announce(probe, file);
    return sysfs_read(out, "%s/%s", folder, file);
}

static bool number_said(const struct driver_probe *probe, const char *folder, const char *file,
                        uint64_t *out)
{
    cleanup_buf struct buf text = BUF_INIT;
    errno = 0;
    return read_said(probe, folder, file, &text) && amd_number_parse(buf_str(&text), out);
}

static void mark_lost(struct device *device, const char *what, const char *why)
{
    device->is_lost = true;
    snprintf(device->ill, sizeof(device->ill), "%s%s%s", what, what[0] ? ": " : "", why);
}

/* ---- who computes on it ---- */

struct users {
    const struct amd_gpu *gpu;
    struct device *device;
    uint64_t mem_bytes; /* of all these processes */
    bool is_ours;       /* the pids that the kernel lists are valid in this namespace */
    const char *pid;    /* of the process that is being read */
    bool has_queue;
};

static bool queue_take(const char *name, void *context)
{
    struct users *users = context;
    cleanup_buf struct buf text = BUF_INIT;
    uint64_t id = 0;
    users->has_queue = sysfs_read(&text, AMD_USERS "/%.16s/queues/%.16s/gpuid", users->pid, name) &&
                       amd_number_parse(buf_str(&text), &id) && id == users->gpu->id;
    return users->has_queue;
}

/*
 * A process that opened the driver is listed for every GPU, and may hold a little memory on each.
 * It counts as a user of a GPU only if it has a queue or at least CRUMBS_BYTES there.
 */
static bool user_take(const char *name, void *context)
{
    struct users *users = context;
    cleanup_buf struct buf text = BUF_INIT;
    uint64_t pid = 0, mem_bytes = 0;
    char queues[AMD_PATH_MAX];
    if (!amd_number_parse(str_of(name), &pid) || pid == 0 || pid > INT32_MAX)
        return false;
    users->pid = name;
    users->has_queue = false;
    if (sysfs_read(&text, AMD_USERS "/%.16s/vram_%lu", name, (unsigned long)users->gpu->id) &&
        !amd_number_parse(buf_str(&text), &mem_bytes))
        mem_bytes = 0;
    snprintf(queues, sizeof(queues), AMD_USERS "/%.16s/queues", name);
    if (mem_bytes < CRUMBS_BYTES)
        amd_folder_each(queues, queue_take, users);
    if (mem_bytes >= CRUMBS_BYTES || users->has_queue)
        device_process_add(users->device, (pid_t)pid, mem_bytes, users->is_ours);
    users->mem_bytes += MIN(mem_bytes, UINT64_MAX - users->mem_bytes);
    return false;
}

/* The kernel gives the first PID namespace a fixed inode number. */
static bool is_first_pid_namespace(void)
{
    struct stat st;
    return stat("/proc/self/ns/pid", &st) == 0 && st.st_ino == 0xEFFFFFFCu;
}

/* Returns the memory that the processes hold together. */
static uint64_t ask_processes(const struct driver_probe *probe, const struct amd_gpu *gpu,
                              struct device *device)
{
    struct users users = {.gpu = gpu, .device = device, .is_ours = is_first_pid_namespace()};
    device->n_processes = 0;
    announce(probe, "kfd/proc");
    if (gpu->id > 0)
        amd_folder_each(AMD_USERS, user_take, &users);
    return users.mem_bytes;
}

/* ---- its state ---- */

struct bank_sum {
    const struct amd_gpu *gpu;
    uint64_t bytes;
};

static bool bank_take(const char *name, void *context)
{
    struct bank_sum *sum = context;
    struct kfd_bank bank;
    cleanup_buf struct buf text = BUF_INIT;
    if (sysfs_read(&text, AMD_NODES "/%u/mem_banks/%.16s/properties", sum->gpu->node_number,
                   name) &&
        kfd_bank_parse(buf_str(&text), &bank) &&
        (bank.heap_type == KFD_HEAP_PUBLIC || bank.heap_type == KFD_HEAP_PRIVATE))
        sum->bytes += MIN(bank.size_in_bytes, UINT64_MAX - sum->bytes);
    return false;
}

static void ask_memory(const struct driver_probe *probe, const struct amd_gpu *gpu,
                       struct device *device)
{
    static const char *const heaps[][2] = {{"mem_info_vram_total", "mem_info_vram_used"},
                                           {"mem_info_gtt_total", "mem_info_gtt_used"}};
    /* graphics in a processor compute in the computer's memory; gtt is their share of it */
    for (size_t i = 0; i < (gpu->is_integrated ? 2 : 1); i++) {
        uint64_t total = 0, used = 0;
        if (!number_said(probe, gpu->folder, heaps[i][0], &total) && errno == ENODEV) {
            mark_lost(device, heaps[i][0], strerror(ENODEV));
            return;
        }
        if (total == 0 || total > INT64_MAX || !number_said(probe, gpu->folder, heaps[i][1], &used))
            continue;
        device->mem_total_bytes += total;
        device->mem_free_bytes += total - MIN(used, total);
    }
}

/*
 * The PCI device reports the memory of all its partitions together. Each node reports the memory of
 * its own partition, where the partition has memory of its own.
 */
static void ask_partition_memory(const struct driver_probe *probe, const struct amd_gpu *gpu,
                                 struct device *device)
{
    struct bank_sum banks = {.gpu = gpu};
    char folder[AMD_PATH_MAX];
    snprintf(folder, sizeof(folder), AMD_NODES "/%u/mem_banks", gpu->node_number);
    announce(probe, "mem_banks");
    amd_folder_each(folder, bank_take, &banks);
    if (banks.bytes == 0 || banks.bytes >= device->mem_total_bytes)
        return;
    uint64_t used_bytes = ask_processes(probe, gpu, device);
    device->mem_total_bytes = banks.bytes;
    device->mem_free_bytes = banks.bytes - MIN(used_bytes, banks.bytes);
}

static void ask_sensors(const struct driver_probe *probe, const struct amd_gpu *gpu,
                        struct device *device)
{
    uint64_t number = 0;
    if (number_said(probe, gpu->folder, "gpu_busy_percent", &number) && number <= 100)
        device->busy_percent = (int)number;
    if (!gpu->hwmon[0])
        return;
    /* the edge of the die; large GPUs have only the hottest junction */
    if ((number_said(probe, gpu->hwmon, "temp1_input", &number) ||
         number_said(probe, gpu->hwmon, "temp2_input", &number)) &&
        number < 1000000)
        device->temperature_c = (int)(number / 1000);
    if ((number_said(probe, gpu->hwmon, "power1_average", &number) ||
         number_said(probe, gpu->hwmon, "power1_input", &number)) &&
        number < 100000000000)
        device->power_w = (double)number / 1e6;
}

static void ask_health(const struct driver_probe *probe, const struct amd_gpu *gpu,
                       struct device *device)
{
    cleanup_buf struct buf text = BUF_INIT;
    char path[SYSFS_PATH_MAX];
    if (read_said(probe, gpu->folder, "ras/umc_err_count", &text))
        device->ecc_uncorrected_count = amd_errors_parse(buf_str(&text));
    sysfs_path(path, "%s/ras/gpu_vram_bad_pages", gpu->folder);
    buf_reset(&text);
    announce(probe, "ras/gpu_vram_bad_pages");
    if (path_exists(path) && file_read(path, TEXT_FILE_MAX, &text, NULL) == 0 &&
        amd_bad_page_is_in_use(buf_str(&text)))
        snprintf(device->ill, sizeof(device->ill),
                 "a bad page of its memory could not be retired: the GPU needs repair");
}

static void ask_state(const struct driver_probe *probe, const struct amd_gpu *gpu,
                      struct device *device)
{
    if (gpu->is_unreadable)
        mark_lost(device, "", "the AMD driver does not describe it");
    else if (!amd_folder_is_there(gpu))
        mark_lost(device, "", "it is not on the PCI bus");
    else
        ask_memory(probe, gpu, device);
    if (device->is_lost)
        return;
    if (gpu->is_partition)
        ask_partition_memory(probe, gpu, device);
    ask_sensors(probe, gpu, device);
    ask_health(probe, gpu, device);
}

/* ---- the probe ---- */

/* The first of these that is known: the name stored on the board, libdrm's name of the chip, the
 * compiler's name of the chip. */
static void ask_name(const struct driver_probe *probe, const struct amd_gpu *gpu,
                     struct device *device)
{
    cleanup_buf struct buf text = BUF_INIT, ids = BUF_INIT;
    char path[SYSFS_PATH_MAX], gfx[16];
    struct str name = {0};
    uint64_t revision = 0;
    amd_gfx_format(gpu->node.gfx_target_version, gfx);
    buf_addf(&ids, "AMD %s", gfx);
    if (read_said(probe, gpu->folder, "product_name", &text))
        name = str_trim(buf_str(&text));
    if (name.len == 0 && read_said(probe, gpu->folder, "revision", &text) &&
        amd_hex_parse(buf_str(&text), &revision)) {
        sysfs_beside(path, "/usr/share/libdrm/amdgpu.ids");
        buf_reset(&text);
        if (file_read(path, TEXT_FILE_MAX, &text, NULL) == 0 &&
            !amd_name_find(buf_str(&text), gpu->node.device_id, revision, &name))
            name.len = 0;
    }
    if (name.len == 0)
        name = buf_str(&ids);
    snprintf(device->name, sizeof(device->name), "%.*s%s", (int)MIN(name.len, (size_t)48), name.at,
             gpu->is_integrated ? " (integrated)" : "");
}

static void list_gpu(struct driver_probe *probe, unsigned physical, bool is_brief)
{
    const struct amd_gpu *gpu = &machine_of(probe)->at[physical];
    cleanup_free struct device *device = xmalloc(sizeof(*device));
    device_reset(device, DEVICE_ROCM, (int)physical);
    if (gpu->is_unreadable) {
        say_gone(DEVICE_ROCM, physical, "the AMD driver does not describe it");
        return;
    }
    snprintf(device->uuid, sizeof(device->uuid), "%s", gpu->uuid);
    snprintf(device->pci, sizeof(device->pci), "%s", gpu->pci);
    device->is_unnamed = gpu->is_unnamed;
    device->is_integrated = gpu->is_integrated;
    device->is_lost = is_brief;
    snprintf(device->name, sizeof(device->name), "AMD GPU");
    if (!is_brief) {
        ask_name(probe, gpu, device);
        ask_state(probe, gpu, device);
    }
    if (!device->is_lost)
        ask_processes(probe, gpu, device);
    say_device(device);
}

static void say_distance(struct driver_probe *probe, unsigned a, unsigned b)
{
    const struct amd_machine *machine = machine_of(probe);
    struct buf line = BUF_INIT;
    announce(probe, "io_links");
    buf_addf(&line, "#%u %u %u", a, b, amd_distance(&machine->at[a], &machine->at[b]));
    say_line(&line);
}

static bool sample(struct driver_probe *probe, const char *uuid, struct device *out)
{
    const struct amd_machine *machine = machine_of(probe);
    for (size_t i = 0; i < machine->len; i++) {
        if (strcmp(machine->at[i].uuid, uuid) != 0)
            continue;
        ask_state(probe, &machine->at[i], out);
        return !out->is_lost;
    }
    mark_lost(out, "", "the AMD driver does not know it any more");
    return false;
}

static unsigned count(struct driver_probe *probe)
{
    return (unsigned)MIN(machine_of(probe)->len, (size_t)DEVICES_MAX);
}

static void close_machine(struct driver_probe *probe)
{
    struct amd_machine *machine = probe->state;
    if (machine)
        free(machine->at);
    free(machine);
}

/* Only a process that may open /dev/kfd can compute; the other files are readable by everybody. */
static bool open_machine(struct driver_probe *probe)
{
    char path[SYSFS_PATH_MAX];
    struct amd_machine *machine = xcalloc(1, sizeof(*machine));
    close_machine(probe); /* what an earlier attempt opened */
    announce(probe, "kfd/topology");
    size_t n_hidden = amd_machine_read(machine);
    sysfs_beside(path, "/dev/kfd");
    probe->state = machine;
    bool is_open = false;
    if (machine->len == 0 && n_hidden > 0)
        say_text("-this container or job was given none of the AMD GPUs");
    else if (machine->len == 0)
        say_text("-the AMD driver is there and has no GPU for computing");
    else if (access(path, R_OK | W_OK) == 0)
        is_open = true;
    else if (errno == ENOENT)
        say_text("-there are AMD GPUs, but no /dev/kfd: this container was not given it");
    else
        say_text("-there are AMD GPUs, but /dev/kfd is closed to this user (be in the group that "
                 "owns it, mostly render)");
    return is_open;
}

const struct driver_probe_ops amd_probe_ops = {
    .open = open_machine,
    .close = close_machine,
    .count = count,
    .list = list_gpu,
    .say_distance = say_distance,
    .sample = sample,
};
