/* SPDX-License-Identifier: Apache-2.0
 *
 * The end that listens, and says who is a member.
 */
#include <sodium.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/console_text.h"
#include "base/xalloc.h"
#include "rendezvous/rendezvous_impl.h"

enum {
    BACKLOG = 1024,
    PENDING_MAX = 64, /* connections in the handshake */
    CROWD_MS = 1000,  /* the time that each of them has while there are so many */
    TENTATIVE_MS = 5000,
    TENTATIVE_LOOK_NS = 50000000,
    LEADER_NODE = 0
};

/* ---- who comes ---- */

static void challenge_send(struct peer *peer)
{
    const struct rendezvous *r = peer->rendezvous;
    struct message_challenge challenge = {.version.protocol = RENDEZVOUS_PROTOCOL};
    struct wire_body body = wire_body_to(&peer->said);
    snprintf(challenge.version.version, VERSION_MAX, "%s", r->opts.version);
    randombytes_buf(challenge.nonce, NONCE_BYTES);
    message_challenge(&body, &challenge);
    peer_send(peer, FRAME_GANG_CHALLENGE, buf_str(&peer->said));
    link_flush(&peer->link, peer->begin_ms);
}

static void accept_one(struct rendezvous *r, uv_stream_t *listener)
{
    struct peer *peer = peer_new(r, PEER_GREETS);
    struct address address = {0};
    int len = sizeof(address);
    r->leader.n_pending++;
    int flaw = uv_accept(listener, (uv_stream_t *)&peer->tcp);
    if (flaw == 0)
        flaw = uv_tcp_getpeername(&peer->tcp, &address.any, &len);
    if (flaw) { /* the connection is gone already */
        peer_break(peer, ERR_UNAVAILABLE, "%s", errno_text(-flaw));
    } else {
        address_text(&address, peer->address);
        peer_begin(peer);
        challenge_send(peer);
    }
    peer_check(peer);
}

/* Accepts a connection, if there is room; others wait in the kernel. */
static void on_connection(uv_stream_t *listener, int status)
{
    struct rendezvous *r = listener->data;
    size_t number = (size_t)((uv_tcp_t *)listener - r->leader.listeners.at);
    if (status < 0)
        rendezvous_warn(r, "a connection could not be taken: %s", errno_text(-status));
    else if (r->leader.n_pending < PENDING_MAX)
        accept_one(r, listener);
    else
        r->leader.listeners.has_waiting[number] = true;
}

static void waiting_accept(struct rendezvous *r)
{
    for (size_t i = 0; i < r->leader.listeners.len && !r->is_closed; i++)
        if (r->leader.listeners.has_waiting[i] && r->leader.n_pending < PENDING_MAX) {
            r->leader.listeners.has_waiting[i] = false;
            accept_one(r, (uv_stream_t *)&r->leader.listeners.at[i]);
        }
}

/* Connections that never finish the handshake must not keep others out. */
static void leader_tick(struct rendezvous *r)
{
    for (struct peer *peer = r->peers; peer && r->leader.n_pending >= PENDING_MAX;
         peer = peer->next) {
        if (peer->state != PEER_MEMBER && r->now_ms - peer->begin_ms > CROWD_MS)
            peer_break(peer, ERR_UNAVAILABLE,
                       "it did not say in time who it is; %d others have not yet", PENDING_MAX - 1);
        peer_check(peer);
    }
}

/* ---- what is said in the handshake ---- */

/* The judges below fill *out with the reason of a refusal; it is final unless they say otherwise. */
static int protocol_judge(struct peer *peer, const struct message_join *join,
                          struct message_refused *out)
{
    if (join->version.protocol == RENDEZVOUS_PROTOCOL)
        return 0;
    return fail(&out->why, ERR_UNAVAILABLE,
                "the leader is muster %s (protocol %d), the follower muster %s (protocol %u); "
                "install the same version on both machines",
                peer->rendezvous->opts.version, RENDEZVOUS_PROTOCOL, join->version.version,
                join->version.protocol);
}

static int token_judge(const struct peer *peer, const struct proof *proof,
                       struct message_refused *out)
{
    const char *flaw = "the leader's token is not the follower's";
    if (!proof->is_there)
        flaw = "the leader was given a token, the follower none";
    else if (!peer->rendezvous->key.is_there)
        flaw = "the follower was given a token, the leader none";
    return fail(&out->why, ERR_UNAVAILABLE,
                "%s; give a --rdzv-token-file with the same content on all machines", flaw);
}

static int run_judge(struct peer *peer, const struct message_join *join,
                     struct message_refused *out)
{
    const char *own = peer->rendezvous->opts.run_id;
    if (strcmp(own, join->run_id) == 0)
        return 0;
    return fail(&out->why, ERR_USAGE,
                "the leader's run is '%.100s', the follower's '%.100s'; give the same --rdzv-id "
                "on all machines, or another port to each run",
                own, join->run_id);
}

static int number_of_nodes_judge(struct peer *peer, const struct message_join *join,
                                 struct message_refused *out)
{
    uint32_t own = peer->rendezvous->opts.n_nodes_max;
    if (join->n_nodes_max == own)
        return 0;
    return fail(&out->why, ERR_USAGE,
                "the leader expects %u machines, the follower %u; give the same --nnodes on all "
                "machines",
                own, join->n_nodes_max);
}

/* Does the member come back by another connection? Its old one must have been silent, without even heartbeats. */
static bool is_replacement(const struct peer *had, const struct rendezvous_member *member)
{
    struct rendezvous *r = had->rendezvous;
    uint64_t two_heartbeats_ms = 2 * had->link.silence_limit_ms / LINK_PINGS;
    return strcmp(had->member.host, member->host) == 0 &&
           rendezvous_now(r) - had->link.heard_ms >= two_heartbeats_ms;
}

static int node_judge(struct peer *peer, const struct message_join *join,
                      struct message_refused *out)
{
    const struct rendezvous *r = peer->rendezvous;
    uint32_t node = join->member.node, n_max = r->opts.n_nodes_max;
    const struct peer *had = node < n_max ? r->leader.members[node] : NULL;
    if (node == LEADER_NODE)
        return fail(&out->why, ERR_USAGE, "machine %u is the leader itself", LEADER_NODE);
    if (node != RENDEZVOUS_ANY_NODE && node >= n_max)
        return fail(&out->why, ERR_USAGE,
                    "machine %u: the leader expects %u machines, from 0 to %u", node, n_max,
                    n_max - 1);
    out->is_final = false;
    if (had && !is_replacement(had, &join->member))
        return fail(&out->why, ERR_UNAVAILABLE, "machine %u is taken by %.100s (%s)", node,
                    had->member.host, had->address);
    return 0;
}

/* Finds the first number that is free, or that a replaced member frees. */
static int number_find(struct peer *peer, struct message_join *join, struct message_refused *out)
{
    const struct rendezvous *r = peer->rendezvous;
    uint32_t node = 1;
    if (join->member.node != RENDEZVOUS_ANY_NODE)
        return 0;
    while (node < r->opts.n_nodes_max && r->leader.members[node] &&
           !is_replacement(r->leader.members[node], &join->member))
        node++;
    join->member.node = node;
    if (node < r->opts.n_nodes_max)
        return 0;
    out->is_final = false;
    return fail(&out->why, ERR_UNAVAILABLE, "all %u machines are there already",
                r->opts.n_nodes_max);
}

/* ---- members ---- */

static void member_leave(struct peer *peer)
{
    struct rendezvous *r = peer->rendezvous;
    peer->state = PEER_REFUSED;
    r->leader.members[peer->member.node] = NULL;
    r->opts.handlers->left(r->opts.context, peer->member.node, &peer->link.broken,
                           peer->has_closed);
}

static void refuse(struct peer *peer, struct message_refused *refused)
{
    cleanup_buf struct buf out = BUF_INIT;
    cleanup_free char *said = console_visible_new(refused->why.text);
    struct wire_body body = wire_body_to(&out);
    message_refused(&body, refused);
    peer_send(peer, FRAME_GANG_REFUSED, buf_str(&out));
    link_flush(&peer->link, rendezvous_now(peer->rendezvous));
    peer->state = PEER_REFUSED; /* the follower closes the connection when it has read the reason */
    rendezvous_warn(peer->rendezvous, "the machine at %s was refused: %s", peer->address, said);
}

static void welcome_send(struct peer *peer)
{
    cleanup_buf struct buf out = BUF_INIT;
    struct wire_body body = wire_body_to(&out);
    struct message_welcome welcome = {.node = peer->member.node,
                                      .silence_limit_ms = peer->rendezvous->opts.silence_limit_ms};
    message_welcome(&body, &welcome);
    peer_proof_add(peer, PROOF_OF_LEADER, &out);
    peer_send(peer, FRAME_GANG_WELCOME, buf_str(&out));
}

static void member_take(struct peer *peer, const struct rendezvous_member *member)
{
    struct rendezvous *r = peer->rendezvous;
    struct peer *had = r->leader.members[member->node];
    if (had) {
        peer_break(had, ERR_UNAVAILABLE, "it has come back by another connection");
        member_leave(had);
        peer_check(had);
    }
    if (r->is_closed)
        return;
    peer->member = *member;
    welcome_send(peer);
    peer_welcome(peer, r->opts.silence_limit_ms);
    r->leader.members[member->node] = peer;
    r->leader.n_pending--;
    waiting_accept(r);
    r->opts.handlers->joined(r->opts.context, &peer->member);
}

static void host_clean(struct rendezvous_member *member)
{
    cleanup_buf struct buf shown = BUF_INIT;
    console_visible_add(&shown, str_of(member->host));
    size_t len = console_text_cut(buf_str(&shown), sizeof(member->host) - 1);
    snprintf(member->host, sizeof(member->host), "%.*s", (int)len, buf_text(&shown));
}

/* ---- frames ---- */

static void take_join(struct peer *peer, struct wire_body *body)
{
    const struct str whole = body->in;
    struct message_join join = {0};
    struct message_refused refused = {.is_final = true};
    struct proof proof = {0};
    message_join(body, &join);
    int rc = protocol_judge(peer, &join, &refused);
    if (rc == 0 && !peer_proof_take(peer, PROOF_OF_FOLLOWER, whole, body, &proof)) {
        if (link_is_broken(&peer->link))
            return;
        rc = token_judge(peer, &proof, &refused);
    }
    host_clean(&join.member);
    if (rc == 0)
        rc = run_judge(peer, &join, &refused);
    if (rc == 0)
        rc = number_of_nodes_judge(peer, &join, &refused);
    if (rc == 0)
        rc = node_judge(peer, &join, &refused);
    if (rc == 0)
        rc = number_find(peer, &join, &refused);
    if (rc)
        refuse(peer, &refused);
    else
        member_take(peer, &join.member);
}

/* Is the message about the present generation? One about an earlier generation or connection is ignored. */
static bool is_of_member(struct peer *peer, struct wire_body *body, uint32_t generation,
                         uint32_t local_rank)
{
    if (!peer_body_is_whole(peer, body))
        return false;
    if (local_rank >= peer->member.n_ranks)
        peer_break(peer, ERR_DATA, "it speaks of a rank that it does not have");
    return local_rank < peer->member.n_ranks && peer->started.is_there &&
           generation == peer->started.generation;
}

static void take_exit(struct peer *peer, struct wire_body *body)
{
    const struct rendezvous *r = peer->rendezvous;
    struct rendezvous_exit exit = {0};
    message_exit(body, &exit);
    if (is_of_member(peer, body, exit.generation, exit.local_rank))
        r->opts.handlers->exited(r->opts.context, peer->member.node, &exit);
}

static void take_stand(struct peer *peer, struct wire_body *body)
{
    const struct rendezvous *r = peer->rendezvous;
    struct rendezvous_stand stand = {0};
    message_stand(body, &stand);
    if (is_of_member(peer, body, stand.generation, stand.local_rank))
        r->opts.handlers->stands(r->opts.context, peer->member.node, &stand);
}

static void take_where(struct peer *peer, struct wire_body *body)
{
    const struct rendezvous *r = peer->rendezvous;
    struct rendezvous_where where = {0};
    message_where(body, &where);
    if (is_of_member(peer, body, where.generation, where.local_rank))
        r->opts.handlers->where(r->opts.context, peer->member.node, &where);
}

static void take_empty(struct peer *peer, struct wire_body *body)
{
    const struct rendezvous *r = peer->rendezvous;
    if (peer_body_is_whole(peer, body))
        r->opts.handlers->empty(r->opts.context, peer->member.node);
}

static void take_leave(struct peer *peer, struct wire_body *body)
{
    cleanup_buf struct buf shown = BUF_INIT;
    struct str why = STR("");
    message_leave(body, &why);
    if (!peer_body_is_whole(peer, body))
        return;
    console_visible_add(&shown, why);
    peer->has_closed = true;
    peer_break(peer, ERR_UNAVAILABLE, "it left: %s", buf_text(&shown));
}

static const struct peer_step steps[] = {{PEER_GREETS, FRAME_GANG_JOIN, take_join},
                                         {PEER_MEMBER, FRAME_GANG_EXIT, take_exit},
                                         {PEER_MEMBER, FRAME_GANG_STAND, take_stand},
                                         {PEER_MEMBER, FRAME_GANG_WHERE, take_where},
                                         {PEER_MEMBER, FRAME_GANG_EMPTY, take_empty},
                                         {PEER_MEMBER, FRAME_GANG_LEAVE, take_leave},
                                         {0}};

static void leader_ended(struct peer *peer)
{
    struct rendezvous *r = peer->rendezvous;
    bool was_pending = peer->member.node == LEADER_NODE; /* no member has this number */
    if (peer->state == PEER_MEMBER)
        member_leave(peer);
    else if (peer->state == PEER_GREETS)
        rendezvous_warn(r, "a connection from %s came to nothing: %s", peer->address,
                        peer->link.broken.text);
    if (was_pending)
        r->leader.n_pending--;
    waiting_accept(r);
}

/* ---- its life ---- */

static void on_listener_closed(uv_handle_t *handle)
{
    rendezvous_let_go(handle->data);
}

static void leader_close(struct rendezvous *r)
{
    for (size_t i = 0; i < r->leader.listeners.len; i++)
        uv_close((uv_handle_t *)&r->leader.listeners.at[i], on_listener_closed);
}

const struct side leader_side = {
    .steps = steps, .ended = leader_ended, .tick = leader_tick, .close = leader_close};

/* 0, or an error of libuv's. */
static int listen_at(struct rendezvous *r, const struct address *address)
{
    uv_tcp_t *listener = &r->leader.listeners.at[r->leader.listeners.len++];
    struct address bound = {0};
    int len = sizeof(bound);
    uv_tcp_init(r->opts.loop, listener);
    listener->data = r;
    r->n_open++;
    int flaw = uv_tcp_bind(listener, &address->any, 0);
    if (flaw == 0)
        flaw = uv_listen((uv_stream_t *)listener, BACKLOG, on_connection);
    if (flaw == 0)
        flaw = uv_tcp_getsockname(listener, &bound.any, &len);
    if (flaw == 0)
        r->leader.port = address_port(&bound);
    return flaw;
}

/* Listens at every address of this machine: by IPv6 with mapped IPv4, or by IPv4 if there is no IPv6. */
static int listen_at_all(struct rendezvous *r)
{
    const struct address v6 = {.v6 = {.sin6_family = AF_INET6,
                                      .sin6_port = htons(r->opts.port),
                                      .sin6_addr = in6addr_any}};
    const struct address v4 = {.v4 = {.sin_family = AF_INET, .sin_port = htons(r->opts.port)}};
    int flaw = listen_at(r, &v6);
    bool has_v6 = flaw != UV_EAFNOSUPPORT && flaw != UV_EADDRNOTAVAIL;
    return has_v6 ? flaw : listen_at(r, &v4);
}

/* NULL: none. */
static const struct address *tentative_find(const struct address_list *list)
{
    for (size_t i = 0; i < list->len; i++)
        if (address_is_tentative(&list->at[i]))
            return &list->at[i];
    return NULL;
}

/* An interface that was just set up: its address can be had in a moment. A follower would ask again by itself. */
static void addresses_await(struct rendezvous *r, const struct address_list *own)
{
    const uint64_t until_ms = clock_now_ms() + TENTATIVE_MS;
    const struct address *address = tentative_find(own);
    char text[ADDRESS_TEXT_MAX];
    if (!address)
        return;
    address_text(address, text);
    rendezvous_warn(r,
                    "waiting: the kernel checks whether another machine has this machine's "
                    "address %s (tentative)",
                    text);
    while (clock_now_ms() < until_ms && tentative_find(own))
        nanosleep(&(struct timespec){.tv_nsec = TENTATIVE_LOOK_NS}, NULL);
}

static const char *listen_cure(int flaw)
{
    if (flaw == UV_EADDRINUSE)
        return "; end what listens there, perhaps another one of machine 0, or choose another port";
    return flaw == UV_EADDRNOTAVAIL ? "; another machine may have this address too: ip address "
                                      "then shows it as tentative or dadfailed"
                                    : "";
}

int leader_begin(struct rendezvous *r, struct err *err)
{
    struct address_list own = {0};
    const char *local = r->opts.local_addr;
    int rc = local ? addresses_own(local, r->opts.port, &own, err) : 0;
    if (rc)
        return rc;
    addresses_await(r, &own);
    int flaw = local ? 0 : listen_at_all(r);
    for (size_t i = 0; i < own.len && flaw == 0; i++)
        flaw = listen_at(r, &own.at[i]);
    r->leader.members = xcalloc(r->opts.n_nodes_max, sizeof(struct peer *));
    if (flaw == 0)
        return 0;
    fail(err, ERR_UNAVAILABLE, "listen at port %u%s%s: %s%s", r->opts.port, local ? " of " : "",
         local ? local : "", errno_text(-flaw), listen_cure(flaw));
    err->sys = -flaw;
    return ERR_UNAVAILABLE;
}

/* ---- orders ---- */

static struct peer *member_of(const struct rendezvous *r, uint32_t node)
{
    return node < r->opts.n_nodes_max ? r->leader.members[node] : NULL;
}

void rendezvous_order_start(struct rendezvous *r, uint32_t node,
                            const struct rendezvous_start *start)
{
    struct peer *peer = member_of(r, node);
    struct rendezvous_start copy = *start;
    cleanup_buf struct buf out = BUF_INIT;
    struct wire_body body = wire_body_to(&out);
    if (!peer)
        return;
    peer->started.is_there = true;
    peer->started.generation = start->generation;
    message_start(&body, &copy);
    peer_send(peer, FRAME_GANG_START, buf_str(&out));
}

void rendezvous_order_end(struct rendezvous *r, uint32_t node, const struct rendezvous_end *end)
{
    struct peer *peer = member_of(r, node);
    struct rendezvous_end copy = *end;
    cleanup_buf struct buf out = BUF_INIT;
    struct wire_body body = wire_body_to(&out);
    message_end(&body, &copy);
    if (peer)
        peer_send(peer, FRAME_GANG_END, buf_str(&out));
}

void rendezvous_ask_where(struct rendezvous *r, uint32_t node, uint32_t local_rank)
{
    struct peer *peer = member_of(r, node);
    cleanup_buf struct buf out = BUF_INIT;
    struct wire_body body = wire_body_to(&out);
    message_ask(&body, &local_rank);
    if (peer)
        peer_send(peer, FRAME_GANG_ASK, buf_str(&out));
}

static void send_all(struct rendezvous *r, enum frame_type type, const struct buf *body)
{
    for (uint32_t i = 0; i < r->opts.n_nodes_max; i++)
        if (r->leader.members[i])
            peer_send(r->leader.members[i], type, buf_str(body));
}

void rendezvous_say_retry(struct rendezvous *r, uint64_t pause_ms, struct str why)
{
    cleanup_buf struct buf out = BUF_INIT;
    struct wire_body body = wire_body_to(&out);
    message_retry(&body, &pause_ms, &why);
    send_all(r, FRAME_GANG_RETRY, &out);
}

void rendezvous_say_over(struct rendezvous *r, const struct rendezvous_over *over)
{
    cleanup_buf struct buf out = BUF_INIT;
    struct rendezvous_over copy = *over;
    struct wire_body body = wire_body_to(&out);
    message_over(&body, &copy);
    send_all(r, FRAME_GANG_OVER, &out);
}
