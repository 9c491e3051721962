/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of the hosts of a run:
 *   hosts_start.c  all of them: the start
 *   hosts.c        ticks, seats that are given back, views, the end
 *   host.c         one of them: its connection, what it has, its loss and return
 *   hosts_order.c  orders to add and to drop some, and what is told about all
 *   job_end.c      those whose Slurm job ends soon
 */
#pragma once

#include "node/host_list.h"
#include "node/remote.h"
#include "shell/device_watch.h"
#include "shell/grow.h"
#include "shell/host_link.h"
#include "shell/hosts.h"
#include "shell/local_ask.h"
#include "shell/shell_impl.h"

enum {
    GROW_EVERY_MS = 5000,
    GROWTHS_MAX = 64 /* of one host, while it is connected */
};

enum host_state {
    HOST_WAITS,    /* to be connected */
    HOST_STARTING, /* its agent has not answered */
    HOST_UP,
    HOST_AWAY,     /* not connected; it is asked again after a pause */
    HOST_DRAINING, /* up, and given back: its workers finish their items */
    HOST_FAILED,   /* it could not be had for too long, and is not asked again */
    HOST_LEFT      /* it was given back */
};

struct remote_host {
    struct hosts *hosts;
    struct host host;
    struct host_link link;
    struct node *node; /* the link's */
    enum host_state state;
    uint32_t position; /* among the run's nodes */
    struct err why;    /* it failed or was lost */
    uint64_t up_at_ms, retry_at_ms, retry_pause_ms, left_at_ms;
    uint64_t lost_at_ms, lost_ms; /* 0: the run has not lost it; the sum of all earlier times */
    unsigned n_tries;             /* since it was up */
    unsigned n_said;
    bool
        was_greeted; /* by its agent, at this connection: what is said from then on is the agent's */
    struct buf said;            /* by its transport before that, while there is no log; bounded */
    struct device_list devices; /* as the agent took them first; empty: it never was up */
    struct seat *seats;
    size_t n_seats;
    uint32_t part; /* of them, among the allocation's hosts; 0: not there yet */
    struct host_growth {
        uint32_t part, first_device; /* among the devices of the agent */
    } grown[GROWTHS_MAX];            /* what became free there later */
    size_t n_grown;
    uint32_t n_agent_devices, n_agent_seats, n_cpus;
    char *program; /* the agent's own, there; NULL: not known */
    struct {
        uint64_t number; /* of its Slurm job, as its agent says; 0: it is in none */
        uint64_t end_ms,
            length_ms;   /* when its time is over (monotonic), and how long it is; 0: not known */
        bool is_renewed; /* given back because it ends: another one is asked for then */
    } slurm;
};

struct hosts {
    struct shell *shell;
    struct allocation *allocation;
    struct allocation_wish wish;
    struct slurm_job job;    /* of "slurm" in the list */
    char job_name[48];       /* of those that "slurm:N" asks for */
    bool was_queued;         /* that the run waits for the first of them was said */
    struct remote_host **at; /* without the local one */
    struct grow *grow;       /* --grow on this machine; NULL: it does not grow */
    uint64_t grow_at_ms;     /* when to look next for devices that have become free */
    struct {
        struct local_ask ask;           /* when they end */
        uint64_t ask_at_ms, look_at_ms; /* when to ask next; to compare with the time */
    } slurm;                            /* the jobs that hosts are in */
    size_t len;
    struct bundles bundles; /* of the program, for hosts where it is not installed */
    struct buf notes; /* lines for the log, which is opened after the first hosts are connected */
    bool has_local,
        is_leaving; /* has_local: this machine is in the list, or was alone at the start */
    enum host_state local_state; /* UP, DRAINING or LEFT, as with other hosts */
    uint32_t local_place;        /* of this machine in the list */
    bool has_begun;              /* the run has its first seats; others are added to them */
    uint64_t end_at_ms;          /* the run is to end since then; 0: it is not */
    /* What is asked of this machine, with the SPEC that it has in the list, if it has one. */
    struct allocation_wish local_wish;
    char *local_gpus;
};

/* ---- hosts.c ---- */

/* One more host, which is connected when it can be. Moves the host out of `taken`. ERR_USAGE. */
MUST_CHECK int hosts_append(struct hosts *hosts, struct host *taken, struct err *err);
/* Starts as many as may start at once. Jobs that are queued do not hold others back. */
void hosts_waiting_connect(struct hosts *hosts);

/* This machine, as it was taken at the start: its workers finish their items, or are ended `now`. */
void hosts_local_give_back(struct hosts *hosts, bool now);

/* ---- job_end.c ---- */

void job_ends_init(struct hosts *hosts);
/* The agent is in this job. */
void job_end_joined(struct remote_host *host, uint64_t job);
/* Slurm has told the agent that it ends its job, by a signal. False: what the workers there have cannot be finished. */
bool job_end_told(struct remote_host *host);
/* To be called ten times a second: gives back the hosts whose job ends soon, and ends the run if that is its own. */
void job_ends_check(struct hosts *hosts, uint64_t now_ms);

/* ---- host.c ---- */

struct remote_host *host_new(struct hosts *hosts, struct host *taken, struct err *err);
void host_free(struct remote_host *host);
void host_log(const struct remote_host *h, enum log_level level, const char *before,
              const char *text);
void host_connect(struct remote_host *host);
/* The first connection failed: it is asked again after a pause. */
void host_retry(struct remote_host *host);
/* It is up: its devices and seats become those of the run. */
void host_join(struct remote_host *host);
/* Tells of its loss, which was not told before. */
void host_loss_tell(struct remote_host *host);
/* May it join the run after its start? */
bool host_may_be_late(const struct remote_host *host);
/* It is no part of the run, or will not be for long, and may become that. */
bool host_may_come(const struct remote_host *host);
bool host_has_part(const struct remote_host *host, uint32_t part);
/* The last worker of one of its parts is gone for good. */
void host_vacated(struct remote_host *host);
/* --grow: asks it for devices that have become free. */
void host_ask_more(const struct remote_host *host);
/* Ten times a second. */
void host_left_check(const struct remote_host *host, uint64_t now_ms);
/* Its workers finish their items, or are ended `now`; then it is left. */
void host_give_back(struct remote_host *host, bool now);
/* The same, and when it is left, it is asked for again. */
void host_renew(struct remote_host *host);
