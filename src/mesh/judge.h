/* SPDX-License-Identifier: Apache-2.0
 *
 * What is bad about what the ranks saw. Pure.
 *
 * A way is one direction of a pair. Its speed is compared with the median of all ways of its kind (within a host, or
 * between hosts), of which there must be JUDGE_LEAST, and between hosts with the speed of the interfaces, of which one
 * connection can have so much only (JUDGE_MBIT_MAX).
 */
#pragma once

#include "doctor/finding.h"
#include "mesh/told.h"

enum {
    JUDGE_LEAST = 3,
    JUDGE_SLOW_PERCENT = 25,        /* of the median, or of the interface's speed: less is slow */
    JUDGE_SLOW_WITHIN_PERCENT = 10, /* the same within a host, where it is its cores that decide */
    JUDGE_MBIT_MAX = 10000,     /* one connection on one core gets about so much on faster links */
    JUDGE_MBIT_UNKNOWN = 1000,  /* where the kernel tells no speed, as in most virtual machines */
    JUDGE_LATE_TIMES = 5,       /* the median: a longer round trip is late, */
    JUDGE_LATE_LEAST_US = 1000, /* if it is longer than this; */
    JUDGE_LATE_US = 10000,      /* longer than this it always is */
    JUDGE_RESENT_PERCENT = 1,   /* of the segments: more is a bad link, */
    JUDGE_RESENT_LEAST = 20     /* if it was so many */
};

/* host_names[group of a rank]. */
struct mesh_hosts {
    const char *const *names;
    size_t n;
};

const char *mesh_host_name(const struct mesh_hosts *hosts, const struct told *told, uint32_t rank);
void mesh_judge(const struct told *told, const struct mesh_hosts *hosts, struct findings *out);

/* The speed of a way whose receiver told this, in MiB/s; 0: not measured. */
double way_mib_s(const struct pair_told *of_receiver);
/* What a rank told of its link to another one; NULL: nothing. */
const struct pair_told *told_find(const struct told *told, uint32_t from, uint32_t to);
