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

/* A machine whose ranks this muster starts. */
struct machine {
    struct launch *launch;
    const char *name;     /* of a host; NULL: this machine, without --hosts */
    uint32_t seat;        /* of every rank: all devices that were taken there */
    bool is_far;          /* an agent starts its ranks */
    struct cpu_wish cpus; /* n_ranks 0: no binding was asked for */
    struct cpu_share
        *shares; /* [cpus.n_ranks]; NULL: an agent finds them, or no binding was asked for */
    uint32_t n_ranks, n_alive;
    struct rank *ranks;           /* a slice of launch->ranks */
    struct rendezvous_start part; /* of this generation */
};

struct rank_stream {
    struct logfile *file; /* NULL: none */
    bool is_shown;
    struct prefix shown;
    size_t n_rest;          /* bytes of its unfinished line at the last tick */
    struct buf held;        /* if lines are folded: an unfinished line, which may become an echo */
    bool is_begun;          /* the beginning of its line was shown */
    struct line_copy *copy; /* NULL: no lines are copied */
    struct buf unfinished;  /* the line that `copy` has in part */
};

struct rank {
    struct launch *launch;
    struct machine *machine; /* NULL: the machine has a muster of its own */
    uint32_t number, local_rank;
    char *host;                  /* NULL: this machine */
    struct node_worker *process; /* NULL: it is gone, or was never started */
    char *before;                /* before its lines: "[default0]:" */
    struct rank_stream out, errors;
    struct buf tail; /* the last of what it wrote to stderr */
    bool shows_errors;
    char *error_path, *message; /* message: the error that it recorded; NULL: none */
    uint64_t recorded_ms;       /* when, by our clock, since 1970 */
    int64_t clock_ahead_s;      /* the clock of its machine minus ours, to read the record */
    int status;                 /* as a shell gives it */
    int exit_signal;            /* 0: it ended by itself */
    pid_t pid;
    struct proc_stand stand; /* the last look; state 0: none yet */
    int busy_percent;        /* likewise, if its machine has a muster of its own */
    char *where;             /* the stacks of its threads; NULL: not asked, or no answer yet */
};

/* Another machine, as a node of the gang. */
struct other {
    char *host; /* NULL: it has never come */
    char *left; /* why it was lost last; NULL: never */
    bool is_here;
    uint64_t process, grace_ms; /* of the muster there (struct rendezvous_member) */
    /* Ranks of musters that were lost here may live until gone_ms. lost_process: the only one of them; 0: there are several. */
    uint64_t lost_process, gone_ms;
};

struct launch {
    const struct launch_request *request;
    const char *const *command;
    struct shell *shell;
    struct allocation allocation;
    struct rendezvous *rendezvous; /* NULL: there is no other muster */
    struct fleet *fleet;           /* NULL: no --hosts */
    struct watch *watch;           /* NULL: ranks that stand still are not looked for */
    struct {
        struct device_watch *watch; /* NULL: devices are not watched */
        struct seat *all; /* all devices that were taken, with --gpus-min; NULL: all are needed */
    } devices;
    struct lookup *endpoint; /* the lookup of its name, on the leader; NULL: not needed */
    const char *master_addr; /* in the environment of ranks */
    char *mark;              /* an entry there, by which the keeper finds this muster's processes */
    struct gang *gang;       /* NULL: a leader elsewhere decides */
    struct {
        struct gang_event *at; /* not handled yet */
        size_t len, cap;
        bool is_handled;
    } events;
    struct {
        struct other *nodes; /* [n_nodes_max], on the leader; the leader's own is not used */
        uint32_t n_here;
        bool any_came;
        uint64_t said_ms; /* when the user was told who is missing */
        /* The answer to machines that come after the end; NULL: the run has not ended. */
        const struct rendezvous_over *farewell;
    } others;
    struct {
        struct rendezvous_start next; /* to be started when the one before has ended */
        bool has_next;
        bool are_orphans; /* the remaining ranks: no leader waits for them */
        int status;       /* of the whole gang; is_of_rank: a rank ended with it */
        bool is_of_rank;
        bool waits, is_welcome;           /* for a start; the leader has answered */
        uint64_t say_at_ms, say_pause_ms; /* when to tell the user that this machine waits */
    } orders;                             /* of a leader elsewhere */
    bool is_over, has_said_wait;
    struct fold *fold; /* of the present generation; NULL: lines are not folded */
    struct {
        bool are_all;
        uint32_t at[GANG_NODE_RANKS_MAX]; /* local ranks */
        size_t len;
    } shown;
    /* The ranks of this generation: all of them, or on a machine that follows its own. */
    struct rank *ranks;
    uint32_t n_ranks;
    struct machine own; /* this machine; not used with --hosts */
    struct master_port master_port;
    struct line_copies copies;
    char *log_root; /* for all generations; is_temporary: removed at the end */
    bool is_temporary;
    struct buf report; /* on the last generation that failed */
    int failed_status; /* of the rank that failed first */
};

/* cpus.c: finds which CPUs the ranks of a machine get. Their number must be known. */
MUST_CHECK int machine_cpus_find(struct machine *machine, struct err *err);

/* machine.c: makes the ranks of a generation. Those of an earlier one must have ended. */
void ranks_make(struct launch *launch, uint32_t n_ranks);
void ranks_release(struct launch *launch);
/*
 * Starts the ranks of a machine; `ranks` is a slice of launch->ranks. If a rank cannot be started, the run is given
 * up (shell_abort).
 */
void machine_start(struct machine *machine, const struct rendezvous_start *part,
                   struct rank *ranks);
void machine_end(const struct machine *machine, const struct rendezvous_end *how);
/* Valid until another host comes. */
const struct seat *machine_seat(const struct machine *machine);
/* A rank of a machine is gone: tells the gang, wherever it is. */
void machine_lost_rank(const struct rank *rank);

/* fleet.c: the machines of --hosts, which are nodes of the gang in the order of the list. */
/*
 * Finds the ranks of the hosts. Sets how many nodes the gang has, and how many it waits for. ERR_USAGE,
 * ERR_UNAVAILABLE.
 */
MUST_CHECK int fleet_open(struct launch *launch, struct launch_meeting *meeting, struct err *err);
void fleet_begin(struct launch *launch);
void fleet_tick(struct launch *launch);
/* Starts the ranks of a node once the place where they meet is known. */
void fleet_start(struct launch *launch, uint32_t node, const struct rendezvous_start *part,
                 struct rank *ranks);
void fleet_end(struct launch *launch, uint32_t node, const struct rendezvous_end *how);
/* Tells the gang if the host is lost. Returns whether it is. */
bool fleet_loss_tell(struct machine *machine);
/* The place where the ranks meet is known: starts those that wait for it. */
void fleet_meet(struct launch *launch);
/* Do ranks wait for the place where they meet? */
bool fleet_waits(const struct fleet *fleet);
/* Ends the processes that run beside the ranks. */
void fleet_close(struct launch *launch);
void fleet_free(struct fleet *fleet);
uint32_t fleet_len(const struct fleet *fleet);
struct machine *fleet_machine(const struct fleet *fleet, uint32_t number);

/*
 * meet.c: where the ranks of --hosts meet. A port is held on the host of rank 0, and all other hosts try the
 * addresses of that host at this port. Names are not used, nor untried addresses: a host may have interfaces that
 * only it reaches.
 */
struct meet;
struct meet *meet_new(struct launch *launch, uint32_t n_machines);
/*
 * machines[0] has rank 0. If the place of the last generation will do, nothing is sought; else fleet_meet() is called
 * later, or the run is given up.
 */
void meet_seek(struct meet *meet, struct machine *const *machines, uint32_t n_machines);
bool meet_is_held(const struct meet *meet);
const char *meet_address(const struct meet *meet);
uint16_t meet_port(const struct meet *meet);
void meet_close(struct meet *meet);
void meet_free(struct meet *meet);

/* launch.c: the devices that ranks without --gpus see. Release with device_list_release(). */
MUST_CHECK int devices_see(const char *self_path, struct device_list *out, struct err *err);
/* How to end ranks now: by the signal that ends the run, if it is one that is handed on. */
struct rendezvous_end launch_end(const struct launch *launch, bool at_once);
/* What a machine has, for --nproc-per-node. */
struct host_counts {
    const char *where; /* in messages: "here", "on node1" */
    uint32_t n_usual, n_gpus, n_processors;
};
MUST_CHECK int ranks_count(const struct launch_request *request, const struct host_counts *counts,
                           uint32_t *out, struct err *err);

/* meeting.c: opens launch->rendezvous, if there are several machines. */
MUST_CHECK int meeting_open(struct launch *launch, struct err *err);
/* After such a silence a machine is lost. */
uint64_t meeting_silence_ms(const struct launch_meeting *meeting);
/* Nobody has come to this machine: the mistakes that are likely. */
void meeting_hint_add(const struct launch *launch, struct buf *out);

/* lead.c: the gang is here. */
MUST_CHECK int lead_begin(struct launch *launch, struct err *err);
void lead_tell(struct launch *launch, struct gang_event event);
/* A rank of the generation has ended with rank->status. */
void lead_tell_exit(struct launch *launch, const struct rank *rank, uint32_t generation);
void lead_tick(struct launch *launch);
/* The exit status of the gang, after its end. ERR_UNAVAILABLE: the machines did not come. */
MUST_CHECK int lead_outcome(struct launch *launch, struct err *err);
/* Tells the other machines of the end, and waits until they have heard of it. */
void lead_end(struct launch *launch, const struct rendezvous_over *over);
/* Kills all ranks at once; machines that do not answer are given up. */
void lead_kill(struct launch *launch);
void lead_release(struct launch *launch);
/* Does the gang await the end of a rank of this node? */
bool lead_awaits(const struct launch *launch, uint32_t node);
void lead_on_joined(void *context, const struct rendezvous_member *member);
void lead_on_exited(void *context, uint32_t node, const struct rendezvous_exit *exit);
void lead_on_empty(void *context, uint32_t node);
void lead_on_stands(void *context, uint32_t node, const struct rendezvous_stand *stand);
void lead_on_where(void *context, uint32_t node, const struct rendezvous_where *where);
void lead_on_left(void *context, uint32_t node, const struct err *why, bool has_closed);

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

/* rank.c: starts the command as a process. machine_lost_rank() is called when it has ended. */
MUST_CHECK int rank_start(struct rank *rank, struct err *err);
void rank_release(struct rank *rank);
/* torchrun's macros: ${name} or $name. ($$ stays, since a shell may need it.) */
struct macro {
    const char *name, *value;
};
char *macros_fill(const char *text, const struct macro *macros, size_t n_macros);
/* ERR_USAGE: a rank has no device of its own (--virtual-local-rank). */
MUST_CHECK int virtual_ranks_check(const struct machine *machine, struct err *err);
/* ERR_UNAVAILABLE if there is no Python. */
MUST_CHECK int rank_command(const struct launch *launch, uint32_t local_rank, struct env_list *out,
                            struct err *err);

/* Adds the variables that torchrun's scripts find in their environment. */
void rank_contract(const struct rank *rank, struct env_list *env);

/* dry_run.c: prints the ranks. Call it when their places are known. */
MUST_CHECK int launch_dry_run(struct launch *launch, const struct launch_meeting *meeting,
                              struct err *err);

/* output.c */
/* Parses the options of output that were kept as text. */
MUST_CHECK int output_parse(struct launch *launch, struct err *err);
MUST_CHECK int logs_begin(struct launch *launch, struct err *err);
void logs_end(struct launch *launch);
/* Removes the temporary logs of a generation that failed. */
void logs_forget(const struct launch *launch, uint32_t generation);
MUST_CHECK int rank_output_open(struct rank *rank, uint32_t generation, struct err *err);
void rank_output_add(struct rank *rank, enum worker_stream which, struct str bytes);
/* The ranks of a generation were made. */
void fold_begin(struct launch *launch);
/* Tells the user how many lines were folded. */
void fold_say(struct launch *launch, bool is_end);
/* Shows an unfinished line as it is, if nothing was added to it since the last tick. */
void rank_output_rest(struct rank *rank);
void rank_output_close(struct rank *rank);

/* rank_devices.c: the devices of this machine, and which of them are lost. */
/* Begins to take samples, if that was not done yet. */
void rank_devices_watch(struct launch *launch);
/*
 * --gpus-min: a generation may have fewer ranks than the one before. ERR_USAGE: not every rank has a device of its
 * own.
 */
MUST_CHECK int rank_devices_spare(struct launch *launch, struct err *err);
/* Between two generations: the next one gets a rank for each device that is left. */
void rank_devices_settle(struct launch *launch);
/* The first is called before the loop is closed, the second after that. */
void rank_devices_end(struct launch *launch);
void rank_devices_release(struct launch *launch);

/* watch.c: whether ranks stand still. launch->watch may be NULL for all of them. */
void watch_open(struct launch *launch);
void watch_close(struct launch *launch);
/* The ranks of a generation were made. */
void watch_begin(struct launch *launch);
void watch_spoke(const struct rank *rank, uint64_t silent_ms);
void watch_ended(const struct rank *rank);
/* Takes a look at the rank, which goes into rank->stand. */
void watch_stands(struct rank *rank, const struct proc_stand *stand);
void watch_where(struct rank *rank, struct str text);
void watch_tick(struct launch *launch);
/* How long the rank that was given up last had been silent. */
uint64_t watch_silent_ms(const struct launch *launch);

/* report.c: reads the error that the rank recorded, once it has ended. */
void rank_record_read(struct rank *rank);
/* For a rank on another machine, before that: takes the bytes of its error file. */
void record_keep(struct rank *rank, struct str bytes, int64_t clock_ahead_ms);
/*
 * Writes the error that the first failed rank recorded to the file that the caller of muster names in
 * TORCHELASTIC_ERROR_FILE, as torchrun does for TorchX and others. Without an error or the variable, nothing is
 * written.
 */
void record_hand_on(const struct launch *launch);
/* Makes launch->report on the generation that has just ended. */
void report_make(struct launch *launch);
void report_print(struct launch *launch);
/* "rank 3 (pid 4711 on node1)" */
void rank_name_add(struct buf *out, const struct rank *rank);
/* Adds foreign text, cleaned, with a bar before each line; at most n_lines_max lines, the last ones if is_tail. */
void quote_add(struct buf *out, struct str text, size_t n_lines_max, bool is_tail);
