/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of the hosts of a run:
 *   hosts_start.c  the start of all hosts
 *   hosts.c        ticks, seats that are given back, views, the end
 *   host.c         one host: its connection, its devices, its loss and return
 *   hosts_order.c  orders to add and to drop hosts
 *   job_end.c      hosts whose Slurm job ends soon
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
    HOST_FAILED,   /* given up: it could not be had for too long */
    HOST_LEFT      /* it was given back */
};

struct remote_host {
    struct hosts *hosts;
    struct host host;
    struct host_link link;
    struct node *node; /* the link's */
    enum host_state state;
    uint32_t position; /* among the run's nodes */
    struct err why;    /* why it failed or was lost */
    uint64_t up_at_ms, retry_at_ms, retry_pause_ms, left_at_ms;
    uint64_t lost_at_ms, lost_ms; /* 0: it is not lost; the sum of all earlier losses */
    bool is_empty;                /* struct host_view */
    unsigned n_tries;             /* since it was up */
    unsigned n_said;
    bool
        was_greeted; /* by its agent, at this connection: what is said from then on is the agent's */
    struct buf said;            /* by its transport before that, while there is no log; bounded */
    struct device_list devices; /* as the agent took them first; empty: it never was up */
    struct seat *seats;
    size_t n_seats;
    uint32_t part; /* their index among the allocation's hosts; 0: none yet */
    struct host_growth {
        uint32_t part, first_device; /* first_device: among the agent's devices */
    } grown[GROWTHS_MAX];            /* devices that became free later */
    size_t n_grown;
    uint32_t n_agent_devices, n_agent_seats, n_cpus;
    char *program; /* the agent's own path; NULL: not known */
    struct {
        uint64_t number;            /* of its Slurm job, by its agent; 0: none */
        uint64_t end_ms, length_ms; /* the job's end (monotonic) and length; 0: not known */
        bool is_renewed;            /* given back because the job ends: asks for another one then */
    } slurm;
};

struct hosts {
    struct shell *shell;
    struct allocation *allocation;
    struct allocation_wish wish;
    struct slurm_job job;    /* for "slurm" in the list */
    char job_name[48];       /* of jobs for "slurm:N" */
    bool was_queued;         /* the user was told that the run waits for the first job */
    struct remote_host **at; /* without the local one */
    struct grow *grow;       /* --grow on this machine; NULL: it does not grow */
    uint64_t grow_at_ms;     /* when to look next for devices that have become free */
    struct {
        struct local_ask ask;           /* asks when they end */
        uint64_t ask_at_ms, look_at_ms; /* when to ask next; when to compare with the clock */
    } slurm;                            /* the jobs that hosts are in */
    size_t len;
    struct bundles bundles; /* of the program, for hosts where it is not installed */
    struct buf notes; /* lines for the log, which is opened after the first hosts are connected */
    struct buf shown; /* likewise, but the user has seen them already */
    bool has_noted_secrets; /* hosts_withheld_note() has looked */
    bool has_local,
        is_leaving; /* has_local: this machine is in the list, or the run began on it alone */
    enum host_state local_state; /* UP, DRAINING or LEFT, as with other hosts */
    uint32_t local_place;        /* of this machine in the list */
    bool has_begun;              /* the run has its first seats; further ones are added */
    uint64_t end_at_ms;          /* since when the run is to end; 0: it is not */
    /* The wish for this machine, with its SPEC in the list, if it has one. */
    struct allocation_wish local_wish;
    char *local_gpus;
};

/* ---- hosts_start.c ---- */

/* Notes once, if srun reaches one of the hosts, which variables launcher_command() keeps from srun. */
void hosts_withheld_note(struct hosts *hosts, const struct host_list *list);

/* ---- hosts.c ---- */

/* Adds a host, which is connected when possible. Moves the host out of `taken`. ERR_USAGE. */
MUST_CHECK int hosts_append(struct hosts *hosts, struct host *taken, struct err *err);
/* Connects waiting hosts, as many as may start at once. Queued jobs do not hold others back. */
void hosts_waiting_connect(struct hosts *hosts);

/* Gives back this machine as it was taken at the start: its workers finish their items, or are ended `now`. */
void hosts_local_give_back(struct hosts *hosts, bool now);

/* ---- job_end.c ---- */

void job_ends_init(struct hosts *hosts);
/* The host's agent runs in this job. */
void job_end_joined(struct remote_host *host, uint64_t job);
/* Slurm has told the agent by a signal that it ends the job. False: the workers there cannot finish their items. */
bool job_end_told(struct remote_host *host);
/* To be called ten times a second: gives back the hosts whose job ends soon; ends the run if it is the run's own job. */
void job_ends_check(struct hosts *hosts, uint64_t now_ms);

/* ---- host.c ---- */

struct remote_host *host_new(struct hosts *hosts, struct host *taken, struct err *err);
void host_free(struct remote_host *host);
void host_log(const struct remote_host *h, enum log_level level, const char *before,
              const char *text);
void host_connect(struct remote_host *host);
/* The first connection failed: tries again after a pause. */
void host_retry(struct remote_host *host);
/* The host is up: adds its devices and seats to the run. */
void host_join(struct remote_host *host);
/* Tells the device watch of a loss that it was not told of before. */
void host_loss_tell(struct remote_host *host);
/* May the host join the run after its start? */
bool host_may_be_late(const struct remote_host *host);
/* May the host join the run, or join it again? */
bool host_may_come(const struct remote_host *host);
bool host_has_part(const struct remote_host *host, uint32_t part);
/* The last worker of one of its parts has ended for good. */
void host_vacated(struct remote_host *host);
/* --grow: asks the host for devices that have become free. */
void host_ask_more(const struct remote_host *host);
/* Ten times a second. */
void host_left_check(const struct remote_host *host, uint64_t now_ms);
/* Gives the host back: its workers finish their items, or are ended `now`; then its agent is left. */
void host_give_back(struct remote_host *host, bool now);
/* The same, and asks for the host again after that. */
void host_renew(struct remote_host *host);
