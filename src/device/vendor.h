/* SPDX-License-Identifier: Apache-2.0
 *
 * The vendors of devices, one row each: how their devices are found and queried, and which
 * variables restrict a program to some of them. A new vendor is a row here, a kind in device.h and
 * a probe in muster-devices (driver_probe.h).
 *
 * On a machine with devices of several vendors, indices run through all of them in the order of the
 * rows.
 */
#pragma once

#include "device/device.h"
#include "device/visible.h"

enum {
    VISIBLE_RULES_MAX = 2
};

struct vendor {
    enum device_kind kind;
    const char *name, *link; /* "NVIDIA", "NVLink" */
    bool (*is_there)(void);  /* is there a driver to query? A few access() calls, no process */
    const char *trouble;     /* what the user should check when the driver does not answer */

    /*
     * How to read the lists of devices that were set when muster started; the outermost list first.
     */
    struct visible_rule rules[VISIBLE_RULES_MAX];
    /*
     * Exactly one variable, `shows`, names a worker its devices. Variables that would select
     * devices before or after it, or that mean the same, are removed from the worker's environment:
     * `clears`.
     */
    const char *shows;
    const char *hides;   /* "NAME=value" that hides all devices */
    const char *setting; /* "NAME=value" that is set beside it; NULL: none */
    const char *const *clears;
};

extern const struct vendor vendors[];
extern const size_t n_vendors;

/* The vendor of this kind; NULL for CPU slots and simulated devices. */
const struct vendor *vendor_of(enum device_kind kind);

bool nvml_is_there(void);
bool amd_is_there(void);
