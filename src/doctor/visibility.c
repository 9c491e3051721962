/* SPDX-License-Identifier: Apache-2.0
 *
 * The variables that hide devices: what they leave, and where they mislead.
 */
#include "base/cleanup.h"
#include "base/xalloc.h"
#include "device/vendor.h"
#include "doctor/checks.h"
#include "doctor/doctor.h"

static const struct trouble
    all_hidden = {FINDING_FAIL, "Programs started here see none of these GPUs.",
                  "Unset it, or list ids of muster gpus --all",
                  "ROCm's programs started here see none of AMD's GPUs.",
                  "Unset it, or list numbers as muster gpus --all has them under PCI#, or UUIDs; "
                  "HIP_VISIBLE_DEVICES counts in what ROCR_VISIBLE_DEVICES leaves"},
    misleading = {FINDING_WARN,
                  "Programs started here see fewer devices than the list says, or others.",
                  "Correct the list: ids in PCI order as muster gpus --all shows them, or UUIDs; "
                  "set CUDA_DEVICE_ORDER=PCI_BUS_ID with it",
                  .cure_amd = "Correct the list: numbers as muster gpus --all has them under PCI#, "
                              "or UUIDs; HIP_VISIBLE_DEVICES counts in what ROCR_VISIBLE_DEVICES "
                              "leaves"},
    order =
        {FINDING_WARN,
         "CUDA counts the fastest first, nvidia-smi and muster by PCI address: cuda:0 of a "
         "program started by hand may be another GPU than nvidia-smi's 0. (Workers of muster get "
         "the order set.)",
         "export CUDA_DEVICE_ORDER=PCI_BUS_ID"},
    two_layers = {FINDING_WARN,
                  "The second list counts within what the first has left: most often no device is "
                  "left over.",
                  "Set one of them and unset the other (muster sets HIP_VISIBLE_DEVICES)"},
    shut_out = {FINDING_WARN, "The container was started without GPUs.",
                "Start it with NVIDIA_VISIBLE_DEVICES=all (docker run --gpus all)"};

/* The devices of one kind, with indices as their vendor's library counts them. */
static struct device_list devices_of(const struct device_list *devices, enum device_kind kind)
{
    struct device_list out = device_list_of_kind(devices, kind);
    device_list_renumber(&out);
    return out;
}

static struct str str_after(struct str text, struct str prefix)
{
    bool has_prefix = str_starts_with(text, prefix);
    return has_prefix ? (struct str){text.at + prefix.len, text.len - prefix.len} : text;
}

/* Applies a list as the vendor's library would; each thing wrong with it is a finding. */
static void list_judge(const struct visible_rule *rule, enum device_kind kind, const char *variable,
                       const char *list, struct device_list *left, struct findings *out)
{
    cleanup_buf struct buf notes = BUF_INIT;
    size_t n_before = left->len;
    visible_apply(rule, variable, list, left, &notes);
    struct str rest = str_trim(buf_str(&notes)), line;
    if (rest.len == 0)
        found_ok_on(out, variable, "=%s leaves %zu of %zu devices", list, left->len, n_before);
    while (rest.len > 0 && str_next(&rest, '\n', &line)) {
        line = str_after(str_after(line, str_of(variable)), STR(": "));
        found_for(out, left->len == 0 ? &all_hidden : &misleading, kind, variable, "%.*s",
                  (int)line.len, line.at);
    }
}

/* Judges each rule in turn, with the first of its variables that is set. */
static void vendor_judge(const struct vendor *vendor, const struct facts *facts,
                         struct findings *out)
{
    struct device_list left = devices_of(&facts->machine, vendor->kind);
    for (size_t r = 0; r < VISIBLE_RULES_MAX; r++) {
        const struct visible_rule *rule = &vendor->rules[r];
        const char *list = NULL, *variable = NULL;
        for (size_t v = 0; v < VISIBLE_VARIABLES_MAX && rule->variables[v] && !list; v++) {
            variable = rule->variables[v];
            list = env_value(&facts->env, variable);
            list = list && rule->is_unset_if_empty && !*list ? NULL : list;
        }
        if (list && left.len > 0)
            list_judge(rule, vendor->kind, variable, list, &left, out);
    }
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

/* If AMD's devices are not known, it is not known either what two lists leave of them. */
static void layers_judge(const struct facts *facts, struct findings *out)
{
    const char *rocr = facts->env.at[ENV_ROCR_VISIBLE_DEVICES];
    const char *hip = facts->env.at[ENV_HIP_VISIBLE_DEVICES];
    struct device_list amd = devices_of(&facts->machine, DEVICE_ROCM);
    if (amd.len == 0 && rocr && hip)
        found(out, &two_layers, "ROCR_VISIBLE_DEVICES", "=%s, and HIP_VISIBLE_DEVICES=%s", rocr,
              hip);
    device_list_release(&amd);
}

void visible_judge(const struct facts *facts, struct findings *out)
{
    const char *list = facts->env.at[ENV_CUDA_VISIBLE_DEVICES];
    const char *pci_order = facts->env.at[ENV_CUDA_DEVICE_ORDER];
    const char *container = facts->env.at[ENV_NVIDIA_VISIBLE_DEVICES];
    size_t n_before = out->len;
    for (size_t v = 0; v < n_vendors; v++)
        vendor_judge(&vendors[v], facts, out);
    if (!list && is_mixed(&facts->machine) && !(pci_order && strcmp(pci_order, "PCI_BUS_ID") == 0))
        found(out, &order, "CUDA_DEVICE_ORDER", "%s, and the GPUs differ",
              pci_order ? pci_order : "not set");
    layers_judge(facts, out);
    if (container && !are_gpus(&facts->machine) && facts->driver.is_asked &&
        (strcmp(container, "void") == 0 || strcmp(container, "none") == 0 || !*container))
        found(out, &shut_out, "NVIDIA_VISIBLE_DEVICES", "'%s'", container);
    if (out->len == n_before)
        found_ok(out, "no variable hides a device");
}

static bool is_visible(const struct facts *facts, const struct device *device)
{
    for (size_t i = 0; i < facts->visible.len; i++)
        if (facts->visible.at[i].kind == device->kind &&
            strcmp(facts->visible.at[i].uuid, device->uuid) == 0)
            return true;
    return false;
}

struct device_list runnable_devices(const struct facts *facts)
{
    const struct device_list *devices = &facts->devices;
    cleanup_free size_t *kept = xcalloc(devices->len + 1, sizeof(*kept));
    size_t n_kept = 0;
    for (size_t i = 0; i < devices->len; i++)
        if (is_visible(facts, &devices->at[i]))
            kept[n_kept++] = i;
    return device_list_pick(devices, kept, n_kept);
}
