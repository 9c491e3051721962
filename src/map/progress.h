/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "device/seat.h"
#include "ui/progress.h"

struct host_status;
struct session;

/* What is shown at one moment; arrays have one element for each seat. */
struct snapshot {
    struct progress_total total;
    struct progress_worker *workers;
    char (*labels)[sizeof(((struct seat *)0)->label)];
    char (*words)[32];
};

void snapshot_take(struct session *s, struct snapshot *out);
void snapshot_release(struct snapshot *shot);
/* One for each host of --hosts, in the list's order; free() it. NULL, and 0, without. Names are borrowed. */
struct host_status *snapshot_hosts(const struct session *s, const struct snapshot *shot,
                                   size_t *n_hosts);
