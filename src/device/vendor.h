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
    bool (*is_there)(void);  /* has a driver to ask: a few access() calls, no process */
    const char *trouble;     /* what to look for when the driver does not answer */

    /* How the lists of devices are read that were set when muster started; the outermost first. */
    struct visible_rule rules[VISIBLE_RULES_MAX];
    /*
     * Exactly one variable, `shows`, names a worker its devices. Variables that would select
     * devices before or after it, or that mean the same, are removed from the worker's environment:
     * `clears`.
     */
    const char *shows;
    const char *hides;   /* "NAME=value" that hides all devices */
    const char *setting; /* "NAME=value" set beside it, or NULL */
    const char *const *clears;
};

extern const struct vendor vendors[];
extern const size_t n_vendors;

/* NULL for a kind without a vendor: CPU slots, simulated devices. */
const struct vendor *vendor_of(enum device_kind kind);

bool nvml_is_there(void);
bool amd_is_there(void);
