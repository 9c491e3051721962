/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of an agent (agent.h).
 */
#pragma once

#include "agent/scratch.h"
#include "node/bundle.h"
#include "node/link.h"
#include "node/wire_body.h"
#include "shell/device_watch.h"
#include "shell/grow.h"
#include "shell/shell.h"

struct agent {
    struct shell *shell;
    struct link link;
    uv_poll_t in_poll, out_poll;
    uv_timer_t look_timer;
    bool out_waits; /* output waits until the head reads */
    bool was_greeted, was_asked, has_devices;
    struct wire_take take;
    struct {
        uint64_t at_ms, until_ms; /* the next try, and the end of all tries; at_ms 0: no try */
    } tries;                      /* tries to take devices */
    char *mark; /* an entry in the environment of each worker, by which the keeper finds them */
    struct {
        char hash[BUNDLE_HASH_BYTES];
        bool is_kept; /* a head has installed it (kept.h) */
        uint64_t n_seconds;
    } program;
    char *head;       /* machine and process of the head; NULL: not known yet */
    char *run;        /* the folder of its run on its machine; NULL: not known yet */
    bool is_over;     /* the head has gone, or the agent ends: the workers are being ended */
    bool is_draining; /* the head knows that its Slurm job ends soon */
    struct allocation allocation;
    struct {
        struct cpu_wish of;
        uint32_t seat;
        struct cpu_share *at; /* [of.n_ranks]; NULL: not computed yet */
    } shares;                 /* of the ranks that were started last */
    struct device_watch *watch;
    struct allocation_wish wish; /* the wish by which the devices were taken */
    struct grow *grow;           /* NULL: the head has not asked for more, or names devices */
    struct {
        char place[128];      /* struct wire_taken */
        uint32_t next_number; /* the first earlier agent that may live; 0: not asked, or all told */
    } presence;
    char *cwd;                     /* the folder of the workers; NULL: the agent's own */
    struct scratch scratch;        /* for files of shards, and sockets of --channel-path */
    struct agent_files *files;     /* a list */
    struct agent_worker **workers; /* by their number on the link; NULL: no worker has it */
    uint32_t n_ids, n_alive;       /* n_alive: workers that have started and not ended */
};

/* ---- agent.c ---- */

void agent_send(struct agent *agent, enum frame_type type, uint32_t id, unsigned stream,
                struct str body);
/* The head broke the protocol. */
void agent_break(struct agent *agent, const struct frame *frame, const char *why);

/* Sends an error about a worker or its files. `id` WIRE_NO_WORKER: the error is about the agent. */
void agent_error_send(struct agent *agent, enum frame_type type, uint32_t id,
                      const struct err *why);
/* Notes the run of the head, once it is known. Folders of earlier heads of the same run are then of no use. */
void agent_run_name(struct agent *agent, const char *run);
/* Its workers are of this run: the locks of its devices say so. */
void agent_locks_sign(struct agent *agent, const char *run_id);
/* Tells the head that this agent ends, and ends the workers. */
void agent_end_now(struct agent *agent);
/* Makes the folder for files if the agent has none yet. */
MUST_CHECK int agent_scratch_take(struct agent *agent, struct err *err);

/* ---- presence.c ---- */

/* Takes the name by which later agents of this head see that processes of this one live. */
void agent_presence_take(struct agent *agent);
/* Tells the head once when no process of an earlier agent lives. */
void agent_presence_tick(struct agent *agent);

/* ---- agent_files.c ---- */

void agent_files_frame(struct agent *agent, const struct frame *frame);
/* The link takes data again. */
void agent_files_resume(struct agent *agent);
/* A worker has failed: tells the head if that may be for lack of room for its files. */
void agent_files_room_tell(struct agent *agent, uint32_t id);
/* Drops the files of all workers. Returns true if the head has not fetched all files that were found. */
bool agent_files_free(struct agent *agent);

/* ---- agent_worker.c ---- */

void agent_worker_frame(struct agent *agent, const struct frame *frame);
/* The link takes data again. */
void agent_workers_resume(struct agent *agent);
void agent_workers_end(struct agent *agent, enum worker_end how);
void agent_workers_free(struct agent *agent);
