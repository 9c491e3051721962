/* SPDX-License-Identifier: Apache-2.0
 *
 * The driver: is it there, does it answer, may we use it?
 */
#include <ctype.h>
#include <dirent.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "device/vendor.h"
#include "doctor/checks.h"

enum {
    FILE_MAX_BYTES = 1 << 16,
    SLOW_MS = 1500
};

/* The number behind "0x" in a file of sysfs; 0 if there is none. */
static unsigned long hex_read(const char *folder, const char *name)
{
    cleanup_free char *path = path_join(folder, name);
    cleanup_buf struct buf text = BUF_INIT;
    return file_read(path, FILE_MAX_BYTES, &text, NULL) == 0 ? strtoul(buf_text(&text), NULL, 16)
                                                             : 0;
}

/* Display and 3D controllers of both vendors: class 0x03xxxx. */
static void pci_count(const char *root, struct driver_facts *out)
{
    cleanup_free char *folder = xasprintf("%s/sys/bus/pci/devices", root);
    DIR *entries = opendir(folder);
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        cleanup_free char *device = path_join(folder, entry->d_name);
        if (entry->d_name[0] == '.' || hex_read(device, "class") >> 16 != 0x03)
            continue;
        unsigned long vendor = hex_read(device, "vendor");
        out->n_pci_nvidia += vendor == 0x10de;
        out->n_pci_amd += vendor == 0x1002;
    }
    if (entries)
        closedir(entries);
}

/* "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat …": the first word like 1.2. */
static void module_version_read(const char *root, struct driver_facts *out)
{
    cleanup_free char *path = xasprintf("%s/proc/driver/nvidia/version", root);
    cleanup_buf struct buf text = BUF_INIT;
    if (file_read(path, FILE_MAX_BYTES, &text, NULL) != 0)
        return;
    struct str rest = buf_str(&text), word;
    while (str_next(&rest, ' ', &word)) {
        bool is_version = word.len > 2 && isdigit((unsigned char)word.at[0]) &&
                          memchr(word.at, '.', word.len) && word.len < sizeof(out->module_version);
        if (!is_version)
            continue;
        snprintf(out->module_version, sizeof(out->module_version), "%.*s", (int)word.len, word.at);
        return;
    }
}

static bool is_there(const char *root, const char *path, int mode)
{
    cleanup_free char *full = xasprintf("%s%s", root, path);
    return access(full, mode) == 0;
}

void driver_gather(const char *root, struct driver_facts *out)
{
    pci_count(root, out);
    module_version_read(root, out);
    out->has_ctl = is_there(root, "/dev/nvidiactl", F_OK);
    out->may_open_ctl = is_there(root, "/dev/nvidiactl", R_OK | W_OK);
    out->has_uvm = is_there(root, "/dev/nvidia-uvm", F_OK);
    out->has_kfd = is_there(root, "/dev/kfd", F_OK);
    out->is_container =
        is_there(root, "/.dockerenv", F_OK) || is_there(root, "/run/.containerenv", F_OK);
}

static const struct trouble
    mismatch = {FINDING_FAIL,
                "The driver's packages were renewed while the kernel still runs the old module: no "
                "program can use a GPU.",
                "Reboot; or end whatever holds a GPU (see orphans), then: rmmod nvidia_drm "
                "nvidia_modeset nvidia_uvm nvidia; modprobe nvidia nvidia_uvm"},
    silent =
        {FINDING_FAIL,
         "A query hangs in the kernel: programs that ask the driver will hang as well, also "
         "nvidia-smi.",
         "Look for Xid in dmesg; reset or reboot. Where it is only slow to wake up, turn on "
         "persistence mode, and give the doctor more time: --patience 40s",
         "A query hangs in the kernel: programs that ask the driver will hang as well, also "
         "amd-smi and rocm-smi.",
         "Look for amdgpu in dmesg; reset or reboot. Where it is only slow to wake up, give the "
         "doctor more time: --patience 40s"},
    broken = {FINDING_FAIL,
              "No program can use its GPUs, and muster map does not start: ids might mean other "
              "devices than they should.",
              "Look at dmesg and nvidia-smi; install the driver again, or reboot",
              .cure_amd = "Look for amdgpu in dmesg, and at amd-smi; install the driver "
                          "(amdgpu-dkms) again, or reboot"},
    no_driver = {FINDING_FAIL,
                 "There are NVIDIA GPUs in this machine, and muster would run on CPU slots.",
                 "Load the driver (modprobe nvidia) or install it; in a container start it with "
                 "the GPUs (docker run --gpus all, with nvidia-container-toolkit)"},
    no_library = {FINDING_FAIL,
                  "The kernel has the driver, this system has not its library: muster would run "
                  "on CPU slots, and CUDA fails.",
                  "Install libnvidia-ml of the very version of the module; in a container let "
                  "nvidia-container-toolkit bring it in (NVIDIA_DRIVER_CAPABILITIES=compute,"
                  "utility)"},
    no_gpu = {FINDING_WARN, "Runs use the other GPUs alone, or CPU slots where there are none.",
              "Look for Xid and 'fallen off' in dmesg, and for MIG without an instance (nvidia-smi "
              "mig -lgi); in a container start it with the GPUs (docker run --gpus all)"},
    nvidia_beside = {FINDING_WARN, "Runs use the other GPUs alone.",
                     "If there are NVIDIA GPUs to compute on: modprobe nvidia, and install "
                     "libnvidia-ml of the module's very version; else remove the driver"},
    no_amd_driver = {FINDING_WARN, "Nothing can compute on it, and muster uses CPU slots.",
                     "modprobe amdgpu; install ROCm's driver (amdgpu-dkms); in a container pass "
                     "/dev/kfd and /dev/dri in"},
    amd_closed = {FINDING_FAIL, "The GPUs are there, and muster would run on CPU slots.",
                  "docker run --device /dev/kfd --device /dev/dri; become a member of the groups "
                  "render and video, and log in again"},
    amd_beside = {FINDING_WARN, "Runs use the other GPUs alone.",
                  "If it is one to compute on: pass /dev/kfd and /dev/dri into the container, or "
                  "become a member of the groups render and video"},
    slow = {FINDING_WARN,
            "Every program that asks the driver waits as long before it starts; a driver without "
            "persistence mode wakes all GPUs each time.",
            "nvidia-smi -pm 1, or the service nvidia-persistenced",
            "Every program that asks the driver waits as long before it starts; a GPU that sleeps "
            "is woken up each time.",
            "Keep them awake: amdgpu.runpm=0 as a parameter of the kernel; look for amdgpu in "
            "dmesg"},
    fewer = {FINDING_WARN,
             "A GPU that did not come up, fell off the bus, or has MIG enabled and no instance, "
             "is missing.",
             "Look for Xid and 'fallen off' in dmesg; nvidia-smi mig -lgi; reset or reboot"};

static void silence_judge(const struct driver_facts *driver, struct findings *out)
{
    enum device_kind kind = strstr(driver->said, "AMD") ? DEVICE_ROCM : DEVICE_CUDA;
    if (strstr(driver->said, "version mismatch"))
        found(out, &mismatch, "", "%s; the kernel runs %s", driver->said,
              driver->module_version[0] ? driver->module_version : "another version");
    else if (strstr(driver->said, "did not answer"))
        found_for(out, &silent, kind, "", "%s", driver->said);
    else
        found_for(out, &broken, kind, "", "%s", driver->said);
}

/* A GPU that is cut into instances counts once. */
static size_t gpus_count(const struct device_list *devices, enum device_kind kind)
{
    size_t count = 0;
    for (size_t i = 0; i < devices->len; i++) {
        bool is_first = devices->at[i].kind == kind;
        for (size_t k = 0; k < i && is_first; k++)
            is_first =
                devices->at[k].kind != kind || devices->at[k].physical != devices->at[i].physical;
        count += is_first;
    }
    return count;
}

/* A device that is lost may have cost a deadline; so may a driver that did not answer. */
static bool is_wait_explained(const struct facts *facts)
{
    bool is_explained = facts->driver.said[0] != '\0';
    for (size_t i = 0; i < facts->machine.len; i++)
        is_explained |= facts->machine.at[i].is_lost;
    return is_explained;
}

/* Part of the helper's text if AMD's GPUs may be opened only by other users or groups. */
#define CLOSED_KFD "/dev/kfd is closed to this user"

/* Why a vendor has no device, recognised by words in the note (`sign`). `alone`: no vendor has a
 * device; `beside`: another vendor has. */
static const struct {
    const char *sign;
    const struct trouble *alone, *beside; /* NULL: another check reports it */
    enum device_kind kind;
} reasons[] = {
    {CLOSED_KFD, NULL, NULL, DEVICE_ROCM},
    {"AMD GPU", &amd_closed, &amd_beside, DEVICE_ROCM},
    {"NVIDIA's management library", &no_library, &nvidia_beside, DEVICE_CUDA},
    {"the NVIDIA driver says", &no_driver, &nvidia_beside, DEVICE_CUDA},
    {"the NVIDIA driver is there and has no GPU", &no_gpu, &no_gpu, DEVICE_CUDA},
    {"NVIDIA driver did not answer", &silent, &silent, DEVICE_CUDA},
    {"AMD driver did not answer", &silent, &silent, DEVICE_ROCM},
};

/* Judges the notes of the drivers: nothing failed, but GPUs are missing. */
static void notes_judge(const struct facts *facts, struct findings *out)
{
    struct str rest = str_trim(str_of(facts->driver.notes)), line;
    bool is_beside = are_gpus(&facts->machine);
    while (rest.len > 0 && str_next(&rest, '\n', &line)) {
        size_t r = 0;
        while (r < countof(reasons) &&
               !memmem(line.at, line.len, reasons[r].sign, strlen(reasons[r].sign)))
            r++;
        if (r == countof(reasons) || !reasons[r].alone)
            continue;
        found_for(out, is_beside ? reasons[r].beside : reasons[r].alone, reasons[r].kind, "",
                  "%.*s", (int)line.len, line.at);
    }
}

/* Finds GPUs on the PCI bus that no driver serves. */
static void cards_judge(const struct facts *facts, struct findings *out)
{
    const struct driver_facts *driver = &facts->driver;
    size_t n_gpus = gpus_count(&facts->machine, DEVICE_CUDA);
    /* a container, and a job of Slurm, is shown a share of the machine on purpose */
    bool is_share = driver->is_container || facts->env.at[ENV_NVIDIA_VISIBLE_DEVICES] ||
                    facts->env.at[ENV_SLURM_JOB_ID];
    if (driver->n_pci_nvidia > 0 && !driver->is_there)
        found(out, &no_driver, "", "%zu NVIDIA GPU%s on the PCI bus and no driver",
              driver->n_pci_nvidia, driver->n_pci_nvidia == 1 ? "" : "s");
    if (driver->n_pci_amd > 0 && !driver->is_amd_there && !are_gpus(&facts->machine))
        found(out, &no_amd_driver, "", "%zu AMD GPU%s on the PCI bus and no driver for computing",
              driver->n_pci_amd, driver->n_pci_amd == 1 ? "" : "s");
    if (n_gpus > 0 && n_gpus < driver->n_pci_nvidia && !is_share)
        found(out, &fewer, "", "%zu NVIDIA GPUs on the PCI bus, %zu answer", driver->n_pci_nvidia,
              n_gpus);
}

/* Nothing failed, and there is nothing to compute on but the processor. */
static void no_gpu_judge(const struct driver_facts *driver, struct findings *out)
{
    if (strstr(driver->notes, CLOSED_KFD))
        found_ok(out, "AMD's is there; its device file is closed to this user, see access");
    else if (strstr(driver->notes, "graphics of the processor"))
        found_ok(out, "no GPU but graphics of the processor: work runs on CPU slots");
    else
        found_ok(out, "no GPU on this machine: work runs on CPU slots");
}

/* "NVIDIA 550.54.15 and AMD answer, 9 GPUs, 40 ms" */
static void answer_judge(const struct facts *facts, struct findings *out)
{
    const struct device_list *devices = &facts->machine;
    bool has_nvidia = gpus_count(devices, DEVICE_CUDA) > 0;
    bool has_amd = gpus_count(devices, DEVICE_ROCM) > 0;
    const char *version = "";
    char took[24];
    duration_format(took, facts->driver.took_ms);
    for (size_t i = 0; i < devices->len && !version[0]; i++)
        version = devices->at[i].details.driver;
    if (facts->driver.took_ms > SLOW_MS && !is_wait_explained(facts))
        found_for(out, &slow, has_nvidia ? DEVICE_CUDA : DEVICE_ROCM, "", "answers after %s", took);
    else
        found_ok(out, "%s%s%s%s%s answer%s, %zu GPU%s, %s", has_nvidia ? "NVIDIA" : "",
                 version[0] ? " " : "", version, has_nvidia && has_amd ? " and " : "",
                 has_amd ? "AMD" : "", has_nvidia && has_amd ? "" : "s", devices->len,
                 devices->len == 1 ? "" : "s", took);
}

void driver_judge(const struct facts *facts, struct findings *out)
{
    size_t n_before = out->len;
    if (!facts->driver.is_asked) {
        found_ok(out, "not asked: -g names devices that need none");
        return;
    }
    if (facts->driver.said[0])
        silence_judge(&facts->driver, out);
    notes_judge(facts, out);
    cards_judge(facts, out);
    if (are_gpus(&facts->machine))
        answer_judge(facts, out);
    else if (out->len == n_before)
        no_gpu_judge(&facts->driver, out);
}

static const struct trouble
    no_rights = {FINDING_FAIL, "This user may not use the GPUs.",
                 "Become a member of the group that ls -l /dev/nvidiactl shows, and log in again"},
    no_uvm = {FINDING_FAIL,
              "CUDA does not start (\"unknown error\"), though nvidia-smi shows all GPUs.",
              "nvidia-modprobe -u -c 0, as root; in a container: pass the device file in"},
    no_kfd_rights =
        {FINDING_FAIL, "The GPUs are there, and muster would run on CPU slots.",
         "Become a member of the group that ls -l /dev/kfd shows, mostly render, and of "
         "video, and log in again; in a container: --group-add"},
    no_kfd_beside = {FINDING_WARN, "Runs use the other GPUs alone.",
                     "If there is one to compute on: become a member of the group that ls -l "
                     "/dev/kfd shows, mostly render, and of video, and log in again"};

void access_judge(const struct facts *facts, struct findings *out)
{
    const struct driver_facts *driver = &facts->driver;
    size_t n_before = out->len;
    if (!driver->is_asked)
        return;
    if (driver->has_ctl && !driver->may_open_ctl)
        found(out, &no_rights, "/dev/nvidiactl", "no right to open it");
    if (driver->has_ctl && !driver->has_uvm && gpus_count(&facts->machine, DEVICE_CUDA) > 0)
        found(out, &no_uvm, "/dev/nvidia-uvm", "it is not there");
    /* the note is there only if there are AMD GPUs: without one, nobody needs /dev/kfd */
    if (strstr(driver->notes, CLOSED_KFD))
        found(out, are_gpus(&facts->machine) ? &no_kfd_beside : &no_kfd_rights, "/dev/kfd",
              "no right to open it, and there are AMD GPUs");
    if (out->len == n_before && (driver->has_ctl || driver->has_kfd))
        found_ok(out, "those that are needed are there, and may be opened");
}
