/* SPDX-License-Identifier: Apache-2.0
 *
 * The devices of a run while it lasts: samples of them, which are lost, whether their memory is back behind a
 * worker's end (core/memory.h), and that their locks are still ours. A seat uses all devices of its set: it goes on
 * when all of them have their memory back, and ends with the first that is lost.
 */
#pragma once

#include "base/log.h"
#include "device/probe.h"
#include "node/allocation.h"

struct shell;

/* All are called on the loop's thread. */
struct device_handlers {
    /* Position among the chosen devices, as in the sample. */
    void (*sampled)(void *context, const struct device_sample *sample);
    /* Position among the chosen devices; each time it is lost. */
    void (*lost)(void *context, uint32_t chosen);
    /* No device of the set is lost any more. `first`: position of its first among the chosen devices. */
    void (*back)(void *context, uint32_t first);
    /* A worker of this seat would find the memory that the last one had. */
    void (*memory_back)(void *context, uint32_t seat);
};

struct device_watch;

/* All pointers are borrowed until device_watch_free. */
struct device_watch *device_watch_new(struct shell *shell, struct allocation *allocation,
                                      const struct device_handlers *handlers, void *context);
/* Samples come from now on. Without them the run goes on. */
void device_watch_begin(struct device_watch *watch);
/* Before the loop is closed. */
void device_watch_end(struct device_watch *watch);
void device_watch_free(struct device_watch *watch);

/* A seat's worker was started; its process has ended; it is gone. */
void device_watch_started(struct device_watch *watch, uint32_t seat);
void device_watch_ended(struct device_watch *watch, uint32_t seat);
void device_watch_left(struct device_watch *watch, uint32_t seat);
/* To be called after an end, and now and then: `memory_back` for each seat that has it. */
void device_watch_check(struct device_watch *watch);
/* To be called every second: what others took of our devices, because a lock was deleted, is theirs. */
void device_watch_renew(struct device_watch *watch);

/* The set is not used any more because of a lost device: `back` is called when its samples show none lost. */
void device_watch_miss(struct device_watch *watch, uint32_t first);

/* Of all devices of a seat together, at the last samples. */
struct seat_memory {
    uint64_t used_bytes, total_bytes;
};
struct seat_memory device_watch_memory(const struct device_watch *watch, uint32_t number);
bool device_watch_seat_has_lost(const struct device_watch *watch, uint32_t seat);
/* The latest; mem_total_bytes 0: none yet, or it has no memory. `device`: of all. */
const struct device_sample *device_watch_sample(const struct device_watch *watch, size_t device);

/* "gpu 3+4 (gpu 4)": the set of devices whose first is this one of those chosen, and which of it are lost. */
void device_watch_name_set(const struct device_watch *watch, uint32_t first, struct buf *name,
                           struct buf *lost);
/* Which seats there are, into the log. */
void device_watch_log(const struct device_watch *watch);
