/* SPDX-License-Identifier: Apache-2.0 */
#include "device/device.h"

#include "base/cleanup.h"
#include "base/xalloc.h"

static const struct {
    const char *name, *prefix;
} kinds[] = {
#define X(kind, name, prefix) [DEVICE_##kind] = {name, prefix},
    DEVICE_KINDS(X)
#undef X
};

void device_reset(struct device *device, enum device_kind kind, int physical)
{
    *device = (struct device){.kind = kind,
                              .physical = physical,
                              .busy_percent = -1,
                              .temperature_c = -1,
                              .power_w = -1,
                              .ecc_uncorrected_count = -1,
                              .numa_node = -1};
}

void device_list_release(struct device_list *list)
{
    free(list->at);
    free(list->distance);
    *list = (struct device_list){0};
}

uint8_t *distance_copy_new(const uint8_t *distance, size_t n_devices)
{
    size_t n_bytes = n_devices * n_devices;
    uint8_t *copy = distance ? xmalloc(n_bytes + 1) : NULL;
    if (copy)
        memcpy(copy, distance, n_bytes);
    return copy;
}

struct device_list device_list_pick(const struct device_list *list, const size_t *positions,
                                    size_t n_positions)
{
    struct device_list out = {0};
    if (n_positions == 0)
        return out;
    out = (struct device_list){xcalloc(n_positions, sizeof(*out.at)), n_positions, NULL};
    if (list->distance)
        out.distance = xcalloc(n_positions * n_positions, 1);
    for (size_t i = 0; i < n_positions; i++) {
        out.at[i] = list->at[positions[i]];
        for (size_t j = 0; j < n_positions && out.distance; j++)
            out.distance[i * n_positions + j] =
                list->distance[positions[i] * list->len + positions[j]];
    }
    return out;
}

static struct device_list filtered(const struct device_list *list, bool every,
                                   enum device_kind kind)
{
    cleanup_free size_t *positions = xcalloc(list->len + 1, sizeof(*positions));
    size_t n_positions = 0;
    for (size_t i = 0; i < list->len; i++)
        if (every || list->at[i].kind == kind)
            positions[n_positions++] = i;
    return device_list_pick(list, positions, n_positions);
}

struct device_list device_list_of_kind(const struct device_list *list, enum device_kind kind)
{
    return filtered(list, false, kind);
}

struct device_list device_list_copy(const struct device_list *list)
{
    return filtered(list, true, DEVICE_CPU);
}

void device_list_renumber(struct device_list *list)
{
    for (size_t i = 0; i < list->len; i++)
        list->at[i].index = (int)i;
}

const char *device_kind_name(enum device_kind kind)
{
    ASSERT((size_t)kind < countof(kinds));
    return kinds[kind].name;
}

bool device_is_held_unseen(const struct device *device)
{
    uint64_t total = device->mem_total_bytes, used = total - MIN(device->mem_free_bytes, total);
    return device->n_processes == 0 && !device->is_lost && !device->is_integrated &&
           used > MIN(2ull << 30, total / 4);
}

void device_label(const struct device *device, char out[24])
{
    ASSERT((size_t)device->kind < countof(kinds));
    snprintf(out, 24, "%s %d", kinds[device->kind].prefix, device->index);
}
