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
    bool out_waits; /* until the head reads */
    bool was_greeted, was_asked, has_devices;
    struct wire_take take;
    struct {
        uint64_t at_ms, until_ms; /* the next, and the last; at_ms 0: none */
    } tries;                      /* to take devices */
    char *mark; /* an entry in the environment of each worker, by which the keeper finds them */
    char program[BUNDLE_HASH_BYTES]; /* its hash */
    bool is_kept;                    /* a head has installed it (kept.h) */
    uint64_t n_seconds;
    char *head;       /* its machine and process; NULL: not known yet */
    char *run;        /* a folder of its run, over there; NULL: not known yet */
    bool is_over;     /* the head is gone: the workers are ended */
    bool is_draining; /* the head knows that its Slurm job ends soon */
    struct allocation allocation;
    struct {
        struct cpu_wish of;
        uint32_t seat;
        struct cpu_share *at; /* [of.n_ranks]; NULL: nobody has asked for it */
    } shares;                 /* of the ranks that were started last */
    struct device_watch *watch;
    struct allocation_wish wish;   /* by which the devices were taken */
    struct grow *grow;             /* NULL: the head was not asked for more, or names devices */
    char *cwd;                     /* of the workers; NULL: the agent's own */
    struct scratch scratch;        /* for files of shards, and sockets of --channel-path */
    struct agent_files *files;     /* a list */
    struct agent_worker **workers; /* by their number on the link; NULL: none */
    uint32_t n_ids, n_alive;       /* alive: started and not gone */
};

/* ---- agent.c ---- */

void agent_send(struct agent *agent, enum frame_type type, uint32_t id, unsigned stream,
                struct str body);
/* The head broke the protocol. */
void agent_break(struct agent *agent, const struct frame *frame, const char *why);

/* An error about a worker, or its files; WIRE_NO_WORKER: about the agent. */
void agent_error_send(struct agent *agent, enum frame_type type, uint32_t id,
                      const struct err *why);
/* The run of the head is known: folders of earlier heads of the run are of no use. */
void agent_run_name(struct agent *agent, const char *run);
/* Its workers are of this run: the locks of its devices say so. */
void agent_locks_sign(struct agent *agent, const char *run_id);
/* Tells the head that this agent ends, and ends the workers. */
void agent_end_now(struct agent *agent);
/* The folder for files; made when it is needed. */
MUST_CHECK int agent_scratch_take(struct agent *agent, struct err *err);

/* ---- agent_files.c ---- */

void agent_files_frame(struct agent *agent, const struct frame *frame);
/* The link takes data again. */
void agent_files_resume(struct agent *agent);
/* A worker has failed: tells the head if that may be for lack of room for its files. */
void agent_files_room_tell(struct agent *agent, uint32_t id);
/* Drops all. Returns true if the head has not fetched what was found. */
bool agent_files_free(struct agent *agent);

/* ---- agent_worker.c ---- */

void agent_worker_frame(struct agent *agent, const struct frame *frame);
/* The link takes data again. */
void agent_workers_resume(struct agent *agent);
void agent_workers_end(struct agent *agent, enum worker_end how);
void agent_workers_free(struct agent *agent);
