/* SPDX-License-Identifier: Apache-2.0
 *
 * The devices that a run uses, and their seats. A seat is for one worker: one device, a share of one, or a set of
 * several (device/seat.h). The devices of this machine are locked against other runs of muster; those of another one
 * are locked by the agent there, which has an allocation of its own.
 */
#pragma once

#include "base/log.h"
#include "base/texts.h"
#include "device/lock.h"
#include "device/probe.h"
#include "device/seat.h"

#define WISH_NO_DEVICES "none"
#define HOSTS_ALL       UINT64_MAX

struct allocation_wish {
    const char *gpus;                          /* SPEC (device/spec.h); NULL: free devices */
    uint64_t gpus_per_worker, workers_per_gpu; /* 0: one; gpus_per_worker may be SEAT_HAS_ALL */
    uint64_t wait_ms;                          /* for devices to become free */
    enum visible_mode visible;
    /* Other machines (shell/hosts.h). */
    const char *hosts, *via, *agent_path; /* NULL: none; ssh; the path of this program */
    const char *slurm_args;               /* for the jobs of slurm:N; NULL: none */
    const char *program;      /* of the workers; each host must have it; NULL: unknown */
    const char *script;       /* of the workers, a file here; likewise; NULL: unknown */
    const struct texts *sent; /* NAME or NAME=VALUE: sent to hosts in any case; NULL: none */
    bool without_devices;     /* gpus is WISH_NO_DEVICES, and makes one seat without a device */
    uint64_t hosts_min, host_timeout_ms; /* 0: one, HOSTS_ALL; 0: the default */
    bool grows;                          /* devices that become free are taken as well */
    bool asks_presence; /* agents say when nothing is left of earlier ones (struct wire_take) */
    bool is_plan;       /* nothing will run: no Slurm job is asked for */
};

/*
 * The holder of the devices: its program, the run that other users are told of (NULL: not known yet), its log, and
 * its limit.
 */
struct allocation_holder {
    const char *self_path, *run_id;
    struct log *log;
    uint64_t limit_ms, limit_from_ms; /* of the run, and its begin (clock_now_ms); 0: no limit */
};

/* Devices of one machine that were taken together, and the seats on them. */
struct allocation_host {
    char name[64]; /* in labels and messages; "": this machine, if it is the only one */
    uint32_t node; /* position of the machine among the run's nodes; 0: this one */
    uint32_t first_chosen, n_chosen, first_seat, n_seats;
    uint64_t round_trip_ms; /* 0: less than one */
    uint32_t n_sets_left;   /* sets that may still have a worker */
    uint8_t *distance;      /* of its chosen devices: [n_chosen * n_chosen]; NULL: not known */
};

/* What another machine has taken: all its devices are chosen; seats have positions among them. */
struct allocation_part {
    const char *name; /* unique among the hosts */
    uint32_t node;
    const struct device_list *devices;
    const struct seat *seats;
    size_t n_seats;
    uint32_t first_number; /* of its first seat, among those of the machine */
    uint64_t round_trip_ms;
};

struct allocation {
    struct allocation_host *hosts;
    size_t n_hosts;                      /* hosts[0] is this machine, with or without seats */
    uint32_t n_seats_max, n_devices_max; /* limits of growth (allocation_spare) */
    struct device_list devices;          /* those of this machine, then those that were added */
    size_t n_own_devices;                /* of this machine, as the start found them */
    size_t *chosen, n_chosen; /* positions in `devices`; those of a host stand together */
    struct device_locks locks;
    struct seat *seats;
    uint32_t n_seats;
    /* Positions in `chosen`: device_of a seat, its first device; first_of a chosen device, the first of its seat. */
    uint32_t *device_of, *first_of;
    enum visible_mode visible;
    char *python_dir; /* the folder with muster.py; NULL: not found */
};

/* Checks --host-timeout: a host may say nothing for a second, and with less it would be lost again and again. */
MUST_CHECK int host_timeout_check(const char *value, struct err *err);
/* ERR_USAGE for options that contradict each other, whatever devices there are. */
MUST_CHECK int allocation_wish_check(const struct allocation_wish *wish, struct err *err);
/* May take as long as wish->wait_ms. Messages for the user are logged. ERR_UNAVAILABLE, ERR_USAGE; ERR_TIMEOUT if the
 * limit for the run is over before the devices are free. */
MUST_CHECK int allocation_take(struct allocation *allocation, const struct allocation_wish *wish,
                               const struct allocation_holder *holder, struct err *err);
/* An allocation without devices of this machine, to which those of other hosts are added. */
void allocation_begin(struct allocation *allocation, const struct allocation_wish *wish,
                      const char *self_path);
/* Sets how much may be added later: 1,024 seats, or as many as there are. Unused room costs nothing. */
void allocation_spare(struct allocation *allocation);
bool allocation_has_room(const struct allocation *allocation, size_t n_devices, size_t n_seats);
/*
 * Adds the devices and seats of another host. Returns its position in `hosts`. Pointers to seats and devices are not
 * valid any more.
 */
uint32_t allocation_add_host(struct allocation *allocation, const struct allocation_part *part);
/*
 * Takes further devices of this machine, as many of `devices` as make whole seats, and adds them. ERR_UNAVAILABLE if
 * others have locked one of them, or they are too few. *position: in `hosts`.
 */
MUST_CHECK int allocation_grow(struct allocation *allocation, const struct device_list *devices,
                               const struct allocation_wish *wish, const char *run_id,
                               uint32_t *position, struct err *err);
/* The first seat of the set whose first device has position `first` among the chosen ones. */
uint32_t allocation_seat_of(const struct allocation *allocation, uint32_t first);
/* The position in `hosts` of a chosen device; that of a seat is its first device's (device_of). */
uint32_t allocation_host_of(const struct allocation *allocation, uint32_t chosen);
/* The position in `chosen` of a device. */
uint32_t allocation_position(const struct allocation *allocation, size_t device);
/* Fails with ERR_USAGE: the wish is WISH_NO_DEVICES, and workers need a device. */
int allocation_no_seat(struct err *err);
/* Adds how a chosen device is called in messages: "gpu 0", on another host "node1 gpu 0". */
void allocation_label_add(const struct allocation *allocation, uint32_t chosen, struct buf *out);
void allocation_release(struct allocation *allocation);
/* For --dry-run: a line for each seat, with its devices, its threads and the command; NULL: without. */
void seats_print(const struct allocation *allocation, const char *const *command);
