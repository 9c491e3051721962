/* SPDX-License-Identifier: Apache-2.0
 *
 * The end that connects, and connects again when the connection is lost: a round of tries, one for each address of
 * the leader's name, then a pause.
 */
#include <sodium.h>

#include "base/cleanup.h"
#include "base/console_text.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "rendezvous/rendezvous_impl.h"

enum {
    CONNECT_MS = 5000, /* for each address */
    PAUSE_MIN_MS = 200,
    SAID_FROM_PAUSE_MS = 800, /* if all start together, the leader may come a moment later */
    PAUSE_MAX_MS = 2000
};

static void try_next(struct rendezvous *r);

/* ---- rounds of tries ---- */

static void asking_begin(struct rendezvous *r)
{
    struct follower *f = &r->follower;
    f->is_welcome = false;
    f->pause_ms = PAUSE_MIN_MS;
    f->until_ms = r->opts.join_ms > 0 ? rendezvous_now(r) + r->opts.join_ms : UINT64_MAX;
}

static void try_give_up(struct rendezvous *r)
{
    struct peer *peer = r->follower.peer;
    if (!peer)
        return;
    peer_break(peer, ERR_STOPPED, "given up");
    peer_check(peer);
}

static void done(struct rendezvous *r, const struct err *why)
{
    struct follower *f = &r->follower;
    if (f->is_done)
        return;
    f->is_done = true;
    uv_timer_stop(&f->timer);
    try_give_up(r);
    r->opts.handlers->failed(r->opts.context, why);
}

static void give_up(struct rendezvous *r)
{
    const struct follower *f = &r->follower;
    struct err why = {0};
    const char *now = f->lookup ? "no name server answers" : "it does not answer";
    char limit[24];
    duration_format(limit, r->opts.join_ms);
    fail(&why, ERR_TIMEOUT, "the leader at %s, port %u, could not be had within %s: %s",
         r->opts.host, r->opts.port, limit, f->reasons.len > 0 ? buf_text(&f->reasons) : now);
    done(r, &why);
}

static void reason_add(struct rendezvous *r, const char *what, const char *why)
{
    struct buf *reasons = &r->follower.reasons;
    cleanup_free char *shown = console_visible_new(why);
    if (r->follower.are_reasons_old)
        buf_reset(reasons);
    r->follower.are_reasons_old = false;
    buf_addf(reasons, "%s%s%s%s", reasons->len > 0 ? "; " : "", what, what[0] ? ": " : "", shown);
}

static void on_timer(uv_timer_t *timer);

static void round_end(struct rendezvous *r)
{
    struct follower *f = &r->follower;
    uint64_t left_ms = f->until_ms - MIN(rendezvous_now(r), f->until_ms);
    if (f->is_odd || f->pause_ms >= SAID_FROM_PAUSE_MS)
        rendezvous_warn(r, "the leader at %s, port %u, cannot be had yet: %s", r->opts.host,
                        r->opts.port, buf_text(&f->reasons));
    if (r->is_closed || f->is_done)
        return;
    uv_timer_start(&f->timer, on_timer, MIN(f->pause_ms, left_ms), 0);
    f->pause_ms = MIN(2 * f->pause_ms, (uint64_t)PAUSE_MAX_MS);
}

/* Begins a round: at once for an address, after the lookup for a name. */
static void round_begin(struct rendezvous *r)
{
    struct follower *f = &r->follower;
    f->n_tried = 0;
    f->targets.len = 0;
    f->are_reasons_old = true;
    f->is_odd = false;
    if (address_parse(r->opts.host, r->opts.port, &f->targets)) {
        try_next(r);
        return;
    }
    f->lookup = lookup_begin(r->opts.host, r->opts.port);
    if (f->lookup)
        return;
    reason_add(r, "", "no thread can be had to look the name up");
    round_end(r);
}

static void lookup_take(struct rendezvous *r)
{
    struct follower *f = &r->follower;
    struct err err = {0};
    f->is_odd = lookup_result(f->lookup, &f->targets, &err) != 0;
    if (f->is_odd)
        reason_add(r, "", err.text);
    lookup_forget(steal_ptr(&f->lookup));
    try_next(r);
}

static void on_timer(uv_timer_t *timer)
{
    struct rendezvous *r = timer->data;
    struct follower *f = &r->follower;
    if (f->is_done || f->is_welcome)
        return;
    if (rendezvous_now(r) >= f->until_ms)
        give_up(r);
    else if (f->lookup && lookup_is_done(f->lookup))
        lookup_take(r);
    else if (!f->peer && !f->lookup)
        round_begin(r);
}

/* ---- one try ---- */

/* Is it a connection from a port to itself? The kernel can make one if nobody listens there. */
static bool is_own_echo(const uv_tcp_t *tcp)
{
    struct address here = {0}, there = {0};
    int here_len = sizeof(here), there_len = sizeof(there);
    return uv_tcp_getsockname(tcp, &here.any, &here_len) == 0 &&
           uv_tcp_getpeername(tcp, &there.any, &there_len) == 0 && address_is_same(&here, &there) &&
           address_port(&here) == address_port(&there);
}

static void on_connected(uv_connect_t *connect, int status)
{
    struct peer *peer = connect->data;
    if (status == 0 && is_own_echo(&peer->tcp))
        status = UV_ECONNREFUSED;
    if (status < 0) {
        peer_break(peer, ERR_UNAVAILABLE, "%s", errno_text(-status));
    } else {
        peer->state = PEER_GREETS;
        peer_begin(peer);
        link_flush(&peer->link, rendezvous_now(peer->rendezvous));
    }
    peer_check(peer);
}

static int connect_begin(struct peer *peer, const struct address *target)
{
    const struct rendezvous *r = peer->rendezvous;
    const struct address *from = address_source(&r->follower.own, target);
    int flaw = 0;
    if (r->opts.local_addr && !from)
        return UV_EADDRNOTAVAIL;
    if (from)
        flaw = uv_tcp_bind(&peer->tcp, &from->any, 0);
    peer->connect.data = peer;
    return flaw ? flaw : uv_tcp_connect(&peer->connect, &peer->tcp, &target->any, on_connected);
}

static void try_next(struct rendezvous *r)
{
    struct follower *f = &r->follower;
    if (f->n_tried == f->targets.len) {
        round_end(r);
        return;
    }
    const struct address *target = &f->targets.at[f->n_tried++];
    f->peer = peer_new(r, PEER_CONNECTS);
    address_text(target, f->peer->address);
    int flaw = connect_begin(f->peer, target);
    if (flaw)
        peer_break(f->peer, ERR_UNAVAILABLE, "%s", errno_text(-flaw));
    peer_check(f->peer);
}

static void follower_ended(struct peer *peer)
{
    struct rendezvous *r = peer->rendezvous;
    struct follower *f = &r->follower;
    f->peer = NULL;
    if (f->is_done)
        return;
    if (peer->state != PEER_MEMBER) {
        f->is_odd |= peer->state != PEER_CONNECTS;
        reason_add(r, peer->address, peer->link.broken.text);
        try_next(r);
        return;
    }
    asking_begin(r);
    uv_timer_start(&f->timer, on_timer, f->pause_ms, 0);
    r->opts.handlers->lost(r->opts.context, &peer->link.broken);
}

static void follower_tick(struct rendezvous *r)
{
    struct follower *f = &r->follower;
    if (f->peer && f->peer->state == PEER_CONNECTS && r->now_ms - f->peer->begin_ms > CONNECT_MS)
        peer_break(f->peer, ERR_UNAVAILABLE, "nothing answers there");
    if (f->peer)
        peer_check(f->peer);
    bool is_due = r->now_ms >= f->until_ms || (f->lookup && lookup_is_done(f->lookup));
    if (!f->is_welcome && !f->is_done && is_due)
        uv_timer_start(&f->timer, on_timer, 0, 0);
}

/* ---- the handshake ---- */

static void refused_for_good(struct rendezvous *r, int code, const char *why)
{
    struct err err = {0};
    fail(&err, code, "the leader at %s, port %u, refuses this machine: %s", r->opts.host,
         r->opts.port, why);
    done(r, &err);
}

/* Refuses the leader's protocol. The leader finds out by the GANG_JOIN. */
static void protocol_refuse(struct peer *peer, const struct message_version *there)
{
    struct rendezvous *r = peer->rendezvous;
    cleanup_free char *version = console_visible_new(there->version);
    cleanup_free char *why =
        xasprintf("the leader is muster %s (protocol %u), this is muster %s (protocol %d); "
                  "install the same version on both machines",
                  version, there->protocol, r->opts.version, RENDEZVOUS_PROTOCOL);
    refused_for_good(r, ERR_UNAVAILABLE, why);
}

static void take_challenge(struct peer *peer, struct wire_body *body)
{
    const struct rendezvous *r = peer->rendezvous;
    const struct str whole = body->in;
    struct message_challenge challenge = {0};
    struct message_join join = {.version.protocol = RENDEZVOUS_PROTOCOL};
    cleanup_buf struct buf out = BUF_INIT;
    struct wire_body to = wire_body_to(&out);
    message_challenge(body, &challenge);
    bool is_same_protocol = challenge.version.protocol == RENDEZVOUS_PROTOCOL;
    if (is_same_protocol && !peer_body_is_whole(peer, body))
        return;
    snprintf(join.version.version, VERSION_MAX, "%s", r->opts.version);
    snprintf(join.run_id, RUN_ID_MAX, "%s", r->opts.run_id);
    join.member = r->follower.self;
    join.member.node = r->follower.asked_node;
    join.n_nodes_max = r->opts.n_nodes_max;
    randombytes_buf(join.nonce, NONCE_BYTES);
    message_join(&to, &join);
    buf_add_str(&peer->said, whole);
    peer_proof_add(peer, PROOF_OF_FOLLOWER, &out);
    peer_send(peer, FRAME_GANG_JOIN, buf_str(&out));
    link_flush(&peer->link, rendezvous_now(peer->rendezvous));
    peer->state = PEER_ASKS;
    if (!is_same_protocol)
        protocol_refuse(peer, &challenge.version);
}

static void take_welcome(struct peer *peer, struct wire_body *body)
{
    struct rendezvous *r = peer->rendezvous;
    struct follower *f = &r->follower;
    const struct str whole = body->in;
    struct message_welcome welcome = {0};
    struct proof proof = {0};
    message_welcome(body, &welcome);
    if (!peer_proof_take(peer, PROOF_OF_LEADER, whole, body, &proof)) {
        peer_break(peer, ERR_UNAVAILABLE, "what answers there does not know the token");
        return;
    }
    peer_welcome(peer, welcome.silence_limit_ms);
    uv_timer_stop(&f->timer);
    f->is_welcome = true;
    f->asked_node = welcome.node;
    r->opts.handlers->welcomed(r->opts.context, welcome.node);
}

static void take_refused(struct peer *peer, struct wire_body *body)
{
    struct rendezvous *r = peer->rendezvous;
    struct message_refused refused = {0};
    message_refused(body, &refused);
    if (!peer_body_is_whole(peer, body))
        return;
    cleanup_free char *said = console_visible_new(refused.why.text);
    peer_break(peer, ERR_UNAVAILABLE, "it refuses this machine: %s", said);
    r->follower.asked_node = r->follower.self.node; /* another machine may have its number now */
    if (refused.is_final)
        refused_for_good(r, refused.why.code == ERR_USAGE ? ERR_USAGE : ERR_UNAVAILABLE, said);
}

/* ---- orders ---- */

/* Is the frame a valid order? After rendezvous_leave() there is none. */
static bool is_order(struct peer *peer, const struct wire_body *body)
{
    return peer_body_is_whole(peer, body) && !peer->rendezvous->follower.is_done;
}

static void take_start(struct peer *peer, struct wire_body *body)
{
    const struct rendezvous *r = peer->rendezvous;
    struct rendezvous_start start = {0};
    message_start(body, &start);
    if (is_order(peer, body))
        r->opts.handlers->start(r->opts.context, &start);
}

static void take_end(struct peer *peer, struct wire_body *body)
{
    const struct rendezvous *r = peer->rendezvous;
    struct rendezvous_end end = {0};
    message_end(body, &end);
    if (is_order(peer, body))
        r->opts.handlers->end(r->opts.context, &end);
}

static void take_retry(struct peer *peer, struct wire_body *body)
{
    const struct rendezvous *r = peer->rendezvous;
    uint64_t pause_ms = 0;
    struct str why = STR("");
    message_retry(body, &pause_ms, &why);
    if (is_order(peer, body))
        r->opts.handlers->retry(r->opts.context, pause_ms, why);
}

static void take_over(struct peer *peer, struct wire_body *body)
{
    struct rendezvous *r = peer->rendezvous;
    struct rendezvous_over over = {0};
    message_over(body, &over);
    if (!is_order(peer, body))
        return;
    r->follower.is_done = true; /* ignore the connection from now on */
    peer_break(peer, ERR_STOPPED, "the gang is over");
    r->opts.handlers->over(r->opts.context, &over);
}

static void take_ask(struct peer *peer, struct wire_body *body)
{
    struct rendezvous *r = peer->rendezvous;
    uint32_t local_rank = 0;
    message_ask(body, &local_rank);
    if (is_order(peer, body))
        r->opts.handlers->asked(r->opts.context, local_rank);
}

static const struct peer_step steps[] = {{PEER_GREETS, FRAME_GANG_CHALLENGE, take_challenge},
                                         {PEER_ASKS, FRAME_GANG_WELCOME, take_welcome},
                                         {PEER_ASKS, FRAME_GANG_REFUSED, take_refused},
                                         {PEER_MEMBER, FRAME_GANG_START, take_start},
                                         {PEER_MEMBER, FRAME_GANG_END, take_end},
                                         {PEER_MEMBER, FRAME_GANG_ASK, take_ask},
                                         {PEER_MEMBER, FRAME_GANG_RETRY, take_retry},
                                         {PEER_MEMBER, FRAME_GANG_OVER, take_over},
                                         {0}};

/* ---- its life ---- */

static void on_timer_closed(uv_handle_t *handle)
{
    rendezvous_let_go(handle->data);
}

static void follower_close(struct rendezvous *r)
{
    uv_close((uv_handle_t *)&r->follower.timer, on_timer_closed);
    lookup_forget(steal_ptr(&r->follower.lookup));
}

const struct side follower_side = {
    .steps = steps, .ended = follower_ended, .tick = follower_tick, .close = follower_close};

int rendezvous_follow(const struct rendezvous_opts *opts, const struct rendezvous_member *self,
                      struct rendezvous **out, struct err *err)
{
    struct address_list own = {0};
    int rc = opts->local_addr ? addresses_own(opts->local_addr, 0, &own, err) : 0;
    if (rc)
        return rc;
    struct rendezvous *r = rendezvous_new(opts, &follower_side);
    r->follower.self = *self;
    randombytes_buf(&r->follower.self.process, sizeof(r->follower.self.process));
    r->follower.asked_node = self->node;
    r->follower.own = own;
    uv_timer_init(opts->loop, &r->follower.timer);
    r->follower.timer.data = r;
    r->n_open++;
    asking_begin(r);
    uv_timer_start(&r->follower.timer, on_timer, 0, 0);
    *out = r;
    return 0;
}

/* ---- what is told ---- */

static struct peer *leader_of(const struct rendezvous *r)
{
    return r->follower.is_welcome && !r->follower.is_done ? r->follower.peer : NULL;
}

void rendezvous_tell_exit(struct rendezvous *r, const struct rendezvous_exit *exit)
{
    cleanup_buf struct buf out = BUF_INIT;
    struct rendezvous_exit copy = *exit;
    struct wire_body body = wire_body_to(&out);
    message_exit(&body, &copy);
    if (leader_of(r))
        peer_send(leader_of(r), FRAME_GANG_EXIT, buf_str(&out));
}

void rendezvous_tell_empty(struct rendezvous *r)
{
    if (leader_of(r))
        peer_send(leader_of(r), FRAME_GANG_EMPTY, STR(""));
}

void rendezvous_tell_stand(struct rendezvous *r, const struct rendezvous_stand *stand)
{
    cleanup_buf struct buf out = BUF_INIT;
    struct rendezvous_stand copy = *stand;
    struct wire_body body = wire_body_to(&out);
    message_stand(&body, &copy);
    if (leader_of(r))
        peer_send(leader_of(r), FRAME_GANG_STAND, buf_str(&out));
}

void rendezvous_tell_where(struct rendezvous *r, const struct rendezvous_where *where)
{
    cleanup_buf struct buf out = BUF_INIT;
    struct rendezvous_where copy = *where;
    struct wire_body body = wire_body_to(&out);
    message_where(&body, &copy);
    if (leader_of(r))
        peer_send(leader_of(r), FRAME_GANG_WHERE, buf_str(&out));
}

void rendezvous_leave(struct rendezvous *r, struct str why)
{
    cleanup_buf struct buf out = BUF_INIT;
    struct wire_body body = wire_body_to(&out);
    message_leave(&body, &why);
    if (leader_of(r))
        peer_send(leader_of(r), FRAME_GANG_LEAVE, buf_str(&out));
    else
        try_give_up(r);
    r->follower.is_done = true;
    uv_timer_stop(&r->follower.timer);
}
