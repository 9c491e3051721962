/* SPDX-License-Identifier: Apache-2.0
 *
 * One end of the stream between a head and an agent: frames (wire.h) over a transport of the owner's. It queues what
 * is sent, pings, and notices a silent or broken stream. Pure: no descriptor, no clock; times are the owner's.
 *
 * Frames are sent in their order. Data may be added only while link_has_room(), so that the queue stays bounded; all
 * other frames are small, and their number is bounded by that of the workers.
 */
#pragma once

#include "node/wire.h"

enum {
    LINK_QUEUE_BYTES = 256 * 1024, /* of data that the transport has not taken */
    LINK_FLUSH_BYTES = 64 * 1024,  /* a longer queue is written without waiting for link_flush */
    LINK_PINGS = 4,                /* within the time after which the other end is given up */
    LINK_HEARD_BYTES = 4096,       /* fewer bytes that make no frame yet do not count as heard */
};

struct link_handlers {
    /*
     * Returns how many bytes the transport took; if not all, call link_flush() later. Negative: the transport is
     * gone.
     */
    ssize_t (*write)(void *context, struct str bytes);
    void (*frame)(void *context, const struct frame *frame);
    /* link_has_room() is true again. */
    void (*has_room)(void *context);
};

/* Bytes that the transport took, and that came from it. */
struct link_bytes {
    uint64_t sent, received;
};

struct link {
    const struct link_handlers *handlers;
    void *context;
    struct wire_writer writer;
    struct wire_reader reader;
    struct buf out; /* out.at[n_sent..] is not taken by the transport yet */
    size_t n_sent;
    bool was_full; /* link_has_room() was false */
    uint64_t heard_ms, sent_ms, silence_limit_ms;
    size_t n_unheard;       /* bytes that came since heard_ms */
    uint64_t round_trip_ms; /* a recent mean; 0: less than one, or not known */
    bool has_round_trip;
    struct link_bytes n_bytes;
    struct err broken; /* code 0: the link works */
};

/* Queues the preamble. */
void link_begin(struct link *link, const struct link_handlers *handlers, void *context,
                uint64_t silence_limit_ms, uint64_t now_ms);
void link_release(struct link *link);

void link_send(struct link *link, const struct frame *frame);
bool link_has_room(struct link *link);
/* Writes what is queued. To be called before the owner sleeps, and when the transport takes bytes again. */
void link_flush(struct link *link, uint64_t now_ms);
/* Takes bytes of the transport, and calls `frame` for each frame that they complete. */
void link_feed(struct link *link, struct str bytes, uint64_t now_ms);
/* Sends a ping, whose answer tells the round trip. */
void link_ping(struct link *link, uint64_t now_ms);
/* Sends a ping if one is due, and gives the other end up after its silence. A few times a second. */
void link_tick(struct link *link, uint64_t now_ms);
/*
 * For an owner that cannot read now: tells the other end that this one lives, and does not count the other end's
 * silence.
 */
void link_say_alive(struct link *link, uint64_t now_ms);
/* Gives the stream up, for a reason that the transport knows. The first reason stays. */
void link_break(struct link *link, const struct err *why);

static inline bool link_is_broken(const struct link *link)
{
    return link->broken.code != 0;
}
