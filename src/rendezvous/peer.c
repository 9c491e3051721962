/* SPDX-License-Identifier: Apache-2.0
 *
 * One connection, at either end.
 */
#include "base/cleanup.h"
#include "base/console_text.h"
#include "base/xalloc.h"
#include "rendezvous/rendezvous_impl.h"

enum {
    READ_BYTES = 64 * 1024,
    PENDING_READ_BYTES = 2 * 1024,
    WRITE_BYTES = 64 * 1024,
    KEEP_ALIVE_S = 60,
    BACKLOG_BYTES =
        64 << 20, /* that a member has not taken; all exits of a follower's ranks need less */
    PENDING_BACKLOG_BYTES = 4 * 1024,
    NOISE_SHOWN_BYTES = 40
};

static void on_closed(uv_handle_t *handle)
{
    struct peer *peer = handle->data;
    struct rendezvous *r = peer->rendezvous;
    *peer->link_of = peer->next;
    if (peer->next)
        peer->next->link_of = peer->link_of;
    if (!r->is_closed)
        r->side->ended(peer);
    link_release(&peer->link);
    buf_release(&peer->said);
    free(peer);
    rendezvous_let_go(r);
}

/* Adds what came instead of frames to the error, which tells the user more. */
static void noise_say(struct peer *peer)
{
    cleanup_buf struct buf noise = BUF_INIT, shown = BUF_INIT;
    struct err *why = &peer->link.broken;
    if (peer->link.reader.has_begun || !peer->link.reader.is_broken)
        return;
    wire_noise_add(&peer->link.reader, &noise);
    console_visible_add(&shown, (struct str){noise.at, MIN(noise.len, (size_t)NOISE_SHOWN_BYTES)});
    fail(why, ERR_DATA, "what speaks there is not muster; it begins with \"%s\"", buf_text(&shown));
}

void peer_check(struct peer *peer)
{
    if (!link_is_broken(&peer->link) || peer->is_closing)
        return;
    peer->is_closing = true;
    noise_say(peer);
    uv_close((uv_handle_t *)&peer->tcp, on_closed);
}

void peer_break(struct peer *peer, int code, const char *fmt, ...)
{
    struct err why = {0};
    char text[sizeof(why.text)];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    fail(&why, code, "%s", text);
    link_break(&peer->link, &why);
}

/* ---- bytes ---- */

/*
 * Bytes that the kernel does not take now are offered again at the next flush: the owner's loop wakes several times a
 * second, and the kernel takes all of a peer's bytes in a few of these turns.
 */
static ssize_t on_write(void *context, struct str bytes)
{
    struct peer *peer = context;
    uv_buf_t all =
        uv_buf_init((char *)(uintptr_t)bytes.at, (unsigned)MIN(bytes.len, (size_t)WRITE_BYTES));
    int put = peer->is_closing ? 0 : uv_try_write((uv_stream_t *)&peer->tcp, &all, 1);
    return put == UV_EAGAIN ? 0 : put;
}

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    static char scratch[READ_BYTES];
    const struct peer *peer = handle->data;
    (void)suggested;
    *out = uv_buf_init(scratch, peer->state == PEER_MEMBER ? READ_BYTES : PENDING_READ_BYTES);
}

/* A peer that asks and does not listen must not fill the memory with answers. */
static void backlog_check(struct peer *peer)
{
    size_t max = peer->state == PEER_MEMBER ? BACKLOG_BYTES : PENDING_BACKLOG_BYTES;
    if (peer->link.out.len - peer->link.n_sent > max)
        peer_break(peer, ERR_UNAVAILABLE, "it does not take what it is sent");
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *bytes)
{
    struct peer *peer = stream->data;
    if (n > 0 && !link_is_broken(&peer->link)) {
        link_feed(&peer->link, (struct str){bytes->base, (size_t)n},
                  rendezvous_now(peer->rendezvous));
        backlog_check(peer);
    }
    peer->has_closed |= n == UV_EOF;
    if (n == UV_EOF)
        peer_break(peer, ERR_UNAVAILABLE, "it closed the connection");
    else if (n < 0)
        peer_break(peer, ERR_UNAVAILABLE, "%s", errno_text((int)-n));
    peer_check(peer);
}

/* ---- frames ---- */

static void on_frame(void *context, const struct frame *frame)
{
    struct peer *peer = context;
    struct wire_body body = wire_body_of(frame->body);
    const struct peer_step *step = peer->rendezvous->side->steps;
    if (peer->rendezvous->is_closed)
        return;
    while (step->take && (step->state != peer->state || step->type != frame->type))
        step++;
    if (step->take)
        step->take(peer, &body);
    else
        peer_break(peer, ERR_DATA, "it sent a %s that was not expected", frame_name(frame->type));
}

static void on_has_room(void *context)
{
    (void)context;
}

static const struct link_handlers link_handlers = {
    .write = on_write, .frame = on_frame, .has_room = on_has_room};

void peer_send(struct peer *peer, enum frame_type type, struct str body)
{
    link_send(&peer->link, &(struct frame){type, 0, WIRE_NO_WORKER, body});
}

bool peer_body_is_whole(struct peer *peer, const struct wire_body *body)
{
    if (!wire_body_is_whole(body))
        peer_break(peer, ERR_DATA, "it sent a message that is malformed");
    return wire_body_is_whole(body);
}

/* ---- its life ---- */

struct peer *peer_new(struct rendezvous *r, enum peer_state state)
{
    struct peer *peer = xcalloc(1, sizeof(*peer));
    *peer = (struct peer){.rendezvous = r,
                          .next = r->peers,
                          .link_of = &r->peers,
                          .state = state,
                          .begin_ms = rendezvous_now(r)};
    uv_tcp_init(r->opts.loop, &peer->tcp);
    peer->tcp.data = peer;
    link_begin(&peer->link, &link_handlers, peer, GREETING_MS, peer->begin_ms);
    peer->link.reader.is_strict = true;
    peer->link.reader.body_max = PENDING_BODY_MAX;
    if (r->peers)
        r->peers->link_of = &peer->next;
    r->peers = peer;
    r->n_open++;
    return peer;
}

void peer_begin(struct peer *peer)
{
    uv_tcp_nodelay(&peer->tcp, 1);
    uv_tcp_keepalive(&peer->tcp, 1, KEEP_ALIVE_S);
    uv_read_start((uv_stream_t *)&peer->tcp, on_room, on_read);
}

void peer_welcome(struct peer *peer, uint64_t silence_limit_ms)
{
    peer->state = PEER_MEMBER;
    peer->link.silence_limit_ms = silence_limit_ms;
    peer->link.reader.body_max = (uint32_t)wire_body_max(FRAME_GANG_EXIT);
    buf_release(&peer->said);
}

void peer_proof_add(struct peer *peer, enum proof_role role, struct buf *body)
{
    struct wire_body out = wire_body_to(body);
    buf_add_str(&peer->said, buf_str(body));
    struct proof proof = proof_make(&peer->rendezvous->key, role, buf_str(&peer->said));
    message_proof(&out, &proof);
}

bool peer_proof_take(struct peer *peer, enum proof_role role, struct str whole,
                     struct wire_body *body, struct proof *proof)
{
    buf_add(&peer->said, whole.at, whole.len - body->in.len);
    message_proof(body, proof);
    return peer_body_is_whole(peer, body) &&
           proof_is_good(&peer->rendezvous->key, role, buf_str(&peer->said), proof);
}
