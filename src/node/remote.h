/* SPDX-License-Identifier: Apache-2.0
 *
 * Another machine as a node: the head's end of a link (link.h) to an agent there (agent/). The transport, a command
 * such as ssh whose standard streams reach the agent, is itself a worker of this machine's node, so that it ends
 * with muster.
 *
 * A node that was opened is being connected; `taken` says that workers can be started, `lost` that they cannot any
 * more. After `lost` it can be connected again.
 */
#pragma once

#include "node/bundle.h"
#include "node/link.h"
#include <uv.h>

#include "node/node.h"
#include "node/wire_body.h"

/* An agent has said who it is. */
struct remote_greeting {
    const struct wire_hello *hello;
    const char *folder;      /* in which the program is kept there; "": in none */
    uint64_t n_bundle_bytes; /* of the program, which was sent; 0: it was there */
    struct str noise;        /* the beginning of what was printed there before the agent spoke */
};

/* Called on the loop's thread, never from within node_spawn and node_write. */
struct remote_handlers {
    /* First, at each connection; may be NULL. */
    void (*greeted)(void *context, const struct remote_greeting *greeting);
    /* The devices are ours; the first time, and after each return. */
    void (*taken)(void *context, const struct wire_taken *taken);
    /*
     * Further devices, after remote_ask_more(). Their positions count from 0; they follow the devices that the host
     * had.
     */
    void (*more)(void *context, const struct wire_taken *taken);
    /* The connection could not be made or was lost, or the devices cannot be had. Called before its workers' `gone`. */
    void (*lost)(void *context, const struct err *why);
    /*
     * Slurm ends the agent's job soon. False, or NULL: nothing is to be finished there, so the connection is given
     * up.
     */
    bool (*draining)(void *context);
    /* No process lives that an earlier agent of this node has started (struct wire_take); may be NULL. */
    void (*empty)(void *context);
    /* Position among the devices of `taken`. */
    void (*sampled)(void *context, const struct device_sample *sample);
    /* A line that the transport, or the agent, printed on its standard error. */
    void (*said)(void *context, struct str line);
};

struct remote_opts {
    struct node *local;                    /* on which the transport runs */
    const char *const *argv, *const *envp; /* of the transport; borrowed */
    const char *version, *program; /* of muster, and its hash: borrowed, read at the hello */
    const char *self_path;   /* of muster here, for a host that is this machine; NULL: not used */
    struct bundles *bundles; /* the transport runs `sh` with a script; NULL: it runs an agent */
    struct wire_take take;
    uv_loop_t *loop;           /* borrowed, for work on files */
    uint64_t silence_limit_ms; /* after which either end gives the other up */
    bool may_queue;            /* before its hello the agent may be silent without end */
    const struct remote_handlers *handlers;
    void *context;
};

struct node *remote_open(const struct remote_opts *opts);
/* Starts the transport, now or again. ERR_UNAVAILABLE if it cannot be started. */
MUST_CHECK int remote_connect(struct node *node, struct err *err);
/* After `lost`: the transport ended by itself, or bytes were changed on the way, and the reason may pass within a second,
 * as far as is known. */
bool remote_may_be_tried(const struct node *node);
/* After `lost`: is the host's Slurm job over? Then it never comes back. */
bool remote_is_over(const struct node *node);
/* Does the transport's process still run? It must have ended before the node is closed or connected again. */
bool remote_has_transport(const struct node *node);
/* From here to the agent and back, as measured; 0: less than a millisecond. */
uint64_t remote_round_trip_ms(const struct node *node);
/* The bytes of all connections so far. */
struct link_bytes remote_bytes(const struct node *node);
/* What the agent said of itself at the last connection. */
struct remote_peer {
    char version[64];       /* of muster there; "" before the first connection */
    int64_t clock_ahead_ms; /* its clock minus ours, within a round trip */
};
struct remote_peer remote_peer(const struct node *node);
/* Call it while nothing is read from the connection (link.h). */
void remote_say_alive(struct node *node);
/* Asks for devices that have become free there; `more` may follow. */
void remote_ask_more(struct node *node);
/* Ends the connection in order: the agent ends its workers, and itself. */
void remote_leave(struct node *node);
/* Ends the transport's process. */
void remote_end_transport(struct node *node, enum worker_end how);
/* No more files are fetched: those on their way, or waiting for a connection, fail. */
void remote_give_up(struct node *node);
