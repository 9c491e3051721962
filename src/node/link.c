/* SPDX-License-Identifier: Apache-2.0 */
#include "node/link.h"

#include "base/cleanup.h"
#include "base/parse.h"
#include "node/wire_body.h"

void link_begin(struct link *link, const struct link_handlers *handlers, void *context,
                uint64_t silence_limit_ms, uint64_t now_ms)
{
    *link = (struct link){.handlers = handlers,
                          .context = context,
                          .heard_ms = now_ms,
                          .sent_ms = now_ms,
                          .silence_limit_ms = silence_limit_ms};
    wire_begin(&link->writer, &link->out);
}

void link_release(struct link *link)
{
    buf_release(&link->out);
    wire_reader_release(&link->reader);
}

void link_break(struct link *link, const struct err *why)
{
    if (!link_is_broken(link))
        link->broken = *why;
}

static size_t n_queued(const struct link *link)
{
    return link->out.len - link->n_sent;
}

bool link_has_room(struct link *link)
{
    bool has_room = n_queued(link) < LINK_QUEUE_BYTES;
    link->was_full |= !has_room;
    return has_room;
}

/* Hands bytes to the transport, as many as it takes. */
static void put(struct link *link)
{
    while (n_queued(link) > 0 && !link_is_broken(link)) {
        ssize_t taken = link->handlers->write(
            link->context, (struct str){link->out.at + link->n_sent, n_queued(link)});
        if (taken < 0)
            fail(&link->broken, ERR_UNAVAILABLE, "the connection was closed");
        if (taken <= 0)
            break;
        link->n_sent += (size_t)taken;
        link->n_bytes.sent += (size_t)taken;
    }
    /* Bytes are moved only when that frees at least half of the buffer. */
    if (link->n_sent >= n_queued(link)) {
        buf_consume(&link->out, link->n_sent);
        link->n_sent = 0;
    }
}

void link_send(struct link *link, const struct frame *frame)
{
    if (link_is_broken(link))
        return;
    wire_add(&link->writer, &link->out, frame);
    if (n_queued(link) >= LINK_FLUSH_BYTES)
        put(link);
}

void link_flush(struct link *link, uint64_t now_ms)
{
    if (n_queued(link) > 0) {
        link->sent_ms = now_ms;
        put(link);
    }
    if (link->was_full && n_queued(link) < LINK_QUEUE_BYTES / 2 && !link_is_broken(link)) {
        link->was_full = false;
        link->handlers->has_room(link->context);
        put(link);
    }
}

static void stamp_send(struct link *link, enum frame_type type, uint64_t stamp_ms, uint64_t now_ms)
{
    cleanup_buf struct buf out = BUF_INIT;
    struct wire_body body = wire_body_to(&out);
    wire_u64(&body, &stamp_ms);
    link_send(link, &(struct frame){type, 0, WIRE_NO_WORKER, buf_str(&out)});
    link_flush(link, now_ms);
}

void link_ping(struct link *link, uint64_t now_ms)
{
    stamp_send(link, FRAME_PING, now_ms, now_ms);
}

/* A running mean of about eight answers, in which one slow answer counts for little. */
static void round_trip_take(struct link *link, uint64_t took_ms)
{
    link->round_trip_ms =
        link->has_round_trip ? (7 * link->round_trip_ms + took_ms + 4) / 8 : took_ms;
    link->has_round_trip = true;
}

static void stamp_take(struct link *link, const struct frame *frame, uint64_t now_ms)
{
    struct wire_body body = wire_body_of(frame->body);
    struct err err = {0};
    uint64_t stamp_ms = 0;
    wire_u64(&body, &stamp_ms);
    if (!wire_body_is_whole(&body) || (frame->type == FRAME_PONG && stamp_ms > now_ms))
        link_break(link,
                   (fail(&err, ERR_DATA, "a %s is malformed", frame_name(frame->type)), &err));
    else if (frame->type == FRAME_PING)
        stamp_send(link, FRAME_PONG, stamp_ms, now_ms);
    else
        round_trip_take(link, now_ms - stamp_ms);
}

static void heard(struct link *link, uint64_t now_ms)
{
    link->heard_ms = now_ms;
    link->n_unheard = 0;
}

/*
 * If bytes were lost or changed, the reader may wait for a preamble that has passed, or for a body that is longer
 * than the one that was sent. The other end's pings would fill that body for hours, so small pieces of a frame do not
 * count as heard; a long frame on a slow link does.
 */
void link_feed(struct link *link, struct str bytes, uint64_t now_ms)
{
    struct frame frame;
    link->n_bytes.received += bytes.len;
    link->n_unheard += bytes.len;
    if (link->n_unheard >= LINK_HEARD_BYTES)
        heard(link, now_ms);
    wire_feed(&link->reader, bytes);
    while (!link_is_broken(link)) {
        struct err err = {0};
        enum wire_result result = wire_next(&link->reader, &frame, &err);
        if (result == WIRE_BROKEN)
            link_break(link, &err);
        if (result != WIRE_FRAME)
            return;
        heard(link, now_ms);
        if (frame.type == FRAME_PING || frame.type == FRAME_PONG)
            stamp_take(link, &frame, now_ms);
        else
            link->handlers->frame(link->context, &frame);
    }
}

void link_tick(struct link *link, uint64_t now_ms)
{
    char limit[24];
    if (link_is_broken(link))
        return;
    if (now_ms - link->heard_ms > link->silence_limit_ms) {
        duration_format(limit, link->silence_limit_ms);
        fail(&link->broken, ERR_UNAVAILABLE, "nothing was heard for %s", limit);
        return;
    }
    if (now_ms - link->sent_ms >= link->silence_limit_ms / LINK_PINGS && n_queued(link) == 0) {
        link_ping(link, now_ms);
    }
}

void link_say_alive(struct link *link, uint64_t now_ms)
{
    link->heard_ms = now_ms;
    if (link_is_broken(link))
        return;
    if (n_queued(link) > 0)
        put(link);
    else if (now_ms - link->sent_ms >= link->silence_limit_ms / LINK_PINGS)
        link_ping(link, now_ms);
}
