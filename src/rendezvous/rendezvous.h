/* SPDX-License-Identifier: Apache-2.0
 *
 * The musters that launch one gang together, each started by the same command on a machine of its own. One of them
 * leads: it listens at the endpoint, and its gang (core/gang.h) decides. The others follow: they report on their
 * ranks, and carry out the leader's orders. A follower runs its own command only: no command, path or environment
 * comes over the network.
 *
 * One TCP connection a follower, with frames as between head and agent (node/link.h): checked, bounded, with
 * heartbeats. With a token, both ends prove that they know it, by a keyed hash (libsodium) over both ends' random
 * numbers and all that the handshake says, before any other message is accepted. The token itself is never sent.
 * Later messages are neither encrypted nor signed: somebody who can read or change the network's bytes can follow the
 * run, and can disturb it.
 *
 *   leader.c    listens, greets, orders        follower.c  connects, again if it must
 *   peer.c      one connection, at either end  message.c   the bodies of the frames
 *   proof.c     the keyed hash                 address.c   names, addresses, interfaces
 */
#pragma once

#include <uv.h>

#include "base/buf.h"
#include "base/err.h"
#include "node/node.h"

enum {
    RENDEZVOUS_NODES_MAX = 4096,
    RENDEZVOUS_RANKS_MAX = 1024, /* of a node */
    RENDEZVOUS_TEXT_MAX = 16384, /* of a text in a message; a longer one is cut */
    RENDEZVOUS_TOKEN_MIN_BYTES = 16
};
#define RENDEZVOUS_GRACE_MAX_MS (1ull << 50)
#define RENDEZVOUS_ANY_NODE     UINT32_MAX

/* A machine, by its own account. */
struct rendezvous_member {
    uint32_t node;     /* its number; RENDEZVOUS_ANY_NODE: the leader assigns the first free one */
    uint32_t n_ranks;  /* 1 … RENDEZVOUS_RANKS_MAX */
    char host[256];    /* printable, after reading */
    uint64_t process;  /* random, for the process of its muster; rendezvous_follow() draws it */
    uint64_t grace_ms; /* between TERM and KILL of its ranks; at most RENDEZVOUS_GRACE_MAX_MS */
};

/* One generation, for one node. */
struct rendezvous_start {
    uint32_t generation, n_restarts_max;
    uint32_t group_rank, n_members, first_rank, world_size;
    uint16_t master_port; /* of rank 0, on the leader's machine */
};

/* How the ranks of a node are ended. */
struct rendezvous_end {
    bool at_once;
    uint8_t signal; /* the signal to send, if not at_once (base/end_signals.h) */
};

/* How a rank of a follower ended. */
struct rendezvous_exit {
    uint32_t generation, local_rank, pid;
    int status, exit_signal; /* struct rank */
    uint64_t recorded_ago_s; /* age of `message`, by the follower's clock */
    struct str message;      /* the error that its program recorded; "": none */
    struct str tail;         /* the last of what it printed on stderr */
};

/* What a silent rank of a follower does (core/hang.h). */
struct rendezvous_stand {
    uint32_t generation, local_rank, pid;
    int busy_percent; /* of its device; -1: not known */
    uint64_t silent_ms;
    struct proc_stand stand;
};

/* Where a rank stands: foreign text. */
struct rendezvous_where {
    uint32_t generation, local_rank;
    struct str text;
};

/* The end of the whole gang. */
struct rendezvous_over {
    int status;      /* the exit status of a follower */
    bool is_of_rank; /* it is the status of a rank */
    struct str text; /* why the gang has ended; "": well */
};

/* Called on the loop's thread, never from within the functions below. All texts are borrowed and may hold anything. */
struct rendezvous_handlers {
    /* ---- of the leader ---- */
    /* member->node is its number from now on. A follower that comes back with its number is a new member. */
    void (*joined)(void *context, const struct rendezvous_member *member);
    void (*exited)(void *context, uint32_t node, const struct rendezvous_exit *exit);
    /* No rank lives that its process has started, in this connection or an earlier one. */
    void (*empty)(void *context, uint32_t node);
    void (*stands)(void *context, uint32_t node, const struct rendezvous_stand *stand);
    void (*where)(void *context, uint32_t node, const struct rendezvous_where *where);
    /*
     * Its connection is gone. Nothing of this member follows. has_closed: it has closed the connection itself, or its machine
     * has for it, so it ends its ranks now; else it may take silence_limit_ms to see that the leader is gone for it.
     */
    void (*left)(void *context, uint32_t node, const struct err *why, bool has_closed);

    /* ---- of a follower ---- */
    void (*welcomed)(void *context, uint32_t node);
    void (*start)(void *context, const struct rendezvous_start *start);
    void (*end)(void *context, const struct rendezvous_end *end);
    /* The leader asks where this rank stands. */
    void (*asked)(void *context, uint32_t local_rank);
    /* The generation has failed, and the next one begins after pause_ms. */
    void (*retry)(void *context, uint64_t pause_ms, struct str why);
    void (*over)(void *context, const struct rendezvous_over *over);
    /* The leader is gone, or silent. It is asked again; `welcomed` may follow. */
    void (*lost)(void *context, const struct err *why);
    /*
     * The leader was not reached in time (ERR_TIMEOUT), or it refuses this follower for good (ERR_UNAVAILABLE,
     * ERR_USAGE). The last call.
     */
    void (*failed)(void *context, const struct err *why);

    /* ---- of both ---- */
    /*
     * Worth a line of the log: another program at the port, another token, why the leader cannot be
     * had yet. The same text does not come twice in a row, and there are at most a few in a second.
     * Also called from within rendezvous_lead() and rendezvous_meet(), which may have to wait.
     */
    void (*warned)(void *context, const char *text);
};

struct rendezvous_opts {
    uv_loop_t *loop;  /* borrowed */
    const char *host; /* of the endpoint: a name or an address */
    uint16_t port;    /* 0, for a leader only: a free one */
    const char *
        local_addr; /* a name or an address of this machine, or one of its interfaces (eth0): at which a leader
                             * listens, from which a follower connects; NULL: any */
    const char *run_id;        /* must be the same at all ends */
    struct str token;          /* must be the same at all ends; "": none */
    const char *version;       /* of muster, for messages */
    uint32_t n_nodes_max;      /* a follower whose number is not below this is refused */
    uint64_t silence_limit_ms; /* after which either end gives the other up */
    uint64_t join_ms;          /* how long a follower asks for the leader; 0: without end */
    const struct rendezvous_handlers *handlers;
    void *context;
};

/* ---- both ---- */

struct rendezvous;

/*
 * For musters without numbers. If the endpoint is an address of this machine at which nobody listens yet, *out leads
 * (rendezvous_leads); else it follows, as rendezvous_follow() does with `self`. Waits for the resolver.
 */
MUST_CHECK int rendezvous_meet(const struct rendezvous_opts *opts,
                               const struct rendezvous_member *self, struct rendezvous **out,
                               struct err *err);
/* The leader's own node is 0, and no follower can have this number. `host` is not looked at: the followers may know this
 * machine by a name or an address that it does not. Waits some seconds for a local_addr that is tentative. ERR_UNAVAILABLE:
 * the port is in use; local_addr is not of this machine. */
MUST_CHECK int rendezvous_lead(const struct rendezvous_opts *opts, struct rendezvous **out,
                               struct err *err);
/* Begins to ask for the leader. ERR_UNAVAILABLE: local_addr is not of this machine. A name that is not known yet is asked
 * for again until join_ms. */
MUST_CHECK int rendezvous_follow(const struct rendezvous_opts *opts,
                                 const struct rendezvous_member *self, struct rendezvous **out,
                                 struct err *err);
bool rendezvous_leads(const struct rendezvous *rendezvous);
uint16_t rendezvous_port(const struct rendezvous *rendezvous);
/* Call it a few times a second: heartbeats, limits, tries. now_ms is monotonic. */
void rendezvous_tick(struct rendezvous *rendezvous, uint64_t now_ms);
/* To be called before the loop sleeps: sends what was queued. */
void rendezvous_flush(struct rendezvous *rendezvous, uint64_t now_ms);
/* Call it while nothing is read from the connections (node/link.h). */
void rendezvous_say_alive(struct rendezvous *rendezvous, uint64_t now_ms);
/* True when nothing that was queued is left, at any connection. */
bool rendezvous_is_flushed(const struct rendezvous *rendezvous);
/* Closes all connections; the loop must turn once more before it is closed. Frees. NULL: does nothing. */
void rendezvous_close(struct rendezvous *rendezvous);

/* ---- the leader; a node that is not there is passed over ---- */

void rendezvous_order_start(struct rendezvous *rendezvous, uint32_t node,
                            const struct rendezvous_start *start);
void rendezvous_order_end(struct rendezvous *rendezvous, uint32_t node,
                          const struct rendezvous_end *end);
void rendezvous_ask_where(struct rendezvous *rendezvous, uint32_t node, uint32_t local_rank);
/* Both go to all members. A member leaves when it has read that the gang is over. */
void rendezvous_say_retry(struct rendezvous *rendezvous, uint64_t pause_ms, struct str why);
void rendezvous_say_over(struct rendezvous *rendezvous, const struct rendezvous_over *over);

/* ---- a follower ---- */

/* The end of a rank of the last generation. Without a connection it is dropped: the leader has given up these ranks. */
void rendezvous_tell_exit(struct rendezvous *rendezvous, const struct rendezvous_exit *exit);
/* No rank lives that this process has started: if the leader had given some up, it need not wait for them. */
void rendezvous_tell_empty(struct rendezvous *rendezvous);
void rendezvous_tell_stand(struct rendezvous *rendezvous, const struct rendezvous_stand *stand);
void rendezvous_tell_where(struct rendezvous *rendezvous, const struct rendezvous_where *where);
/* Leaves in order: the leader is told why, and no handler but `warned` is called any more. */
void rendezvous_leave(struct rendezvous *rendezvous, struct str why);
