/* SPDX-License-Identifier: Apache-2.0
 *
 * The devices that a SPEC names, for verbs that only look at devices.
 */
#pragma once

#include "device/device.h"
#include "opt/cmd.h"

struct chosen_devices {
    struct device_list list;
    size_t at[DEVICES_MAX]; /* positions in the list */
    size_t len;
};

/* ERR_USAGE, ERR_UNAVAILABLE. Release also after a failure. */
MUST_CHECK int chosen_devices_find(const struct app *app, const char *spec,
                                   struct chosen_devices *out, struct err *err);
void chosen_devices_release(struct chosen_devices *chosen);
