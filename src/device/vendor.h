/* SPDX-License-Identifier: Apache-2.0
 *
 * The makers of devices, a row each: how theirs are found and asked, and which variables show a
 * program some of them and not the others. A new vendor is a row here, a kind in device.h and a probe.
 *
 * Devices of several vendors on one machine have ids that count through, in the order of the rows.
 */
#pragma once

#include "device/driver_probe.h"
#include "device/visible.h"

enum {
    VISIBLE_RULES_MAX = 2
};

struct vendor {
    enum device_kind kind;
    const char *name, *link; /* "NVIDIA", "NVLink" */
    bool (*is_there)(void);  /* a driver to ask: a few access() calls, no process */
    const struct driver_probe_ops *probe_ops;
    const char *trouble; /* what to look for when the driver does not answer */

    /* How a list of devices is read that was set when muster started, the outermost rule first. */
    struct visible_rule rules[VISIBLE_RULES_MAX];
    /*
     * A worker is shown its devices by exactly one variable. Those that would choose before or after
     * it, or that mean the same, are taken out of the worker's environment.
     */
    const char *shows;
    const char *hides;   /* "NAME=value" that shows none */
    const char *setting; /* "NAME=value" set beside it, or NULL */
    const char *const *clears;
};

extern const struct vendor vendors[];
extern const size_t n_vendors;

/* NULL for a kind that nobody makes: CPU slots, simulated devices. */
const struct vendor *vendor_of(enum device_kind kind);

/* What the rows point to: nvml_probe.c, amd_probe.c. */
extern const struct driver_probe_ops nvml_probe_ops, amd_probe_ops;
bool nvml_is_there(void);
bool amd_is_there(void);
