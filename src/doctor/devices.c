/* SPDX-License-Identifier: Apache-2.0
 *
 * The devices themselves: are they fit, are they alike, who computes on them? A trouble that
 * several devices share is one finding.
 */
#include <pwd.h>

#include "base/cleanup.h"
#include "base/idlist.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "doctor/checks.h"

bool are_gpus(const struct device_list *devices)
{
    return devices->len > 0 && devices->at[0].kind != DEVICE_CPU;
}

void subject_of(const struct device_list *devices, const bool *flags, char out[64])
{
    cleanup_buf struct buf text = BUF_INIT;
    cleanup_free uint32_t *ids = xcalloc(devices->len + 1, sizeof(*ids));
    size_t n_ids = 0;
    for (size_t i = 0; i < devices->len; i++)
        if (flags[i])
            ids[n_ids++] = (uint32_t)devices->at[i].index;
    if (n_ids > 0) {
        buf_add_text(&text, devices->at[0].kind == DEVICE_CPU ? "cpu " : "gpu ");
        idlist_format(&text, ids, n_ids);
    }
    snprintf(out, 64, "%s", buf_text(&text));
}

void user_name(uid_t uid, char out[40])
{
    FILE *file = fopen("/etc/passwd", "re");
    snprintf(out, 40, uid == (uid_t)-1 ? "an unknown user" : "uid %u", (unsigned)uid);
    for (struct passwd *entry; file && (entry = fgetpwent(file));) {
        if (entry->pw_uid != uid)
            continue;
        snprintf(out, 40, "%s", entry->pw_name);
        break;
    }
    if (file)
        fclose(file);
}

/* One finding for all devices that `is_so` holds for. */
static void found_on(const struct device_list *devices, bool (*is_so)(const struct device *),
                     const struct trouble *trouble, const char *text, struct findings *out)
{
    cleanup_free bool *flags = xcalloc(devices->len + 1, sizeof(bool));
    char subject[64];
    for (size_t i = 0; i < devices->len; i++)
        flags[i] = is_so(&devices->at[i]);
    subject_of(devices, flags, subject);
    if (subject[0])
        found(out, trouble, subject, "%s", text);
}

/* ---- alike ---- */

static const struct trouble
    unlike_models = {FINDING_WARN,
                     "Equal shares end at different times; what fits one may not fit another. CUDA "
                     "counts the fastest first, nvidia-smi and muster by PCI address.",
                     "Leave the slower ones out (-g), or let muster map deal out item by item; set "
                     "CUDA_DEVICE_ORDER=PCI_BUS_ID for programs started by hand",
                     "Equal shares end at different times; what fits one may not fit another.",
                     "Leave the slower ones out (-g), or let muster map deal out item by item"},
    unlike_memory = {FINDING_WARN, "A batch that fits one device may not fit another.",
                     "Size batches for the smallest, or leave it out (-g)"},
    unlike_mig = {FINDING_WARN,
                  "Some workers get a whole GPU and some a slice; a process sees one slice at "
                  "most, and slices have no peer-to-peer.",
                  "nvidia-smi -mig 0 (or 1) on all of them, or name the devices (-g)"};

/*
 * Whether the device's model and memory are compared. A MIG instance has its profile in its name,
 * and the check for MIG reports it. Runs leave out graphics of a processor.
 */
static bool is_whole(const struct device *device)
{
    return device->parent_uuid[0] == '\0' && !device->is_lost && !device->is_integrated;
}

/* "6 x NVIDIA H200, 2 x NVIDIA A100" */
static void models_format(const struct device_list *devices, struct buf *out)
{
    for (size_t i = 0; i < devices->len; i++) {
        const char *name = devices->at[i].name;
        size_t n_before = 0, count = 0;
        for (size_t k = 0; k < devices->len; k++) {
            bool is_same = is_whole(&devices->at[k]) && strcmp(devices->at[k].name, name) == 0;
            count += is_same;
            n_before += is_same && k < i;
        }
        if (is_whole(&devices->at[i]) && n_before == 0)
            buf_addf(out, "%s%zu x %s", out->len ? ", " : "", count, name);
    }
}

static void memory_judge_alike(const struct device_list *devices, struct findings *out)
{
    uint64_t least = UINT64_MAX, most = 0;
    char least_text[16], most_text[16];
    for (size_t i = 0; i < devices->len; i++) {
        uint64_t bytes = devices->at[i].mem_total_bytes;
        if (!is_whole(&devices->at[i]) || bytes == 0)
            continue;
        least = MIN(least, bytes);
        most = MAX(most, bytes);
    }
    size_format(least_text, least);
    size_format(most_text, most);
    /* 2 %: how much memory a firmware keeps for itself differs a little */
    if (most > 0 && (most - least) * 50 > most)
        found(out, &unlike_memory, "", "memory from %s to %s", least_text, most_text);
}

/* DEVICE_CUDA if there is one: its advice is right for NVIDIA's and AMD's devices together. */
static enum device_kind gpus_kind(const struct device_list *devices)
{
    enum device_kind kind = devices->at[0].kind;
    for (size_t i = 0; i < devices->len && kind != DEVICE_CUDA; i++)
        kind = devices->at[i].kind;
    return kind;
}

void alike_judge(const struct facts *facts, struct findings *out)
{
    const struct device_list *devices = &facts->devices;
    cleanup_buf struct buf models = BUF_INIT;
    size_t n_before = out->len, n_whole = 0, n_instances = 0;
    for (size_t i = 0; i < devices->len; i++) {
        n_whole += is_whole(&devices->at[i]);
        n_instances += devices->at[i].parent_uuid[0] != '\0';
    }
    if (!are_gpus(devices))
        return;
    models_format(devices, &models);
    if (strchr(buf_text(&models), ','))
        found_for(out, &unlike_models, gpus_kind(devices), "", "%s", buf_text(&models));
    memory_judge_alike(devices, out);
    if (n_whole > 0 && n_instances > 0)
        found(out, &unlike_mig, "", "%zu whole GPU%s and %zu MIG instances", n_whole,
              n_whole == 1 ? "" : "s", n_instances);
    if (out->len == n_before && n_whole > 0)
        found_ok(out, "%s", buf_text(&models));
    else if (out->len == n_before)
        found_ok(out, "%zu MIG instance%s", n_instances, n_instances == 1 ? "" : "s");
}

/* ---- health ---- */

static const struct trouble
    lost = {FINDING_FAIL, "Nothing can run there, and programs that touch it may hang.",
            "Look for Xid in dmesg; end what runs on it, nvidia-smi --gpu-reset -i N, or reboot. "
            "Until then -g free leaves it out",
            .cure_amd = "Look for amdgpu in dmesg; end what runs on it, amd-smi reset --gpureset "
                        "-g N, or reboot. Until then -g free leaves it out"},
    ill = {FINDING_FAIL, "Results computed there are in danger; -g free leaves it out.",
           "End what runs on it and nvidia-smi --gpu-reset -i N, or reboot; if it comes back, have "
           "the board replaced",
           .cure_amd = "End what runs on it and amd-smi reset --gpureset -g N, or reboot; if it "
                       "comes back (amd-smi bad-pages), have the board replaced"},
    ecc = {FINDING_WARN,
           "Memory gave wrong bits since the last reset; the processes concerned were ended.",
           "Watch it (nvidia-smi -q -d ECC); reset the GPU; if they come again, have it replaced",
           .cure_amd = "Watch it (amd-smi metric --ecc); reset the GPU; if they come again, have "
                       "it replaced"},
    hot = {FINDING_WARN, "It slows itself down, and everybody who waits for it.",
           "Look at fans, filters and the room; nvidia-smi -q -d TEMPERATURE,PERFORMANCE; lower "
           "the power limit (nvidia-smi -pl)"},
    capped = {FINDING_WARN, "Power supply or cable limit it below what its own limit allows.",
              "Look at the power supplies and the board's cables"};

/*
 * nvmlClocksThrottleReason…: HwSlowdown, SwThermalSlowdown, HwThermalSlowdown;
 * HwPowerBrakeSlowdown
 */
enum {
    REASONS_HEAT = 0x08 | 0x20 | 0x40,
    REASONS_POWER_BRAKE = 0x80
};

static bool is_hot(const struct device *device)
{
    return (device->details.clock_reasons & REASONS_HEAT) != 0 ||
           (device->details.slowdown_c > 0 && device->temperature_c >= device->details.slowdown_c);
}

static bool is_braked(const struct device *device)
{
    return (device->details.clock_reasons & REASONS_POWER_BRAKE) != 0;
}

static void fitness_judge(const struct device *device, struct findings *out)
{
    if (device->is_lost)
        found_at(out, &lost, device, "lost%s%s", device->ill[0] ? ": " : "", device->ill);
    else if (device->ill[0])
        found_at(out, &ill, device, "%s", device->ill);
    if (device->ecc_uncorrected_count > 0)
        found_at(out, &ecc, device, "%ld uncorrected ECC error%s", device->ecc_uncorrected_count,
                 device->ecc_uncorrected_count == 1 ? "" : "s");
}

void health_judge(const struct facts *facts, struct findings *out)
{
    const struct device_list *devices = &facts->devices;
    size_t n_before = out->len;
    if (!are_gpus(devices))
        return;
    for (size_t i = 0; i < devices->len; i++)
        fitness_judge(&devices->at[i], out);
    found_on(devices, is_hot, &hot, "slowed down by heat", out);
    found_on(devices, is_braked, &capped, "the power brake is on", out);
    if (out->len == n_before)
        found_ok(out, "no GPU is lost, ill, too hot, or has ECC errors");
}

/* ---- modes ---- */

static const struct trouble
    not_persistent = {FINDING_WARN,
                      "The driver forgets the GPU when its last user ends: each start, and each "
                      "nvidia-smi, waits a second or more.",
                      "nvidia-smi -pm 1, or the service nvidia-persistenced"},
    exclusive = {FINDING_WARN,
                 "A second process on it fails with \"all CUDA-capable devices are busy or "
                 "unavailable\": no --workers-per-gpu, no data loader that uses CUDA.",
                 "nvidia-smi -c DEFAULT"},
    prohibited = {FINDING_FAIL, "No process can compute on it.", "nvidia-smi -c DEFAULT"};

static bool is_not_persistent(const struct device *device)
{
    return device->details.is_persistence_off;
}

static bool is_exclusive(const struct device *device)
{
    return device->details.compute_mode == 1 || device->details.compute_mode == 3;
}

static bool is_prohibited(const struct device *device)
{
    return device->details.compute_mode == 2;
}

void modes_judge(const struct facts *facts, struct findings *out)
{
    const struct device_list *devices = &facts->devices;
    size_t n_before = out->len;
    found_on(devices, is_prohibited, &prohibited, "compute mode is Prohibited", out);
    found_on(devices, is_exclusive, &exclusive, "compute mode is Exclusive", out);
    found_on(devices, is_not_persistent, &not_persistent, "persistence mode is off", out);
    if (out->len == n_before && devices->len > 0 && devices->at[0].kind == DEVICE_CUDA)
        found_ok(out, "persistence on, open to any number of processes");
}

/* ---- processes ---- */

static const struct trouble
    foreign = {FINDING_WARN, "-g free, the default, leaves it out until it is alone.",
               "Ask the owner, wait for it (muster map --wait 2h), or share the device (-g all). A "
               "process that nobody wants: see orphans"},
    unseen = {
        FINDING_WARN,
        "Its processes cannot be seen from here: they are in another container, or hang in the "
        "kernel. -g free leaves it out.",
        "Look from the host (nvidia-smi, fuser -v /dev/nvidia*)",
        .cure_amd = "Look from the host (amd-smi process, fuser -v /dev/kfd /dev/dri/renderD*)"};

void processes_judge(const struct facts *facts, struct findings *out)
{
    const struct device_list *devices = &facts->devices;
    size_t n_before = out->len;
    for (size_t i = 0; i < devices->len; i++) {
        const struct device *device = &devices->at[i];
        cleanup_buf struct buf text = BUF_INIT;
        char owner[40], size[16];
        for (size_t k = 0; k < device->n_processes; k++) {
            const struct device_process *process = &device->processes[k];
            user_name(process->uid, owner);
            size_format(size, process->mem_bytes);
            buf_addf(&text, "%s%s %d of %s", k ? ", " : "", process->name[0] ? process->name : "?",
                     (int)process->pid, owner);
            buf_addf(&text, process->mem_bytes ? " (%s)" : "%s", process->mem_bytes ? size : "");
        }
        size_format(size, device->mem_total_bytes - device->mem_free_bytes);
        if (text.len > 0)
            found_at(out, &foreign, device, "in use by %s", buf_text(&text));
        else if (device_is_held_unseen(device))
            found_at(out, &unseen, device, "%s in use and no process to be seen", size);
    }
    if (out->len == n_before && are_gpus(devices))
        found_ok(out, "nobody computes on the %s", devices->len == 1 ? "GPU" : "GPUs");
}
