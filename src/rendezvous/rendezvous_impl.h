/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of this room share.
 *
 * Every connection ends in the same way: its link is broken (link_break), the loop closes it (peer_check), and then
 * the side's `ended` is called. So no handler is called from within a function that the owner calls. A rendezvous is
 * freed when the last of its handles is closed.
 */
#pragma once

#include "node/link.h"
#include "rendezvous/address.h"
#include "rendezvous/message.h"

enum {
    GREETING_MS = 10000,     /* for the handshake of a connection */
    PENDING_BODY_MAX = 1024, /* of a frame before the handshake is done */
    LISTENERS_MAX = ADDRESSES_MAX,
    WARN_TEXT_MAX = 512
};

/* What an end of a connection waits for. */
enum peer_state {
    PEER_CONNECTS, /* follower: to be connected */
    PEER_GREETS,   /* leader: GANG_JOIN; follower: GANG_CHALLENGE */
    PEER_ASKS,     /* follower: GANG_WELCOME or GANG_REFUSED */
    PEER_MEMBER,
    PEER_REFUSED /* leader: the end of the connection */
};

/* A connection. */
struct peer {
    uv_tcp_t tcp;
    struct rendezvous *rendezvous;
    struct peer *next, **link_of;
    enum peer_state state;
    struct link link;
    uv_connect_t connect;
    bool is_closing;
    bool has_closed; /* the other end has closed the connection, or leaves */
    uint64_t begin_ms;
    char address[ADDRESS_TEXT_MAX];
    struct buf said; /* during the handshake: the bodies that the proofs cover */
    /* Of a leader's peer: */
    struct rendezvous_member member;
    struct {
        bool is_there;
        uint32_t generation; /* of the last GANG_START */
    } started;
};

/* A frame that is expected in this state. */
struct peer_step {
    enum peer_state state;
    enum frame_type type;
    void (*take)(struct peer *peer, struct wire_body *body);
};

/* One end, as a value. */
struct side {
    const struct peer_step *steps; /* the last one has no `take` */
    /* The connection is closed; link.broken says why. */
    void (*ended)(struct peer *peer);
    void (*tick)(struct rendezvous *rendezvous);
    void (*close)(struct rendezvous *rendezvous);
};

struct leader {
    struct {
        uv_tcp_t at[LISTENERS_MAX];
        bool has_waiting[LISTENERS_MAX]; /* a connection that is not accepted yet */
        size_t len;
    } listeners;
    uint16_t port;
    size_t n_pending;      /* connections in the handshake */
    struct peer **members; /* [n_nodes_max], by number; NULL: free */
};

struct follower {
    struct rendezvous_member self;
    uint32_t asked_node; /* the number to ask for: the one that it had, or self.node */
    struct peer *peer;   /* NULL: none */
    bool is_welcome;
    bool is_done;          /* it failed, has left, or the gang is over: no more tries */
    struct lookup *lookup; /* of the leader's name; NULL: none */
    uv_timer_t timer;      /* for the next try, and for the end of all tries */
    struct address_list own, targets;
    size_t n_tried;              /* of the targets */
    struct buf reasons;          /* why each target was not reached */
    bool are_reasons_old;        /* of the round before */
    bool is_odd;                 /* not only that nobody listens yet: the user is told at once */
    uint64_t pause_ms, until_ms; /* UINT64_MAX: without end */
};

struct rendezvous {
    struct rendezvous_opts opts; /* its texts are this struct's own */
    struct proof_key key;
    const struct side *side;
    struct leader leader;
    struct follower follower;
    struct peer *peers;
    size_t n_open; /* handles and requests of the loop that are not closed yet */
    bool is_closed;
    uint64_t now_ms, ticked_ms;
    struct {
        char last[WARN_TEXT_MAX];
        uint64_t second;
        unsigned n;
    } warned;
};

/* ---- rendezvous.c ---- */

struct rendezvous *rendezvous_new(const struct rendezvous_opts *opts, const struct side *side);
/* One handle or request is closed; frees the rendezvous after the last one. */
void rendezvous_let_go(struct rendezvous *r);
/* Monotonic, and never smaller than the owner's last now_ms. */
uint64_t rendezvous_now(struct rendezvous *r);
void rendezvous_warn(struct rendezvous *r, const char *fmt, ...) PRINTF(2, 3);

/* ---- peer.c ---- */

struct peer *peer_new(struct rendezvous *r, enum peer_state state);
/* The peer is connected: begins to read, and sends the preamble. */
void peer_begin(struct peer *peer);
void peer_send(struct peer *peer, enum frame_type type, struct str body);
/* Gives the connection up. peer_check(), which each tick and flush calls, closes it. */
void peer_break(struct peer *peer, int code, const char *fmt, ...) PRINTF(3, 4);
void peer_check(struct peer *peer);
/* False: the link is broken, since the body is malformed. */
bool peer_body_is_whole(struct peer *peer, const struct wire_body *body);
/* The handshake is done. */
void peer_welcome(struct peer *peer, uint64_t silence_limit_ms);
/* Adds the proof to a body that is complete without it, and both to what was said. */
void peer_proof_add(struct peer *peer, enum proof_role role, struct buf *body);
/* After the fields of `whole` were read: takes its proof, which must be its end. False: it is malformed, or not good. */
bool peer_proof_take(struct peer *peer, enum proof_role role, struct str whole,
                     struct wire_body *body, struct proof *proof);

extern const struct side leader_side, follower_side;
MUST_CHECK int leader_begin(struct rendezvous *r, struct err *err);
