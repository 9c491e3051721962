/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of this room share.
 */
#pragma once

#include "core/gang.h"
#include "launch/launch.h"
#include "launch/master_port.h"
#include "proc/logfile.h"
#include "rendezvous/rendezvous.h"
#include "shell/prefix.h"
#include "shell/shell.h"

struct launch;

struct rank_stream {
    struct logfile *file; /* NULL: none */
    bool is_shown;
    struct prefix shown;
    size_t n_rest; /* bytes of its unfinished line at the last tick */
};

struct rank {
    struct launch *launch;
    uint32_t number, local_rank;
    const char *host;            /* NULL: this machine */
    struct node_worker *process; /* NULL: it is gone, or was never started */
    char before[160];            /* its lines: "[default0]:" */
    struct rank_stream out, errors;
    struct buf tail; /* the last of what it wrote to stderr */
    bool shows_errors;
    char *error_path, *message; /* message: what it recorded as its error; NULL: nothing */
    uint64_t recorded_s;        /* at this time by our clock, in seconds of 1970 */
    int status;                 /* as a shell gives it */
    int exit_signal;            /* 0: it ended by itself */
    pid_t pid;
};

struct launch {
    const struct launch_request *request;
    const char *const *command;
    struct shell shell;
    struct allocation allocation;
    struct seat seat;              /* of every rank: all devices that were taken */
    struct rendezvous *rendezvous; /* NULL: this machine is alone */
    struct gang *gang;             /* NULL: a leader elsewhere decides */
    struct {
        struct gang_event *at; /* told, and not yet handled */
        size_t len, cap;
        bool is_handled;
    } events;
    struct {
        struct {
            char *host; /* NULL: it never was here */
            char *left; /* why it is not here; NULL: it is */
        } * nodes;      /* [n_nodes_max], of a leader; its own is not among them */
        uint32_t n_here;
        uint64_t said_ms; /* when the user was told who is missing */
    } others;
    struct {
        struct rendezvous_start next; /* to be started when no rank of the one before is left */
        bool has_next;
        int status; /* of the whole gang */
    } orders;       /* of a leader elsewhere */
    bool is_over, has_said_wait;
    bool is_mute; /* what ranks print cannot be shown any more */
    struct {
        bool are_all;
        uint32_t at[GANG_NODE_RANKS_MAX]; /* local ranks */
        size_t len;
    } shown;
    struct rank *
        ranks; /* [n_ranks], of the present generation: all, or with a leader elsewhere those of this machine */
    uint32_t n_ranks;
    struct {
        uint32_t n_ranks, n_alive;
        struct rank *ranks;           /* a part of the above */
        struct rendezvous_start part; /* of the present generation */
    } own;
    struct master_port master_port;
    char *log_root; /* of all generations; is_temporary: removed at the end */
    bool is_temporary;
    struct buf report; /* on the failure of the last generation that failed */
    int failed_status; /* of the rank that ended first */
};

/* machine.c: the ranks of this machine. Those of an earlier generation must be gone. */
void ranks_make(struct launch *launch, uint32_t n_ranks);
void ranks_release(struct launch *launch);
/* Their `own.ranks` are among those that were made. If one cannot be started the run is given up (shell_abort). */
void machine_start(struct launch *launch, const struct rendezvous_start *part, struct rank *own);
void machine_end(struct launch *launch, bool at_once);
/* A rank of this machine is gone: tells the gang, wherever it is. */
void machine_lost_rank(struct launch *launch, const struct rank *rank);

/* meeting.c: launch->rendezvous. */
MUST_CHECK int meeting_open(struct launch *launch, struct err *err);

/* lead.c: the gang is here. */
MUST_CHECK int lead_begin(struct launch *launch, struct err *err);
void lead_tell(struct launch *launch, struct gang_event event);
void lead_tick(struct launch *launch);
/* The exit status of the gang, after its end. ERR_UNAVAILABLE: the machines did not come. */
MUST_CHECK int lead_outcome(struct launch *launch, struct err *err);
/* Tells the other machines, and waits until they have heard it. */
void lead_end(struct launch *launch, int status, const char *why);
void lead_release(struct launch *launch);
void lead_on_joined(void *context, const struct rendezvous_member *member);
void lead_on_exited(void *context, uint32_t node, const struct rendezvous_exit *exit);
void lead_on_left(void *context, uint32_t node, const struct err *why);

/* follow.c: the gang is at a leader elsewhere. */
void follow_stop(struct launch *launch, bool at_once);
void follow_tell_exit(struct launch *launch, const struct rank *rank);
void follow_on_start(void *context, const struct rendezvous_start *start);
void follow_on_end(void *context, bool at_once);
void follow_on_retry(void *context, uint64_t pause_ms, struct str why);
void follow_on_over(void *context, const struct rendezvous_over *over);
void follow_on_lost(void *context, const struct err *why);
void follow_on_failed(void *context, const struct err *why);

/* rank.c: the command as a process; when it is gone, machine_lost_rank is called. */
MUST_CHECK int rank_start(struct rank *rank, struct err *err);
void rank_release(struct rank *rank);
/* ERR_UNAVAILABLE if there is no Python. */
MUST_CHECK int rank_command(const struct launch *launch, uint32_t local_rank, struct env_list *out,
                            struct err *err);

/* output.c */
MUST_CHECK int shown_ranks_parse(struct launch *launch, struct err *err);
MUST_CHECK int logs_begin(struct launch *launch, struct err *err);
void logs_end(struct launch *launch);
/* Of a generation that failed, where nobody will look at them. */
void logs_forget(const struct launch *launch, uint32_t generation);
MUST_CHECK int rank_output_open(struct rank *rank, uint32_t generation, struct err *err);
void rank_output_add(struct rank *rank, enum worker_stream which, struct str bytes);
/* Unfinished lines of which no more has come since the last tick, and which are shown as they are. */
void rank_output_rest(struct rank *rank);
void rank_output_close(struct rank *rank);

/* report.c: what its program recorded, once it is gone. */
void rank_record_read(struct rank *rank);
/* Makes launch->report, of the generation that has just ended. */
void report_make(struct launch *launch);
void report_print(struct launch *launch);
