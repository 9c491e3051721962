/* SPDX-License-Identifier: Apache-2.0
 *
 * The devices of muster plan: those of this machine by -g, or sizes that were typed.
 */
#pragma once

#include "opt/cmd.h"
#include "plan/plan.h"

struct plan_device_list {
    struct plan_device *at; /* GPUs, then the CPU, then the disk */
    uint32_t len;
};

struct plan_devices_wish {
    const char *gpus;  /* SPEC; NULL: no devices of this machine */
    const char *sizes; /* "24GiB,2x80GiB=2"; NULL: none */
    uint64_t cpu_bytes;
    bool has_disk;
};

/* ERR_USAGE if there is no device, or if a size is malformed. Release *out also after a failure. */
MUST_CHECK int plan_devices_make(const struct app *app, const struct plan_devices_wish *wish,
                                 struct plan_device_list *out, struct err *err);
void plan_devices_release(struct plan_device_list *devices);
/* Refuses a malformed list when it is typed. */
MUST_CHECK int plan_sizes_check(const char *sizes, struct err *err);
