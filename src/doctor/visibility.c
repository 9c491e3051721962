/* SPDX-License-Identifier: Apache-2.0
 *
 * The variables that hide devices: what they leave, and where they mislead.
 */
#include "base/cleanup.h"
#include "base/xalloc.h"
#include "device/vendor.h"
#include "doctor/checks.h"

static const struct trouble
    all_hidden = {FINDING_FAIL, "Programs started here see no GPU; muster would run on CPU slots.",
                  "unset CUDA_VISIBLE_DEVICES, or list ids of muster gpus --all"},
    misleading = {FINDING_WARN,
                  "Programs started here see fewer devices than the list says, or others.",
                  "Correct the list: ids in PCI order as muster gpus --all shows them, or UUIDs; "
                  "set CUDA_DEVICE_ORDER=PCI_BUS_ID with it"},
    order =
        {FINDING_WARN,
         "CUDA counts the fastest first, nvidia-smi and muster by PCI address: cuda:0 of a "
         "program started by hand may be another GPU than nvidia-smi's 0. (Workers of muster get "
         "the order set.)",
         "export CUDA_DEVICE_ORDER=PCI_BUS_ID"},
    two_layers = {FINDING_FAIL,
                  "The second list counts within what the first has left: most often no device is "
                  "left over.",
                  "Set one of them and unset the other (muster sets HIP_VISIBLE_DEVICES alone)"},
    shut_out = {FINDING_WARN, "The container was started without GPUs.",
                "Start it with NVIDIA_VISIBLE_DEVICES=all (docker run --gpus all)"};

static struct device_list cuda_copy(const struct device_list *devices)
{
    struct device_list copy = {xcalloc(devices->len + 1, sizeof(*copy.at)), 0, NULL};
    for (size_t i = 0; i < devices->len; i++)
        if (devices->at[i].kind == DEVICE_CUDA)
            copy.at[copy.len++] = devices->at[i];
    return copy;
}

static struct str str_after(struct str text, struct str prefix)
{
    bool has_prefix = str_starts_with(text, prefix);
    return has_prefix ? (struct str){text.at + prefix.len, text.len - prefix.len} : text;
}

/* The list as CUDA reads it; each thing wrong with it is a line of the notes. */
static void cuda_list_judge(const struct facts *facts, const char *list, struct findings *out)
{
    cleanup_buf struct buf notes = BUF_INIT;
    struct device_list left = cuda_copy(&facts->devices);
    size_t n_before = out->len, n_all = left.len;
    struct str rest, line;
    visible_apply(vendor_of(DEVICE_CUDA)->rules, "CUDA_VISIBLE_DEVICES", list, &left, &notes);
    rest = str_trim(buf_str(&notes));
    while (rest.len > 0 && str_next(&rest, '\n', &line)) {
        line = str_after(line, STR("CUDA_VISIBLE_DEVICES"));
        line = str_after(line, STR(": "));
        found(out, left.len == 0 ? &all_hidden : &misleading, "CUDA_VISIBLE_DEVICES", "%.*s",
              (int)line.len, line.at);
    }
    if (out->len == n_before)
        found_ok(out, "CUDA_VISIBLE_DEVICES=%s leaves %zu of %zu devices", list, left.len, n_all);
    device_list_release(&left);
}

static bool is_mixed(const struct device_list *devices)
{
    const struct device *first = NULL;
    for (size_t i = 0; i < devices->len; i++) {
        const struct device *device = &devices->at[i];
        if (device->kind != DEVICE_CUDA || device->parent_uuid[0] || device->is_lost)
            continue;
        first = first ? first : device;
        if (strcmp(device->name, first->name) != 0)
            return true;
    }
    return false;
}

/* One layer of AMD's only: of those that are set, the first that is not alone. */
static void layers_judge(const struct env_facts *env, struct findings *out)
{
    const char *rocr = env->at[ENV_ROCR_VISIBLE_DEVICES], *hip = env->at[ENV_HIP_VISIBLE_DEVICES];
    const char *ordinal = env->at[ENV_GPU_DEVICE_ORDINAL];
    if (rocr && hip)
        found(out, &two_layers, "ROCR_VISIBLE_DEVICES", "=%s, and HIP_VISIBLE_DEVICES=%s", rocr,
              hip);
    else if (rocr && ordinal)
        found(out, &two_layers, "ROCR_VISIBLE_DEVICES", "=%s, and GPU_DEVICE_ORDINAL=%s", rocr,
              ordinal);
}

void visible_judge(const struct facts *facts, struct findings *out)
{
    const char *list = facts->env.at[ENV_CUDA_VISIBLE_DEVICES];
    const char *pci_order = facts->env.at[ENV_CUDA_DEVICE_ORDER];
    const char *container = facts->env.at[ENV_NVIDIA_VISIBLE_DEVICES];
    size_t n_before = out->len;
    bool has_gpus = facts->devices.len > 0 && facts->devices.at[0].kind == DEVICE_CUDA;
    if (list && has_gpus)
        cuda_list_judge(facts, list, out);
    else if (is_mixed(&facts->devices) && !(pci_order && strcmp(pci_order, "PCI_BUS_ID") == 0))
        found(out, &order, "CUDA_DEVICE_ORDER", "%s, and the GPUs differ",
              pci_order ? pci_order : "not set");
    layers_judge(&facts->env, out);
    if (container && !has_gpus && facts->driver.is_asked &&
        (strcmp(container, "void") == 0 || strcmp(container, "none") == 0 || !*container))
        found(out, &shut_out, "NVIDIA_VISIBLE_DEVICES", "'%s'", container);
    if (out->len == n_before)
        found_ok(out, "no variable hides a device");
}
