/* SPDX-License-Identifier: Apache-2.0 */
#include "device/vendor.h"

static const char *const nothing[] = {NULL};

const struct vendor vendors[] = {
    {
        .kind = DEVICE_CUDA,
        .name = "NVIDIA",
        .is_there = nvml_is_there,
        .probe = &nvml_probe,
        .trouble = "see dmesg for Xid",
        .rules = {{.variables = {"CUDA_VISIBLE_DEVICES"}, .may_sort_by_speed = true}},
        .shows = "CUDA_VISIBLE_DEVICES",
        .hides = "CUDA_VISIBLE_DEVICES=",
        .setting = "CUDA_DEVICE_ORDER=PCI_BUS_ID",
        .clears = nothing,
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
