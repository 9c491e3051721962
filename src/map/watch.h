/* SPDX-License-Identifier: Apache-2.0
 *
 * The run's devices while it lasts. A seat uses the devices of one set (feed_config.first_of): it goes on
 * when all of them have their memory back, and ends with the first that is lost.
 */
#pragma once

#include "base/buf.h"
#include "core/feed.h"
#include "device/probe.h"

struct session;
struct seat;

/* One of the run's devices, as it is now. */
struct watched {
    struct device_sample sample; /* the latest; mem_total_bytes 0: none yet, or it has none */
    bool is_lost;
};

/* What the devices' probe said, until there are samples. */
void watched_begin(struct session *s);
void devices_watch(struct session *s);
void seats_log(struct session *s);

/* Of all devices of a seat together. */
struct seat_memory {
    uint64_t used_bytes, total_bytes;
};
struct seat_memory seat_memory(const struct session *s, const struct seat *seat);
bool seat_has_lost_device(const struct session *s, const struct seat *seat);
/* The set of devices whose first is that one of those chosen: it is given up. */
void bench_log(struct session *s, uint32_t first, const char *why);

/* To be called every second: what others took of our devices, because a lock was deleted, is theirs. */
void locks_check(struct session *s);

/* EV_MEM_BACK for each seat whose devices have it: to be asked after a death, and now and then. */
void memory_check(struct session *s);
