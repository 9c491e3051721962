/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of this room share.
 */
#pragma once

#include "core/gang.h"
#include "launch/fold.h"
#include "launch/launch.h"
#include "launch/line_copies.h"
#include "launch/master_port.h"
#include "proc/logfile.h"
#include "rendezvous/rendezvous.h"
#include "shell/prefix.h"
#include "shell/shell.h"

struct launch;
struct fleet;
struct watch;
struct rank;

/* One whose ranks this muster starts. */
struct machine {
    struct launch *launch;
    const char *name;     /* of a host; NULL: this machine, without --hosts */
    uint32_t seat;        /* of every rank: all devices that were taken there */
    bool is_far;          /* an agent starts its ranks */
    struct cpu_wish cpus; /* n_ranks 0: nothing was asked for */
    struct cpu_share
        *shares; /* [cpus.n_ranks]; NULL: an agent finds them, or nothing was asked for */
    uint32_t n_ranks, n_alive;
    struct rank *ranks;           /* a part of those of the launch */
    struct rendezvous_start part; /* of the present generation */
};

struct rank_stream {
    struct logfile *file; /* NULL: none */
    bool is_shown;
    struct prefix shown;
    size_t n_rest;          /* bytes of its unfinished line at the last tick */
    struct buf held;        /* if lines are folded: an unfinished line that may become an echo */
    bool is_begun;          /* the beginning of its line was shown */
    struct line_copy *copy; /* NULL: its lines are not looked at */
    struct buf unfinished;  /* line, for `copy` */
};

struct rank {
    struct launch *launch;
    struct machine *machine; /* NULL: one with a muster of its own */
    uint32_t number, local_rank;
    char *host;                  /* NULL: this machine */
    struct node_worker *process; /* NULL: it is gone, or was never started */
    char *before;                /* its lines: "[default0]:" */
    struct rank_stream out, errors;
    struct buf tail; /* the last of what it wrote to stderr */
    bool shows_errors;
    char *error_path, *message; /* message: what it recorded as its error; NULL: nothing */
    uint64_t recorded_ms;       /* at this time by our clock, since 1970 */
    int64_t clock_ahead_s;      /* of its machine, while the record is read */
    int status;                 /* as a shell gives it */
    int exit_signal;            /* 0: it ended by itself */
    pid_t pid;
    struct proc_stand stand; /* as was told last; state 0: it was not */
    int busy_percent;        /* likewise, of one with a muster of its own */
    char *where; /* where its threads stand; NULL: it was not asked, or has not answered */
};

/* Another machine, as a node of the gang. */
struct other {
    char *host; /* NULL: it never was here */
    char *left; /* why it was lost last; NULL: never */
    bool is_here;
};

struct launch {
    const struct launch_request *request;
    const char *const *command;
    struct shell *shell;
    struct allocation allocation;
    struct rendezvous *rendezvous; /* NULL: there is no other muster */
    struct fleet *fleet;           /* NULL: no --hosts */
    struct watch *watch;           /* NULL: nobody looks whether ranks stand still */
    struct {
        struct device_watch *watch; /* NULL: nobody looks at them */
        struct seat *all; /* those that were taken, where fewer may do; NULL: all are needed */
    } devices;
    struct lookup *endpoint; /* of its name, where this machine leads; NULL: not asked for */
    const char *master_addr; /* in the environment of ranks */
    char *mark;        /* an entry there, by which the keeper finds what this muster has started */
    struct gang *gang; /* NULL: a leader elsewhere decides */
    struct {
        struct gang_event *at; /* told, and not yet handled */
        size_t len, cap;
        bool is_handled;
    } events;
    struct {
        struct other *nodes; /* [n_nodes_max], where the gang is; its own is not used */
        uint32_t n_here;
        bool any_came;
        uint64_t said_ms; /* when the user was told who is missing */
        /* For who comes when all is over; NULL: it is not. */
        const struct rendezvous_over *farewell;
    } others;
    struct {
        struct rendezvous_start next; /* to be started when no rank of the one before is left */
        bool has_next;
        bool are_orphans; /* the ranks that are left: no leader waits for them any more */
        int status;       /* of the whole gang; is_of_rank: a rank ended with it */
        bool is_of_rank;
        bool waits, is_welcome;           /* for a start; the leader has answered */
        uint64_t say_at_ms, say_pause_ms; /* when the user is told that it waits */
    } orders;                             /* of a leader elsewhere */
    bool is_over, has_said_wait;
    struct fold *fold; /* of the present generation; NULL: lines are not folded */
    struct {
        bool are_all;
        uint32_t at[GANG_NODE_RANKS_MAX]; /* local ranks */
        size_t len;
    } shown;
    /* Of the present generation: all, or with a leader elsewhere those of this machine. */
    struct rank *ranks;
    uint32_t n_ranks;
    struct machine own; /* this one; with --hosts not used */
    struct master_port master_port;
    struct line_copies copies;
    char *log_root; /* of all generations; is_temporary: removed at the end */
    bool is_temporary;
    struct buf report; /* on the failure of the last generation that failed */
    int failed_status; /* of the rank that ended first */
};

/* cpus.c: which CPUs the ranks of a machine get, once it is known how many there are. */
MUST_CHECK int machine_cpus_find(struct machine *machine, struct err *err);

/* machine.c: the ranks of a machine. Those of an earlier generation must be gone. */
void ranks_make(struct launch *launch, uint32_t n_ranks);
void ranks_release(struct launch *launch);
/* `ranks` are among those that were made. If one cannot be started the run is given up (shell_abort). */
void machine_start(struct machine *machine, const struct rendezvous_start *part,
                   struct rank *ranks);
void machine_end(const struct machine *machine, const struct rendezvous_end *how);
/* Valid until another host comes. */
const struct seat *machine_seat(const struct machine *machine);
/* A rank of a machine is gone: tells the gang, wherever it is. */
void machine_lost_rank(const struct rank *rank);

/* fleet.c: the machines of --hosts, which are nodes of the gang in the order of the list. */
/* Their ranks. Sets how many nodes the gang has, and waits for. ERR_USAGE, ERR_UNAVAILABLE. */
MUST_CHECK int fleet_open(struct launch *launch, struct launch_meeting *meeting, struct err *err);
void fleet_begin(struct launch *launch);
void fleet_tick(struct launch *launch);
/* The ranks are started when it is known where they meet. */
void fleet_start(struct launch *launch, uint32_t node, const struct rendezvous_start *part,
                 struct rank *ranks);
void fleet_end(struct launch *launch, uint32_t node, const struct rendezvous_end *how);
/* Tells the gang of its loss, if it is lost. True: it is. */
bool fleet_loss_tell(struct machine *machine);
/* It is known where the ranks meet. */
void fleet_meet(struct launch *launch);
/* Are ranks to be started as soon as it is? */
bool fleet_waits(const struct fleet *fleet);
/* Ends what runs beside the ranks. */
void fleet_close(struct launch *launch);
void fleet_free(struct fleet *fleet);
uint32_t fleet_len(const struct fleet *fleet);
struct machine *fleet_machine(const struct fleet *fleet, uint32_t number);

/*
 * meet.c: where the ranks of --hosts meet. A port is held on the host of rank 0, and all other hosts try which addresses of
 * that host they reach at it: names, and interfaces that a host has for itself, would mislead.
 */
struct meet;
struct meet *meet_new(struct launch *launch, uint32_t n_machines);
/* machines[0] has rank 0. If it is the one of the last time, nothing has to be sought; else fleet_meet() is called, or the run
 * is given up. */
void meet_seek(struct meet *meet, struct machine *const *machines, uint32_t n_machines);
bool meet_is_held(const struct meet *meet);
const char *meet_address(const struct meet *meet);
uint16_t meet_port(const struct meet *meet);
void meet_close(struct meet *meet);
void meet_free(struct meet *meet);

/* launch.c: the devices that ranks without --gpus see. Release with device_list_release(). */
MUST_CHECK int devices_see(const char *self_path, struct device_list *out, struct err *err);
/* How ranks are ended now: by the signal that ends the run, if that is handed on. */
struct rendezvous_end launch_end(const struct launch *launch, bool at_once);
/* --nproc-per-node on a machine. */
struct host_counts {
    const char *where; /* in messages: "here", "on node1" */
    uint32_t n_usual, n_gpus, n_processors;
};
MUST_CHECK int ranks_count(const struct launch_request *request, const struct host_counts *counts,
                           uint32_t *out, struct err *err);

/* meeting.c: launch->rendezvous. */
MUST_CHECK int meeting_open(struct launch *launch, struct err *err);
/* After such a silence a machine is lost. */
uint64_t meeting_silence_ms(const struct launch_meeting *meeting);
/* Nobody has come to this machine: the mistakes that are likely. */
void meeting_hint_add(const struct launch *launch, struct buf *out);

/* lead.c: the gang is here. */
MUST_CHECK int lead_begin(struct launch *launch, struct err *err);
void lead_tell(struct launch *launch, struct gang_event event);
/* A rank of the generation is gone, with rank->status. */
void lead_tell_exit(struct launch *launch, const struct rank *rank, uint32_t generation);
void lead_tick(struct launch *launch);
/* The exit status of the gang, after its end. ERR_UNAVAILABLE: the machines did not come. */
MUST_CHECK int lead_outcome(struct launch *launch, struct err *err);
/* Tells the other machines, and waits until they have heard it. */
void lead_end(struct launch *launch, const struct rendezvous_over *over);
/* All ranks at once; who does not answer is given up. */
void lead_kill(struct launch *launch);
void lead_release(struct launch *launch);
void lead_on_joined(void *context, const struct rendezvous_member *member);
void lead_on_exited(void *context, uint32_t node, const struct rendezvous_exit *exit);
void lead_on_stands(void *context, uint32_t node, const struct rendezvous_stand *stand);
void lead_on_where(void *context, uint32_t node, const struct rendezvous_where *where);
void lead_on_left(void *context, uint32_t node, const struct err *why, bool is_aware);

/* follow.c: the gang is at a leader elsewhere. */
void follow_begin(struct launch *launch);
void follow_tick(struct launch *launch);
void follow_stop(struct launch *launch, bool at_once);
void follow_tell_exit(struct launch *launch, const struct rank *rank);
void follow_on_welcomed(void *context, uint32_t node);
void follow_on_start(void *context, const struct rendezvous_start *start);
void follow_on_end(void *context, const struct rendezvous_end *how);
void follow_on_asked(void *context, uint32_t local_rank);
void follow_on_retry(void *context, uint64_t pause_ms, struct str why);
void follow_on_over(void *context, const struct rendezvous_over *over);
void follow_on_lost(void *context, const struct err *why);
void follow_on_failed(void *context, const struct err *why);

/* rank.c: the command as a process; when it is gone, machine_lost_rank is called. */
MUST_CHECK int rank_start(struct rank *rank, struct err *err);
void rank_release(struct rank *rank);
/* torchrun's macros: ${name} or $name. ($$ stays, which a shell may need.) */
struct macro {
    const char *name, *value;
};
char *macros_fill(const char *text, const struct macro *macros, size_t n_macros);
/* ERR_USAGE: a rank has no device of its own (--virtual-local-rank). */
MUST_CHECK int virtual_ranks_check(const struct machine *machine, struct err *err);
/* ERR_UNAVAILABLE if there is no Python. */
MUST_CHECK int rank_command(const struct launch *launch, uint32_t local_rank, struct env_list *out,
                            struct err *err);

/* Adds what torchrun's scripts find in their environment. */
void rank_contract(const struct rank *rank, struct env_list *env);

/* dry_run.c: after places are known. */
MUST_CHECK int launch_dry_run(struct launch *launch, const struct launch_meeting *meeting,
                              struct err *err);

/* output.c */
/* What was asked for that is not parsed with the options. */
MUST_CHECK int output_parse(struct launch *launch, struct err *err);
MUST_CHECK int logs_begin(struct launch *launch, struct err *err);
void logs_end(struct launch *launch);
/* Of a generation that failed, where nobody will look at them. */
void logs_forget(const struct launch *launch, uint32_t generation);
MUST_CHECK int rank_output_open(struct rank *rank, uint32_t generation, struct err *err);
void rank_output_add(struct rank *rank, enum worker_stream which, struct str bytes);
/* The ranks of a generation were made. */
void fold_begin(struct launch *launch);
/* Says what was folded. */
void fold_say(struct launch *launch, bool is_end);
/* Unfinished lines of which no more has come since the last tick, and which are shown as they are. */
void rank_output_rest(struct rank *rank);
void rank_output_close(struct rank *rank);

/* rank_devices.c: the devices of this machine, and which of them are lost. */
/* Samples come from now on, if they do not yet. */
void rank_devices_watch(struct launch *launch);
/* --gpus-min: a generation may have fewer ranks than the one before. ERR_USAGE: they have no device each. */
MUST_CHECK int rank_devices_spare(struct launch *launch, struct err *err);
/* The ranks of the next generation, while there is none: one for each device that is left. */
void rank_devices_settle(struct launch *launch);
/* Before the loop is closed, and after that. */
void rank_devices_end(struct launch *launch);
void rank_devices_release(struct launch *launch);

/* watch.c: whether ranks stand still. launch->watch may be NULL for all of them. */
void watch_open(struct launch *launch);
void watch_close(struct launch *launch);
/* The ranks of a generation were made. */
void watch_begin(struct launch *launch);
void watch_spoke(const struct rank *rank, uint64_t silent_ms);
void watch_ended(const struct rank *rank);
/* The rank's last look is in rank->stand. */
void watch_stands(struct rank *rank, const struct proc_stand *stand);
void watch_where(struct rank *rank, struct str text);
void watch_tick(struct launch *launch);
/* The silence after which a rank was given up last. */
uint64_t watch_silent_ms(const struct launch *launch);

/* report.c: what its program recorded, once it is gone. */
void rank_record_read(struct rank *rank);
/* Before that, of a rank on another machine: its error file as it is there. */
void record_keep(struct rank *rank, struct str bytes, int64_t clock_ahead_ms);
/*
 * What the rank recorded that failed first, into the file that the caller of muster names by TORCHELASTIC_ERROR_FILE, as
 * torchrun does for TorchX and others. Nothing without the one or the other.
 */
void record_hand_on(const struct launch *launch);
/* Makes launch->report, of the generation that has just ended. */
void report_make(struct launch *launch);
void report_print(struct launch *launch);
/* "rank 3 (pid 4711 on node1)" */
void rank_name_add(struct buf *out, const struct rank *rank);
/* Foreign text, cleaned, each line with a bar before it; of more lines than these the first, or the last ones. */
void quote_add(struct buf *out, struct str text, size_t n_lines_max, bool is_tail);
