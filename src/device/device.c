/* SPDX-License-Identifier: Apache-2.0 */
#include "device/device.h"

static const struct {
    const char *name, *prefix;
} kinds[] = {
#define X(kind, name, prefix) [DEVICE_##kind] = {name, prefix},
    DEVICE_KINDS(X)
#undef X
};

void device_list_release(struct device_list *list)
{
    free(list->at);
    free(list->distance);
    *list = (struct device_list){0};
}

const char *device_kind_name(enum device_kind kind)
{
    ASSERT((size_t)kind < countof(kinds));
    return kinds[kind].name;
}

void device_label(const struct device *device, char out[24])
{
    ASSERT((size_t)device->kind < countof(kinds));
    snprintf(out, 24, "%s %d", kinds[device->kind].prefix, device->index);
}
