/* SPDX-License-Identifier: Apache-2.0
 *
 * A seat is a place for one worker: one device, a share of one (--workers-per-gpu), or several
 * near each other (--gpus-per-worker). A seat has a label, cores, and an environment that shows the
 * worker only its own devices.
 */
#pragma once

#include "base/env_list.h"
#include "device/device.h"
#include "device/spec.h"

enum {
    SEAT_DEVICES_MAX = 64
};
/*
 * A value of devices_per_worker: one seat has all devices, of whatever kind, and its workers divide
 * them among themselves.
 */
#define SEAT_HAS_ALL UINT32_MAX

enum visible_mode {
    VISIBLE_INDEX,
    VISIBLE_UUID
};

struct seat {
    uint32_t host;   /* position of its machine among the run's nodes; 0: this one */
    uint32_t number; /* among the seats of its machine */
    size_t n_devices;
    size_t devices[SEAT_DEVICES_MAX]; /* positions in the device list */
    uint32_t share;   /* which of the device's workers: 0 … workers_per_device-1 */
    char label[128];  /* "gpu_0", "cpu_3", "gpu_0_w1", "gpu_0+1": names log files */
    cpu_set_t cpus;   /* empty: leave the affinity alone */
    unsigned threads; /* OMP_NUM_THREADS: its share of the cores, at least 1 */
    bool is_whole;    /* SEAT_HAS_ALL: threads are all processors, and no OMP_NUM_THREADS is set */
};

struct seat_opts {
    uint32_t devices_per_worker; /* 0 = 1; SEAT_HAS_ALL */
    uint32_t workers_per_device; /* 0 = 1 */
};

/*
 * To be called before devices are looked for: ERR_USAGE if the devices that the spec names can
 * never be divided into seats of `group`.
 */
MUST_CHECK int seats_possible(const struct device_spec *spec, uint32_t group, struct err *err);
/*
 * Keeps as many chosen devices as fill whole seats of `group`. The devices left over, those far
 * from the others, are taken out of `chosen`, with a line each in `notes`. ERR_UNAVAILABLE if there
 * are not enough for one seat.
 */
MUST_CHECK int seats_fit(const struct device_list *devices, size_t *chosen, size_t *n_chosen,
                         uint32_t group, struct buf *notes, struct err *err);

/*
 * Divides the chosen devices into seats; seats_fit() has ensured that the seats use all of them.
 * The devices of one seat are the nearest by NVLink/PCIe/NUMA. *out is an array of *n_out, which
 * the caller frees. ERR_USAGE if both counts exceed 1.
 */
MUST_CHECK int seats_make(const struct device_list *devices, const size_t *chosen, size_t n_chosen,
                          const struct seat_opts *opts, struct seat **out, size_t *n_out,
                          struct err *err);

/* Adds the devices and CPUs of `more` to the seat; together at most SEAT_DEVICES_MAX devices. */
void seat_join(struct seat *seat, const struct seat *more);

/*
 * Appends "NAME=value" strings (each malloc'ed) for this seat: the visibility variable of its
 * vendor (vendor.h) and the vendor's other settings; "NAME" alone for a variable that must not be
 * set; MUSTER_DEVICE, MUSTER_DEVICE_INDEX, MUSTER_DEVICE_KIND; OMP_NUM_THREADS unless it is set in
 * the environment. A seat without devices shows none. The caller frees.
 */
void seat_environment(const struct seat *seat, const struct device_list *devices,
                      enum visible_mode mode, struct env_list *env);
