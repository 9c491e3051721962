/* SPDX-License-Identifier: Apache-2.0
 *
 * muster doctor --hosts: what the doctor finds on each host, and what differs between the hosts.
 */
#pragma once

#include "cli/host_look.h"

struct doctor_hosts {
    const struct allocation_wish *wish;
    struct look look; /* the doctor of each host */
    bool json, strict, quiet, wants_traits;
    bool compares; /* compare the traits of the hosts */
};

/* Returns an exit status: 1 if anything is not well. */
MUST_CHECK int doctor_hosts_run(struct app *app, const struct doctor_hosts *opts, struct err *err);
