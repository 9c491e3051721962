/* SPDX-License-Identifier: Apache-2.0
 *
 * The devices of this machine that a run has, locked against other musters, and their seats: a seat is for one
 * worker, on one device, on a share of one, or on a set of several (device/seat.h).
 */
#pragma once

#include "base/log.h"
#include "device/lock.h"
#include "device/probe.h"
#include "device/seat.h"

struct allocation_wish {
    const char *gpus;                          /* SPEC (device/spec.h); NULL: what is free */
    uint64_t gpus_per_worker, workers_per_gpu; /* 0: one */
    uint64_t wait_ms;                          /* for devices to become free */
};

/* Who asks: the program, the run that others are told of (NULL: not known yet), and its log. */
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
    /* Positions in `chosen`: of each seat the first of its devices; of each chosen device the first of its seat's. */
    uint32_t *device_of, *first_of;
};

/* May take as long as the wish says. What the user should know of is logged. ERR_UNAVAILABLE, ERR_USAGE. */
MUST_CHECK int allocation_take(struct allocation *allocation, const struct allocation_wish *wish,
                               const struct allocation_holder *holder, struct err *err);
/* What a worker in this seat is to know of its devices and its place among all, in what muster was started with. */
void allocation_environment(const struct allocation *allocation, uint32_t seat,
                            enum visible_mode visible, struct env_list *env);
/* Position in `chosen` of one of the devices. */
uint32_t allocation_position(const struct allocation *allocation, size_t device);
void allocation_release(struct allocation *allocation);
