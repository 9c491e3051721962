/* SPDX-License-Identifier: Apache-2.0
 *
 * The hosts of a run: connects to those of --hosts, makes one allocation of all their devices, and connects again to
 * a host that was lost. The loss of a host is the loss of its devices (device_watch.h). A host that is first reached
 * while the run lasts adds its devices to the allocation.
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
/* The state of a host. */
struct host_view {
    /*
     * state: "up"; "away": lost, and asked for again; "missing": asked for, and never up yet; "draining": being given
     * back; "left": given back; "given up".
     */
    const char *name, *state;
    uint32_t node;    /* its position among the run's nodes, as in its seats */
    uint32_t place;   /* in the list of --hosts */
    const char *gpus; /* SPEC that it has in the list; NULL: none */
    uint64_t away_ms; /* time since it was lost; 0: it is not lost */
    uint64_t lost_ms; /* of the run's time, how long it was lost in all */
    /* After a loss: its new agent has said that no process of the agents before lives. False if not asked (asks_presence). */
    bool is_empty;
    uint64_t round_trip_ms;
    struct link_bytes n_bytes;
    uint32_t n_devices, n_seats; /* that are part of the run */
    const char *why;             /* why it was lost, or could not be had; NULL: neither */
};
/*
 * The number of hosts: this machine, if it is one of --hosts, and the others in the order of the list. 0 without
 * other hosts (NULL).
 */
size_t hosts_count(const struct hosts *hosts);
struct host_view hosts_view(const struct hosts *hosts, size_t number);
/* Is the host's state "up"? Cheaper than hosts_view(). */
bool hosts_is_up(const struct hosts *hosts, size_t number);
/* Call it when the device watch has begun: it is told of hosts that were lost before. */
void hosts_losses_tell(struct hosts *hosts);
/* Call it ten times a second. */
void hosts_tick(struct hosts *hosts);
/* Call it while the loop cannot turn: no host is taken for lost meanwhile, and no agent gives this head up. */
void hosts_say_alive(struct hosts *hosts);
/* Can orders be carried out now? */
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
/* The allocation's hosts[part], which is given back, has no worker any more, and gets none. */
void hosts_part_vacated(struct hosts *hosts, uint32_t part);
/*
 * The set whose first device has position `first` among the chosen ones was given back, and its last worker has
 * ended.
 */
void hosts_vacated(struct hosts *hosts, uint32_t first);
/* Leaves all hosts, and waits until their agents have ended. The workers must have ended. */
void hosts_leave(struct hosts *hosts);
void hosts_free(struct hosts *hosts);
