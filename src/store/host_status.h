/* SPDX-License-Identifier: Apache-2.0
 *
 * hosts.json: the hosts of a run, about once a second, and what became of the last orders about them. Replaced
 * atomically and never synced. A run that uses this machine alone has none.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Strings are borrowed; NULL means unknown. */
struct host_status {
    const char *name;
    const char *state; /* "up", "starts", "away", "drains", "given up", "left" */
    const char *why;   /* the last loss or failure */
    uint64_t n_devices, n_workers, items_done;
    uint64_t round_trip_ms; /* 0: less than one */
};

struct order_answer {
    const char *order;   /* its name */
    const char *refused; /* why; NULL: it was carried out */
};

struct hosts_status {
    const struct host_status *hosts;
    size_t n_hosts;
    const struct order_answer *answers;
    size_t n_answers;

    void *owner; /* hosts_status_read: what holds the strings */
};

struct buf;
/* One line, without an LF. */
void hosts_status_format(const struct hosts_status *status, struct buf *out);
MUST_CHECK int hosts_status_write(const char *dir, const struct hosts_status *status,
                                  struct err *err);
/* ERR_USAGE if there is none, ERR_DATA if it is malformed. Release it with hosts_status_release(). */
MUST_CHECK int hosts_status_read(const char *dir, struct hosts_status *out, struct err *err);
void hosts_status_release(struct hosts_status *status);
/* For a run that has no other hosts. */
void hosts_status_drop(const char *dir);
