/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of this room share.
 */
#pragma once

#include "core/gang.h"
#include "launch/launch.h"
#include "launch/rendezvous.h"
#include "proc/logfile.h"
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
    struct node_worker *process; /* NULL: it is gone, or was never started */
    char before[160];            /* its lines: "[default0]:" */
    struct rank_stream out, errors;
    struct buf tail; /* the last of what it wrote to stderr */
    bool shows_errors;
    char *error_path;
    int status;      /* as a shell gives it */
    int exit_signal; /* 0: it ended by itself */
    uint64_t gone_wall_s;
    pid_t pid;
};

struct launch {
    const struct launch_request *request;
    const char *const *command;
    struct shell shell;
    struct allocation allocation;
    struct seat seat; /* of every rank: all devices that were taken */
    struct gang *gang;
    struct {
        struct gang_event *at; /* told, and not yet handled */
        size_t len, cap;
        bool is_handled;
    } events;
    bool is_over, has_said_wait;
    bool is_mute; /* what ranks print cannot be shown any more */
    struct {
        bool are_all;
        uint32_t at[GANG_NODE_RANKS_MAX]; /* local ranks */
        size_t len;
    } shown;
    struct rank *ranks; /* [n_ranks], of the present generation */
    uint32_t n_ranks;
    struct rendezvous rendezvous;
    char *log_root; /* of all generations; is_temporary: removed at the end */
    bool is_temporary;
    struct buf report; /* on the failure of the last generation that failed */
    int failed_status; /* of the rank that ended first */
};

/* launch.c */
void launch_tell(struct launch *launch, struct gang_event event);

/* rank.c: the command as a process; when it is gone, the gang is told. */
MUST_CHECK int rank_start(struct rank *rank, const struct gang_view *view,
                          const struct gang_member *member, struct err *err);
void rank_release(struct rank *rank);
/* ERR_UNAVAILABLE if there is no Python. */
MUST_CHECK int rank_command(const struct launch *launch, uint32_t local_rank, struct env_list *out,
                            struct err *err);

/* output.c */
MUST_CHECK int shown_ranks_parse(struct launch *launch, struct err *err);
MUST_CHECK int logs_begin(struct launch *launch, struct err *err);
void logs_end(struct launch *launch);
MUST_CHECK int rank_output_open(struct rank *rank, uint32_t generation, struct err *err);
void rank_output_add(struct rank *rank, enum worker_stream which, struct str bytes);
/* Unfinished lines of which no more has come since the last tick, and which are shown as they are. */
void rank_output_rest(struct rank *rank);
void rank_output_close(struct rank *rank);

/* report.c: makes launch->report, of the generation that has just ended. */
void report_make(struct launch *launch);
void report_print(struct launch *launch);
