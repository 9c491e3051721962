/* SPDX-License-Identifier: Apache-2.0
 *
 * Driver probe: how the helper process, the program muster-devices, queries the drivers, and the
 * lines in which it answers. The helper is the only process that queries drivers, because any query
 * may hang in the kernel.
 *
 *   muster-devices list KIND [detail] [brief=2,5] [gone=3]
 *                                                        every device of a kind, then the distances
 *   muster-devices watch PERIOD_MS [gone=1] KIND:UUID…   samples, until standard input ends
 *
 * The helper answers in lines on stdout, told apart by their first character:
 *   ?QUERY NUMBER   QUERY is about to be sent to that device (its position in a watch; -1: to none)
 *   {…}             a device, or a sample
 *   #A B DISTANCE   between two devices, by physical number
 *   -TEXT           there is no device, because …      !TEXT  the driver is there and fails
 *   .               the list, or a round of the watch, is complete
 * A `brief` device is asked only for its identity, a `gone` device is not asked at all: both hung
 * earlier.
 */
#pragma once

#include "device/probe.h"

struct driver_probe_ops;

struct driver_probe {
    const struct driver_probe_ops *ops;
    void *state;    /* of the vendor's functions */
    int number;     /* of the device that is being asked, for announcements */
    uint64_t round; /* watch: the last round that needed the driver */
    bool is_open, wants_details;
};

/* The functions of one vendor. The number of a device is its physical one. */
struct driver_probe_ops {
    /* Prepares for queries. False if there is no device or the driver fails; a line says why. */
    bool (*open)(struct driver_probe *probe);
    void (*close)(struct driver_probe *probe); /* also if open() failed or was not called */
    unsigned (*count)(struct driver_probe *probe);
    /*
     * Writes a line for the device, or a line for each instance that the device is partitioned
     * into.
     */
    void (*list)(struct driver_probe *probe, unsigned number, bool is_brief);
    void (*say_distance)(struct driver_probe *probe, unsigned a, unsigned b);
    /*
     * Fills in memory, load, heat, health and processes of a device that device_reset() has
     * cleared. False if the device is gone; `ill` then says why.
     */
    bool (*sample)(struct driver_probe *probe, const char *uuid, struct device *out);
};

void say_line(struct buf *line);
void say_text(const char *text);
void say_device(const struct device *device);
/* Writes a line for a device of which only the number is known. */
void say_gone(enum device_kind kind, unsigned physical, const char *why);
void announce(const struct driver_probe *probe, const char *query);

/*
 * Appends a process while there is room. is_ours: the pid is valid in this process's own namespace,
 * so /proc tells the owner and the name.
 */
void device_process_add(struct device *device, pid_t pid, uint64_t mem_bytes, bool is_ours);

/* Finds the jobs that the device's processes belong to (uses.c). */
void device_uses_find(const struct device *device, struct device_sample *out);

/* nvml_probe.c, amd_probe.c */
extern const struct driver_probe_ops nvml_probe_ops, amd_probe_ops;
