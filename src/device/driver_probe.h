/* SPDX-License-Identifier: Apache-2.0
 *
 * Driver probe: how the helper process asks the driver of one vendor, and the lines it answers in.
 * The helper is the only process that asks drivers, because any query may hang in the kernel.
 *
 *   device-helper list KIND [detail] [brief=2,5] [gone=3]
 *                                                       every device of a kind, then the distances
 *   device-helper watch PERIOD_MS [gone=1] KIND:UUID…   samples, until standard input ends
 *
 * It answers in lines on stdout, told apart by their first character:
 *   ?QUERY NUMBER   about to ask that of that device (its position in a watch; -1: none)
 *   {…}             a device, or a sample
 *   #A B DISTANCE   between two devices, by physical number
 *   -TEXT           there is no device, because …      !TEXT  the driver is there and fails
 *   .               the list, or a round of the watch, is complete
 * Of a `brief` device only the identity is asked, of a `gone` one nothing: it hung earlier.
 */
#pragma once

#include "device/device.h"

struct driver_probe_ops;

struct driver_probe {
    const struct driver_probe_ops *ops;
    void *state;    /* of the vendor's functions */
    int number;     /* of the device that is being asked, for announcements */
    uint64_t round; /* of a watch: the last in which it was to be opened */
    bool is_open, wants_details;
};

/* The functions of one vendor. The number of a device is its physical one. */
struct driver_probe_ops {
    /* Makes ready. False, after a line that says why: there is no device, or the driver fails. */
    bool (*open)(struct driver_probe *probe);
    void (*close)(struct driver_probe *probe); /* also after an open that failed, or never was */
    unsigned (*count)(struct driver_probe *probe);
    /* Says the device, or the instances that it is partitioned into. */
    void (*list)(struct driver_probe *probe, unsigned number, bool is_brief);
    void (*say_distance)(struct driver_probe *probe, unsigned a, unsigned b);
    /* Memory, load, heat and health into a device that was reset. False: it is gone, `ill` says why. */
    bool (*sample)(struct driver_probe *probe, const char *uuid, struct device *out);
};

void say_line(struct buf *line);
void say_text(const char *text);
void say_device(const struct device *device);
/* A device that has no more to say than its number. */
void say_gone(enum device_kind kind, unsigned physical, const char *why);
void announce(const struct driver_probe *probe, const char *query);

/* Everything unknown. */
void device_reset(struct device *device, enum device_kind kind, int physical);
/* Appended while there is room. is_ours: the pid counts in this process's own namespace, so that
 * /proc knows its owner and name. */
void device_process_add(struct device *device, pid_t pid, uint64_t mem_bytes, bool is_ours);

/* What the hidden verb runs; argv[0] is its mode, `list` or `watch`. Returns an exit status. */
int device_helper_main(int argc, char **argv);
