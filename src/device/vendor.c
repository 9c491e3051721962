/* SPDX-License-Identifier: Apache-2.0 */
#include "device/vendor.h"

#include <unistd.h>

#include "device/amd_machine.h"
#include "device/sysfs.h"

bool nvml_is_there(void)
{
    static const char *const signs[] = {"/dev/nvidiactl", "/proc/driver/nvidia/version",
                                        "/dev/dxg"};
    const char *path = getenv("MUSTER_NVML");
    bool is_there = path && *path;
    for (size_t i = 0; i < countof(signs) && !is_there; i++)
        is_there = access(signs[i], F_OK) == 0;
    return is_there;
}

bool amd_is_there(void)
{
    char path[SYSFS_PATH_MAX];
    sysfs_path(path, "%s", AMD_NODES);
    return access(path, F_OK) == 0;
}

static const char *const nothing[] = {NULL};
/*
 * ROCR_VISIBLE_DEVICES belongs to the layer below: HIP_VISIBLE_DEVICES counts within it.
 * CUDA_VISIBLE_DEVICES is HIP's other name for the same list. GPU_DEVICE_ORDINAL is OpenCL's list.
 */
static const char *const amd_layers[] = {"ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES",
                                         "GPU_DEVICE_ORDINAL", NULL};

const struct vendor vendors[] = {
    {
        .kind = DEVICE_CUDA,
        .name = "NVIDIA",
        .link = "NVLink",
        .is_there = nvml_is_there,
        .trouble = "see dmesg for Xid",
        .rules = {{.variables = {"CUDA_VISIBLE_DEVICES"}, .may_sort_by_speed = true}},
        .shows = "CUDA_VISIBLE_DEVICES",
        .hides = "CUDA_VISIBLE_DEVICES=",
        .setting = "CUDA_DEVICE_ORDER=PCI_BUS_ID",
        .clears = nothing,
    },
    {
        .kind = DEVICE_ROCM,
        .name = "AMD",
        .link = "XGMI",
        .is_there = amd_is_there,
        .trouble = "see dmesg for amdgpu",
        .rules = {{.variables = {"ROCR_VISIBLE_DEVICES"}},
                  {.variables = {"HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"},
                   .is_unset_if_empty = true,
                   .counts_what_is_left = true,
                   .skips_repeats = true}},
        .shows = "HIP_VISIBLE_DEVICES",
        .hides = "HIP_VISIBLE_DEVICES=-1", /* an empty list would count as not set */
        .clears = amd_layers,
    },
};
const size_t n_vendors = countof(vendors);

const struct vendor *vendor_of(enum device_kind kind)
{
    for (size_t i = 0; i < n_vendors; i++)
        if (vendors[i].kind == kind)
            return &vendors[i];
    return NULL;
}
