/* SPDX-License-Identifier: Apache-2.0
 *
 * What differs between the hosts of one run. Pure.
 */
#pragma once

#include "doctor/finding.h"
#include "doctor/trait.h"

struct compared_host {
    const char *name;
    struct traits traits;
    int64_t clock_ahead_ms; /* its clock minus the head's, within a round trip */
    uint64_t round_trip_ms;
};

/* Adds a finding for each trait that any host has, and one for the clocks. A difference is a warning or a failure. */
void hosts_compare(const struct compared_host *hosts, size_t n_hosts, struct findings *out);
/* Adds the names of the hosts whose flag is set: "lab1, lab2"; if they are many, "lab1, lab2, lab3 and 61 others". */
void host_names_add(const struct compared_host *hosts, const bool *flags, size_t n_hosts,
                    struct buf *out);
