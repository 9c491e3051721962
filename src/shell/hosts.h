/* SPDX-License-Identifier: Apache-2.0
 *
 * The hosts of a run: connects to those of --hosts, makes one allocation of all their devices, and connects again to a
 * host that was lost. A lost host is the loss of its devices (device_watch.h); one that is reached only while the run
 * lasts adds its devices to those that are there.
 */
#pragma once

#include "node/allocation.h"

struct shell;
struct hosts;

enum {
    HOST_TIMEOUT_MS = 30000
};

/*
 * Takes the devices and opens shell->node, with or without --hosts. May take as long as the hosts need to answer. A
 * host that cannot be had is logged, and the others go on. Returns an exit status if a signal comes meanwhile.
 * ERR_UNAVAILABLE, ERR_USAGE.
 */
MUST_CHECK int shell_seats_take(struct shell *shell, const struct allocation_wish *wish,
                                struct allocation *allocation, struct str scratch, struct err *err);
/* Ten times a second. */
void hosts_tick(struct hosts *hosts);
/* The set whose first device is number `first` of those chosen was given back, and its last worker is gone. */
void hosts_vacated(struct hosts *hosts, uint32_t first);
/* Leaves all hosts, and waits until their agents have ended. The workers must have ended. */
void hosts_leave(struct hosts *hosts);
void hosts_free(struct hosts *hosts);
