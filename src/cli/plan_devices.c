/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plan_devices.h"

#include <ctype.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "cli/chosen_devices.h"
#include "fit/fit.h"
#include "fit/memo.h"

enum {
    SPEED_MAX = 1000000,
    UNITLESS_BYTES_MIN = 1024 /* a smaller number lacks its unit; 0 is allowed: nothing fits
                               * there */
};

static struct plan_device *device_add(struct plan_device_list *devices, enum partition_kind kind,
                                      uint64_t bytes)
{
    devices->at = xrealloc(devices->at, (devices->len + 1) * sizeof(*devices->at));
    struct plan_device *device = &devices->at[devices->len++];
    *device = (struct plan_device){.of = {.kind = kind, .mem_bytes = bytes}};
    return device;
}

static struct plan_device *gpu_add(struct plan_device_list *devices, uint64_t bytes)
{
    uint32_t number = devices->len;
    struct plan_device *device = device_add(devices, PARTITION_GPU, bytes);
    snprintf(device->key, sizeof(device->key), "%u", number);
    snprintf(device->label, sizeof(device->label), "gpu %u", number);
    return device;
}

/* ---- --devices ---- */

struct size_item {
    uint64_t n, bytes, speed;
};

/* "2x80GiB=3": two devices of 80 GiB, three times as fast as one of speed 1. */
static int item_parse(struct str text, struct size_item *out, struct err *err)
{
    *out = (struct size_item){.n = 1, .speed = 1};
    const char *times = memchr(text.at, 'x', text.len);
    int rc = 0;
    if (times) {
        struct str count = {text.at, (size_t)(times - text.at)};
        rc = u64_parse(count, 1, DEVICES_MAX, &out->n, err);
        text = (struct str){times + 1, text.len - count.len - 1};
    }
    const char *equals = memchr(text.at, '=', text.len);
    if (rc == 0 && equals) {
        struct str speed = {equals + 1, text.len - (size_t)(equals + 1 - text.at)};
        rc = u64_parse(speed, 1, SPEED_MAX, &out->speed, err);
        text.len = (size_t)(equals - text.at);
    }
    rc = rc ? rc : size_parse(text, &out->bytes, err);
    bool has_unit = text.len > 0 && !isdigit((unsigned char)text.at[text.len - 1]);
    return rc == 0 && !has_unit && out->bytes > 0 && out->bytes < UNITLESS_BYTES_MIN
               ? fail(err, ERR_USAGE, "%lu bytes", out->bytes)
               : rc;
}

static int sizes_take(const char *sizes, struct plan_device_list *devices, struct err *err)
{
    struct str rest = str_of(sizes), text;
    while (str_next(&rest, ',', &text)) {
        struct size_item item;
        int rc = item_parse(str_trim(text), &item, err);
        if (rc)
            return wrap(err, rc, "'%.*s' is no size of a device, such as 24GiB, 4x24GiB or 80GiB=2",
                        (int)MIN(text.len, (size_t)40), text.at);
        if (devices->len + item.n > DEVICES_MAX)
            return fail(err, ERR_USAGE, "more than %d devices", DEVICES_MAX);
        for (uint64_t i = 0; i < item.n; i++)
            gpu_add(devices, item.bytes)->of.speed = (uint32_t)item.speed;
    }
    return 0;
}

int plan_sizes_check(const char *sizes, struct err *err)
{
    struct plan_device_list devices = {0};
    int rc = sizes_take(sizes, &devices, err);
    plan_devices_release(&devices);
    return rc;
}

/* ---- -g ---- */

static void machine_gpu_add(const struct device *device, struct plan_device_list *devices)
{
    uint64_t bytes = device->mem_free_bytes > 0 ? device->mem_free_bytes : device->mem_total_bytes;
    struct plan_device *made = gpu_add(devices, bytes);
    char label[24];
    device_label(device, label);
    snprintf(made->label, sizeof(made->label), "%s%s%s%s", label, device->name[0] ? " (" : "",
             device->name, device->name[0] ? ")" : "");
}

/* CPU slots share one memory: together they count as one CPU. */
static int machine_take(const struct app *app, const char *gpus, struct plan_device_list *devices,
                        uint64_t *cpu_bytes, struct err *err)
{
    cleanup_free struct chosen_devices *chosen = xcalloc(1, sizeof(*chosen));
    int rc = chosen_devices_find(app, gpus, chosen, err);
    for (size_t i = 0; rc == 0 && i < chosen->len; i++) {
        const struct device *device = &chosen->list.at[chosen->at[i]];
        if (device->kind == DEVICE_CPU)
            *cpu_bytes += fit_device_bytes(device, chosen->len);
        else
            machine_gpu_add(device, devices);
    }
    chosen_devices_release(chosen);
    return rc;
}

/* ---- all ---- */

int plan_devices_make(const struct app *app, const struct plan_devices_wish *wish,
                      struct plan_device_list *out, struct err *err)
{
    uint64_t cpu_bytes = 0;
    int rc = 0;
    *out = (struct plan_device_list){0};
    if (wish->gpus && wish->sizes)
        return fail(err, ERR_USAGE,
                    "give the devices of this machine (-g) or sizes (--devices), "
                    "not both");
    if (wish->gpus)
        rc = machine_take(app, wish->gpus, out, &cpu_bytes, err);
    else if (wish->sizes)
        rc = sizes_take(wish->sizes, out, err);
    if (wish->cpu_bytes > 0)
        cpu_bytes = wish->cpu_bytes;
    if (rc == 0 && cpu_bytes > 0) {
        struct plan_device *cpu = device_add(out, PARTITION_CPU, cpu_bytes);
        snprintf(cpu->key, sizeof(cpu->key), "cpu");
        snprintf(cpu->label, sizeof(cpu->label), "cpu");
    }
    if (rc == 0 && wish->has_disk) {
        struct plan_device *disk = device_add(out, PARTITION_DISK, 0);
        snprintf(disk->key, sizeof(disk->key), "disk");
        snprintf(disk->label, sizeof(disk->label), "disk");
    }
    if (rc == 0 && out->len == 0)
        rc = fail(err, ERR_USAGE,
                  "no devices: -g all takes those of this machine, "
                  "--devices 24GiB,24GiB says sizes, --cpu SIZE memory of the CPU");
    return rc;
}

void plan_devices_release(struct plan_device_list *devices)
{
    free(steal_ptr(&devices->at));
    devices->len = 0;
}
