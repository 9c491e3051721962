/* SPDX-License-Identifier: Apache-2.0
 *
 * status.json: a snapshot of a run, about once a second, for other hosts, scripts and `muster
 * status`. Replaced atomically and never synced: run.db is authoritative.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct worker_status {
    const char *label; /* "gpu 0" */
    const char *state; /* "loading", "works", "waits", "benched" … */
    uint64_t done;
    double rate;           /* items a second, lately */
    uint64_t mem_bytes;    /* of its devices; 0: unknown */
    const char *last_word; /* its last line on the console; may be NULL */
};

/* A host of --hosts. */
struct host_status {
    const char *name, *state; /* "up", "away" … (struct host_view) */
    uint64_t done;
    double rate;      /* items a second, lately */
    uint64_t away_ms; /* time since it was lost; 0: it is not away */
    uint64_t lost_ms; /* of the run's time, in all */
    uint64_t round_trip_ms, sent_bytes, received_bytes;
    uint64_t n_devices, n_workers;
    const char *why; /* why it was lost, or could not be had; NULL: neither */
};

struct run_status {
    const char *verb, *state, *host, *message; /* message may be NULL */
    pid_t pid;
    uint64_t items_total;
    bool is_total_known;
    uint64_t done, aside, running;
    uint64_t answered; /* and not committed yet: a kill would make them run again */
    double rate;       /* items a second, lately */
    int64_t eta_ms;    /* from now; negative: unknown */
    int64_t started_wall_ms, updated_wall_ms;
    const struct worker_status *workers;
    size_t n_workers;
    const struct host_status *hosts;
    size_t n_hosts; /* 0 without --hosts */

    void *owner; /* status_read: what holds the strings */
};

/* Strings are borrowed, NULL means unknown; text that is not UTF-8 gets replacement characters. */
MUST_CHECK int status_write(const char *dir, const struct run_status *status, struct err *err);
/* ERR_USAGE if there is none, ERR_DATA if it is malformed. Release it with status_release(). */
MUST_CHECK int status_read(const char *dir, struct run_status *out, struct err *err);
void status_release(struct run_status *status);

struct buf;
/* One host's object. */
void host_status_format(const struct host_status *host, struct buf *out);
/* The JSON of status_write on one line, without an LF. */
void status_format(const struct run_status *status, struct buf *out);
