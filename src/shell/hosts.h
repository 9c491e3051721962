/* SPDX-License-Identifier: Apache-2.0
 *
 * The hosts of a run: connects to those of --hosts, makes one allocation of all their devices, and connects again to a
 * host that was lost. A lost host is the loss of its devices (device_watch.h); one that is reached only while the run
 * lasts adds its devices to those that are there.
 */
#pragma once

#include "node/allocation.h"
#include "node/link.h"

struct shell;
struct hosts;

/*
 * Takes the devices and opens shell->node, with or without --hosts. May take as long as the hosts need to answer. A
 * host that cannot be had is logged, and the others go on. Returns an exit status if a signal comes meanwhile.
 * ERR_UNAVAILABLE, ERR_USAGE.
 */
MUST_CHECK int shell_seats_take(struct shell *shell, const struct allocation_wish *wish,
                                struct allocation *allocation, struct err *err);
/* How a host fares. */
struct host_view {
    /* State: "up"; "away", lost and asked for again; "missing", asked for and never had; "draining", "left", given
     * back; "given up". */
    const char *name, *state;
    uint32_t node;    /* its position among the run's nodes, as in its seats */
    uint32_t place;   /* in the list of --hosts */
    const char *gpus; /* SPEC that it has in the list; NULL: none */
    uint64_t away_ms; /* since it was lost; 0: the run has not lost it */
    uint64_t lost_ms; /* of the run, without a connection that it had before */
    uint64_t round_trip_ms;
    struct link_bytes n_bytes;
    uint32_t n_devices, n_seats; /* that are part of the run */
    const char *why;             /* it was lost, or could not be had; NULL: neither */
};
/* This machine, if it is one of --hosts, and the others in the order of the list; 0 without other hosts (NULL). */
size_t hosts_count(const struct hosts *hosts);
struct host_view hosts_view(const struct hosts *hosts, size_t number);
/* The same as state "up"; cheap. */
bool hosts_is_up(const struct hosts *hosts, size_t number);
/* To be called when the device watch has begun: hosts that were lost before are lost devices now. */
void hosts_losses_tell(struct hosts *hosts);
/* Ten times a second. */
void hosts_tick(struct hosts *hosts);
/* While the loop cannot turn: no host is lost for that, and no agent misses the head. */
void hosts_say_alive(struct hosts *hosts);
/* Are orders to be carried out now? */
bool hosts_take_orders(const struct hosts *hosts);
/* Carries out a line of an order: "add LIST", "drop HOST", "drop-now HOST". */
MUST_CHECK int hosts_order(struct hosts *hosts, struct str line, struct err *err);
/* Tells the device watch, if it has begun, whether further seats may come. */
void hosts_arrivals_tell(const struct hosts *hosts);
/* One machine, by its position among the run's nodes. */
struct host_machine {
    const char *name;    /* "local" for this one */
    const char *program; /* muster's own, there; "": not known */
    uint32_t n_cpus;     /* that muster may use there; 0 for this one if it is not one of --hosts */
};
struct host_machine hosts_machine(const struct hosts *hosts, uint32_t node);
/* All sets of the allocation's hosts[part], which is given back, are empty for good. */
void hosts_part_vacated(struct hosts *hosts, uint32_t part);
/* The set whose first device is number `first` of those chosen was given back, and its last worker is gone. */
void hosts_vacated(struct hosts *hosts, uint32_t first);
/* Leaves all hosts, and waits until their agents have ended. The workers must have ended. */
void hosts_leave(struct hosts *hosts);
void hosts_free(struct hosts *hosts);
