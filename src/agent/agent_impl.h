/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of an agent (agent.h).
 */
#pragma once

#include "node/bundle.h"
#include "node/link.h"
#include "node/wire_body.h"
#include "shell/device_watch.h"
#include "shell/grow.h"
#include "shell/shell.h"

struct agent {
    struct shell shell;
    struct link link;
    uv_poll_t in_poll, out_poll;
    uv_timer_t look_timer;
    bool out_waits; /* until the head reads */
    bool was_greeted, was_asked, has_devices;
    struct wire_take take;
    uint64_t take_at_ms, take_until_ms; /* the next try, and the last; take_at_ms 0: none */
    char *mark; /* an entry in the environment of each worker, by which the keeper finds them */
    char program[BUNDLE_HASH_BYTES]; /* its hash */
    bool is_kept;                    /* a head has installed it (kept.h) */
    uint64_t n_seconds;
    bool is_over; /* the head is gone: the workers are ended */
    struct allocation allocation;
    struct device_watch *watch;
    struct allocation_wish wish;   /* by which the devices were taken */
    struct grow *grow;             /* NULL: the head was not asked for more, or names devices */
    char *cwd;                     /* of the workers; NULL: the agent's own */
    char *channel_folder;          /* for sockets of --channel-path; NULL: none was needed yet */
    struct agent_worker **workers; /* by their number on the link; NULL: none */
    uint32_t n_ids, n_alive;       /* alive: started and not gone */
};

/* ---- agent.c ---- */

void agent_send(struct agent *agent, enum frame_type type, uint32_t id, unsigned stream,
                struct str body);
/* The head broke the protocol. */
void agent_break(struct agent *agent, const struct frame *frame, const char *why);

/* ---- agent_worker.c ---- */

void agent_worker_frame(struct agent *agent, const struct frame *frame);
/* The link takes data again. */
void agent_workers_resume(struct agent *agent);
void agent_workers_end(struct agent *agent, enum worker_end how);
void agent_workers_free(struct agent *agent);
