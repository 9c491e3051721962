/* SPDX-License-Identifier: Apache-2.0
 *
 * The limits that control groups, version 1 and 2, set for this process. The limits of the groups
 * above hold as well, so each group is read, from our own up to the mount. In a container the path
 * may name groups that cannot be seen; they are skipped.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct cgroup_facts {
    uint64_t mem_max_bytes, pids_max; /* 0: no limit */
    double cpus_max;                  /* 0: no quota */
    bool is_ours;                     /* we may make groups below our own */
};

/* `groups`: usually /proc/self/cgroup; `mounts`: usually /sys/fs/cgroup. *out: all zero before. */
void cgroup_gather(const char *groups, const char *mounts, struct cgroup_facts *out);
