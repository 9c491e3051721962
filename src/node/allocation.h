/* SPDX-License-Identifier: Apache-2.0
 *
 * The devices of this machine that a run uses, locked against other runs of muster, and their seats. A seat is for
 * one worker: one device, a share of one, or a set of several (device/seat.h).
 */
#pragma once

#include "base/log.h"
#include "device/lock.h"
#include "device/probe.h"
#include "device/seat.h"

struct allocation_wish {
    const char *gpus;                          /* SPEC (device/spec.h); NULL: free devices */
    uint64_t gpus_per_worker, workers_per_gpu; /* 0: one */
    uint64_t wait_ms;                          /* for devices to become free */
};

/* Who takes the devices: the program, the run named to others (NULL: not known yet), and its log. */
struct allocation_holder {
    const char *self_path, *run_id;
    struct log *log;
};

struct allocation {
    struct device_list devices; /* all of the machine */
    size_t *chosen, n_chosen;   /* positions among them */
    struct device_locks locks;
    struct seat *seats;
    uint32_t n_seats;
    /* Positions in `chosen`: device_of a seat, its first device; first_of a chosen device, the first of its seat. */
    uint32_t *device_of, *first_of;
};

/* May take as long as wish->wait_ms. Messages for the user are logged. ERR_UNAVAILABLE, ERR_USAGE. */
MUST_CHECK int allocation_take(struct allocation *allocation, const struct allocation_wish *wish,
                               const struct allocation_holder *holder, struct err *err);
/* The environment of muster, with the variables that show a worker on this seat its devices and its number. */
void allocation_environment(const struct allocation *allocation, uint32_t seat,
                            enum visible_mode visible, struct env_list *env);
/* The position in `chosen` of a device. */
uint32_t allocation_position(const struct allocation *allocation, size_t device);
void allocation_release(struct allocation *allocation);
