/* SPDX-License-Identifier: Apache-2.0
 *
 * Watches the devices of a run: takes samples, notices that a device is lost, or that memory is free again after a
 * worker's end (core/memory.h), and checks that the locks are still ours. A seat uses all devices of its set: a new
 * worker starts when the memory of all of them is free again, and the loss of one device is the loss of the set.
 */
#pragma once

#include "base/log.h"
#include "device/probe.h"
#include "node/allocation.h"

struct shell;

/* A host is lost with all its devices, and is asked for again, or given up; or it has come back. */
enum host_change {
    HOST_LOST,
    HOST_GIVEN_UP,
    HOST_BACK
};

/* All are called on the loop's thread. NULL: not called. */
struct device_handlers {
    /* Position among the chosen devices, as in the sample. */
    void (*sampled)(void *context, const struct device_sample *sample);
    /*
     * A device is lost; `chosen`: its position among the chosen devices. is_awaited: it is lost with its host, which
     * is asked for again.
     */
    void (*lost)(void *context, uint32_t chosen, bool is_awaited);
    /* No device of the set is lost any more. `first`: position of its first among the chosen devices. */
    void (*back)(void *context, uint32_t first);
    /* A new worker on this seat would find as much free memory as the last one had. */
    void (*memory_back)(void *context, uint32_t seat);
    /* Further devices and seats are in the allocation: those of hosts[host]. */
    void (*came)(void *context, uint32_t host);
    /* The set is given back: its workers finish their items; `now`: they are ended. */
    void (*given_back)(void *context, uint32_t first, bool now);
    /*
     * The same for hosts[host] as a whole, which may have no device. Called before the handlers of its devices, or
     * after them if the host is back.
     */
    void (*host_changed)(void *context, uint32_t host, enum host_change change);
    void (*host_given_back)(void *context, uint32_t host, bool now);
    /* Whether further seats may come. */
    void (*awaited)(void *context, bool are_awaited);
};

struct device_watch;

/* All pointers are borrowed until device_watch_free. */
struct device_watch *device_watch_new(struct shell *shell, struct allocation *allocation,
                                      const struct device_handlers *handlers, void *context);
/* Starts the samples, and calls the handlers from now on. If samples cannot be had, the run goes on without them. */
void device_watch_begin(struct device_watch *watch);
/* Call it before the loop is closed. */
void device_watch_end(struct device_watch *watch);
void device_watch_free(struct device_watch *watch);
/* Stops watching the devices of this machine. */
void device_watch_leave(struct device_watch *watch);

/* The seat's worker was started; its process has ended; all its descendants have ended. */
void device_watch_started(struct device_watch *watch, uint32_t seat);
void device_watch_ended(struct device_watch *watch, uint32_t seat);
void device_watch_left(struct device_watch *watch, uint32_t seat);
/* The last worker on the seats of the allocation's hosts[host] has ended for good: its memory is not waited for. */
void device_watch_vacated(struct device_watch *watch, uint32_t host);
/* On the machine of an agent, when a worker has ended: takes samples soon, since the head waits for them. */
void device_watch_hurry(struct device_watch *watch);
/*
 * Is a sample of the chosen device to be recorded? About one a second is; more samples come while memory is waited
 * for.
 */
bool device_watch_row_is_due(struct device_watch *watch, size_t device);
/* To be called after a worker's end, and ten times a second: calls `memory_back` for each seat that is ready. */
void device_watch_check(struct device_watch *watch);
/* To be called every second: a device whose lock file was deleted and which another run has locked is lost to us. */
void device_watch_renew(struct device_watch *watch);

/* Takes the sample of another host's device; sample->device counts among the devices of that host. */
void device_watch_sampled(struct device_watch *watch, uint32_t host,
                          const struct device_sample *sample);
void device_watch_host(struct device_watch *watch, uint32_t host, enum host_change change);

/* Devices and seats were added to the allocation: those of hosts[host], which are watched where they are. */
void device_watch_came(struct device_watch *watch, uint32_t host);
/* All sets of hosts[host] are given back, when the workers have finished their items; `now`: they are ended. */
void device_watch_give_back(struct device_watch *watch, uint32_t host, bool now);
/* Whether further seats may come. */
void device_watch_await(struct device_watch *watch, bool are_awaited);

/* The set is out of use because of a lost device; `back` is called when the samples show none lost. */
void device_watch_miss(struct device_watch *watch, uint32_t first);

/* Tells the guard of the seat's worker. Samples find the worker's memory by it. */
void device_watch_guarded(struct device_watch *watch, uint32_t seat, pid_t guard_pid);
/*
 * The memory that the processes below a guard hold on a device (a position among all). If the driver does not tell it
 * and these processes are alone on the device: what is in use beyond what was in use before them. Otherwise 0: it is
 * not known.
 */
uint64_t device_watch_own(const struct device_watch *watch, size_t device, pid_t guard_pid,
                          bool are_alone);
/* The sums over all devices of a seat, by the latest samples; used_bytes: of its worker; 0: not known. */
struct seat_memory {
    uint64_t used_bytes, total_bytes;
};
struct seat_memory device_watch_memory(const struct device_watch *watch, uint32_t number);
bool device_watch_seat_has_lost(const struct device_watch *watch, uint32_t seat);
/* Is the seat's host lost? */
bool device_watch_seat_is_away(const struct device_watch *watch, uint32_t seat);
/* The latest sample; mem_total_bytes 0: none yet, or the device has no memory. `device`: position among all. */
const struct device_sample *device_watch_sample(const struct device_watch *watch, size_t device);

/* name: "gpu 3+4", the set whose first device has position `first` among the chosen ones; lost: " (gpu 4)". */
void device_watch_name_set(const struct device_watch *watch, uint32_t first, struct buf *name,
                           struct buf *lost);
/* Logs the seats. */
void device_watch_log(const struct device_watch *watch);
