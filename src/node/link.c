/* SPDX-License-Identifier: Apache-2.0 */
#include "node/link.h"

#include "base/parse.h"

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

void link_feed(struct link *link, struct str bytes, uint64_t now_ms)
{
    struct frame frame;
    link->heard_ms = now_ms;
    wire_feed(&link->reader, bytes);
    while (!link_is_broken(link)) {
        struct err err = {0};
        enum wire_result result = wire_next(&link->reader, &frame, &err);
        if (result == WIRE_BROKEN)
            link_break(link, &err);
        if (result != WIRE_FRAME)
            return;
        if (frame.type != FRAME_PING)
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
        link_send(link, &(struct frame){.type = FRAME_PING, .worker = WIRE_NO_WORKER});
        link_flush(link, now_ms);
    }
}
