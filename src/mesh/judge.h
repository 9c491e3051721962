/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds what is bad in the reports of the ranks. Pure.
 *
 * A way is one direction of a pair. Its speed is compared with the median of all ways of its kind (within a host, or
 * between hosts), if there are at least JUDGE_LEAST of them. Between hosts the speed is also compared with the speed
 * of the interfaces, but with no more than JUDGE_MBIT_MAX, because one connection cannot be faster.
 */
#pragma once

#include "doctor/finding.h"
#include "mesh/told.h"

enum {
    JUDGE_LEAST = 3,
    JUDGE_SLOW_PERCENT = 25,        /* of the median, or of the interface's speed; less is slow */
    JUDGE_SLOW_WITHIN_PERCENT = 10, /* the same within a host, where the cores decide */
    JUDGE_MBIT_MAX = 10000,         /* one connection on one core gets about so much */
    JUDGE_MBIT_UNKNOWN = 1000,      /* if the kernel gives no speed, as in virtual machines */
    JUDGE_LATE_TIMES = 5,           /* times the median: a longer round trip is late, */
    JUDGE_LATE_LEAST_US = 1000,     /* if it is longer than this; */
    JUDGE_LATE_US = 10000,          /* a round trip longer than this is always late */
    JUDGE_RESENT_PERCENT = 1,       /* of the segments; if more are sent again, the link is bad, */
    JUDGE_RESENT_LEAST = 20         /* if it was at least so many segments */
};

/* host_names[group of a rank]. */
struct mesh_hosts {
    const char *const *names;
    size_t n;
};

const char *mesh_host_name(const struct mesh_hosts *hosts, const struct told *told, uint32_t rank);
void mesh_judge(const struct told *told, const struct mesh_hosts *hosts, struct findings *out);

/* The speed of a way in MiB/s, from the report of its receiver; 0: not measured. */
double way_mib_s(const struct pair_told *of_receiver);
/* The report of rank `from` about its link to rank `to`; NULL: there is none. */
const struct pair_told *told_find(const struct told *told, uint32_t from, uint32_t to);
