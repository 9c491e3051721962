/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kernel has ended for lack of memory. It counts such kills for the whole machine, and for each memory
 * cgroup; it names the victim only in its log, which ordinary users and containers cannot read. So a count that
 * grew around a worker's death is evidence and no proof: core/verdict.h weighs it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct oom_counts {
    bool knows_own; /* there is a count for our own cgroup, in which our workers are as well */
    uint64_t own, host;
};

/* Now. MUSTER_SYSFS names another /sys (tests). */
struct oom_counts oom_counts_read(void);
/* The limit of our own cgroup, or the machine's memory if that is less. */
uint64_t oom_memory_bytes(void);

/* The counts of some moment 15 to 30 s ago: the death of a large process takes a while to be seen. */
struct oom_watch {
    struct oom_counts before, recent;
    uint64_t recent_ms;
};

void oom_watch_begin(struct oom_watch *watch, uint64_t now_ms);
/* To be called every now and then. */
void oom_watch_look(struct oom_watch *watch, uint64_t now_ms);
/* Kills since that moment. */
struct oom_counts oom_watch_kills(const struct oom_watch *watch);
/* One of them is known now: it says nothing about other deaths. */
void oom_watch_explained(struct oom_watch *watch);
