/* SPDX-License-Identifier: Apache-2.0
 *
 * The protocol between a head and an agent on another machine, as bytes. Pure: no descriptor, no clock.
 *
 * A direction begins with WIRE_PREAMBLE. Bytes before it are not muster's: a login shell's message of the day, a
 * warning of ssh. The reader keeps its beginning, for a message to the user. Then come frames: a header of 16 bytes,
 * all numbers little-endian, and a body.
 *
 *     0  u32  checksum     the low half of XXH3-64 over the 12 bytes that follow and the body;
 *                          its seed is the number of the frame in its direction, from 0
 *     4  u32  length       of the body
 *     8  u32  worker       WIRE_NO_WORKER: about none
 *    12  u8   type         enum frame_type
 *    13  u8   stream       of the worker (enum worker_stream), 0 if none
 *    14  u16  0
 *
 * The number of the frame is in the checksum so that a frame that is repeated, dropped or reordered is noticed. After
 * one wrong byte the reader stays broken.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

enum {
    WIRE_PROTOCOL = 5,
    WIRE_HEADER_BYTES = 16,
    WIRE_DATA_MAX_BYTES = 64 * 1024, /* of one frame of data; a sender splits longer data */
    WIRE_CREDIT_BYTES = 256 * 1024,  /* of each stream of a worker, at first */
    WIRE_NOISE_KEPT_BYTES = 4096,
    WIRE_NOISE_MAX_BYTES = 1 << 20, /* before the preamble */
};
#define WIRE_PREAMBLE  "\n\001muster-wire-1\n"
#define WIRE_NO_WORKER UINT32_MAX

/* Name, the longest body in bytes. Bodies: wire_body.h, and raw bytes for DATA and TEXT. GANG_…: between a leader and its
 * followers (rendezvous/message.h). */
#define FRAME_TYPES(X)                                                 \
    X(HELLO, 65536)              /* both ways, first: who is there */  \
    X(PING, 8)                   /* both ways: the sender's clock */   \
    X(PONG, 8)                   /* both ways: that of a PING */       \
    X(TAKE, 65536)               /* to the agent: take devices */      \
    X(TAKEN, 4194304)            /* from it: devices and seats */      \
    X(REFUSED, 4096)             /* from it: an error instead */       \
    X(SPAWN, 16777216)           /* to it */                           \
    X(STARTED, 64)               /* from it */                         \
    X(DATA, WIRE_DATA_MAX_BYTES) /* both ways: bytes of a stream */    \
    X(CREDIT, 8)                 /* both ways: bytes to send more */   \
    X(FINISH, 0)                 /* to it: end of a stream */          \
    X(DROP, 0)                   /* to it: a stream is of no use */    \
    X(CLOSED, 0)                 /* from it */                         \
    X(ASK, 16)                   /* to it: look at the input */        \
    X(INPUT, 16)                 /* from it: what was seen */          \
    X(END, 2)                    /* to it: end the worker */           \
    X(GONE, 256)                 /* from it: after all its output */   \
    X(RELEASE, 0)                /* to it: the worker is forgotten */  \
    X(WARNED, 4096)              /* from it: text for the user */      \
    X(FAILED, 4096)              /* from it: an error of the node */   \
    X(EXPLAINED, 0)              /* to it: a kill has its reason */    \
    X(SAMPLE, 512)               /* from it: state of a device */      \
    X(STAGE, 8192)               /* to it: are files shared? */        \
    X(STAGED, 8192)              /* from it: they are, or where */     \
    X(PREPARE, 16777216)         /* to it: take the input, look */     \
    X(READY, 8)                  /* from it: start the worker */       \
    X(COLLECT, 0)                /* to it: find what was left */       \
    X(FOUND, 16777216)           /* from it: what was left */          \
    X(FETCH, 8192)               /* to it: send a file */              \
    X(FILE_DATA, 65536)          /* both ways, as DATA */              \
    X(FILE_CREDIT, 8)            /* both ways: bytes to send more */   \
    X(FILE_END, 16)              /* both ways: the file is sent */     \
    X(FILES_FAILED, 4096)        /* from it: an error instead */       \
    X(UNSTAGE, 0)                /* to it: the files are of no use */  \
    X(GANG_CHALLENGE, 256)       /* from the leader, first */          \
    X(GANG_JOIN, 1024)           /* to it: who is there */             \
    X(GANG_WELCOME, 64)          /* from it: a member now */           \
    X(GANG_REFUSED, 1024)        /* from it: an error instead */       \
    X(GANG_START, 64)            /* from it: start a generation */     \
    X(GANG_END, 2)               /* from it: end its ranks */          \
    X(GANG_RETRY, 16400)         /* from it: the next one comes */     \
    X(GANG_OVER, 16400)          /* from it: the gang is over */       \
    X(GANG_EXIT, 32832)          /* to it: a rank has ended */         \
    X(GANG_LEAVE, 2048)          /* to it: the follower leaves */      \
    X(ERROR_FILE, 262144)        /* from the agent, before GONE */     \
    X(STAND, 256)                /* from the agent: what it does */    \
    X(WHERE, 8192)               /* from it: where it stands */        \
    X(GANG_STAND, 512)           /* to the leader: what a rank does */ \
    X(GANG_ASK, 8)               /* from it: where does it stand? */   \
    X(GANG_WHERE, 8224)          /* to it: there */                    \
    X(DRAINING, 0)               /* from the agent: its job ends */    \
    X(GANG_EMPTY, 0)             /* to the leader: no rank lives */    \
    X(EMPTY, 0)                  /* from the agent: see wire_take */

enum frame_type {
#define X(name, body_max) FRAME_##name,
    FRAME_TYPES(X)
#undef X
    FRAME_TYPES_COUNT
};

/* About the files of a worker (node_stage). They have numbers of their own, in the place of the worker's. */
static inline bool frame_is_of_files(enum frame_type type)
{
    return type >= FRAME_STAGE && type <= FRAME_UNSTAGE;
}

struct frame {
    enum frame_type type;
    uint8_t stream;
    uint32_t worker;
    struct str body; /* from the reader: borrowed until the next wire_feed */
};

/* ---- out ---- */

struct wire_writer {
    uint64_t n_frames;
};

/* The preamble first, then frames, are added to `out`. The body must not be longer than its type allows. */
void wire_begin(struct wire_writer *writer, struct buf *out);
void wire_add(struct wire_writer *writer, struct buf *out, const struct frame *frame);

/* ---- in ---- */

struct wire_reader {
    struct buf in; /* in.at[begin..] is not taken yet */
    size_t begin;
    uint64_t n_frames;
    struct buf noise; /* the beginning of what came before the preamble */
    uint64_t n_noise_bytes;
    bool has_begun, is_broken;
    /* Set by the owner at the beginning, for streams that anybody can open. */
    bool is_strict;    /* nothing may come before the preamble */
    uint32_t body_max; /* longer bodies break the stream; 0: as their types allow */
};

enum wire_result {
    WIRE_FRAME,
    WIRE_MORE,  /* bytes are needed */
    WIRE_BROKEN /* err says why; ERR_DATA */
};

void wire_feed(struct wire_reader *reader, struct str bytes);
/* Takes the next frame. Its type is known, and its body within the type's limit; the body itself is not checked. */
enum wire_result wire_next(struct wire_reader *reader, struct frame *frame, struct err *err);
/* Adds the beginning of the bytes that are not muster's. */
void wire_noise_add(const struct wire_reader *reader, struct buf *out);
void wire_reader_release(struct wire_reader *reader);
const char *frame_name(enum frame_type type);
size_t wire_body_max(enum frame_type type);
