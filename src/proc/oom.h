/* SPDX-License-Identifier: Apache-2.0
 *
 * How many processes the kernel has killed for lack of memory. It counts such kills for the whole
 * machine and for each memory cgroup, but names the victim only in its log, which ordinary users
 * and containers cannot read. So a count that grew around a worker's death is evidence, not proof;
 * core/verdict.h weighs it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct oom_counts {
    bool knows_own; /* there is a count for our own cgroup, which our workers share */
    uint64_t own, host;
};

/* The counts at this moment. MUSTER_SYSFS names another /sys (tests). */
struct oom_counts oom_counts_read(void);
/* The limit of our own cgroup, or the machine's memory if that is less. */
uint64_t oom_memory_bytes(void);

/*
 * `before` holds the counts of a moment 15 to 30 s ago, because the death of a large process is
 * seen late.
 */
struct oom_watch {
    struct oom_counts before, recent;
    uint64_t recent_ms;
};

void oom_watch_begin(struct oom_watch *watch, uint64_t now_ms);
/* To be called repeatedly; it reads the counts every 15 s. */
void oom_watch_look(struct oom_watch *watch, uint64_t now_ms);
/* The kills since `before` was read. */
struct oom_counts oom_watch_kills(const struct oom_watch *watch);
/*
 * Call it when one of those kills has been assigned to a death: other deaths are judged without
 * that kill.
 */
void oom_watch_explained(struct oom_watch *watch);
