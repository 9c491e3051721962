/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks on several machines over TCP, if their launcher says where rank 0 is (MASTER_ADDR), as `muster launch` and
 * torchrun do. They meet at rank 0 (tcp_meet.c), and then have a connection for each pair. Connections carry frames:
 * a head of fixed size, and as many bytes as it says, which must be as many as the receiver expects (tcp_frame.c).
 * Values are combined in the same order as in shared memory, so results have the same bits (tcp.c).
 *
 * Before an operation, each rank sends every other a signature of its call, with the values themselves if they are
 * few. An error is a separate frame, which may come instead of any other. The end of a process shows as the end of
 * its connections; a machine that is gone is found by the kernel's keep-alive probes.
 */
#pragma once

#include "inside.h"
#include "tcp_mac.h"

enum {
    MD_TCP_SMALL_BYTES = 16384, /* up to this size, values come with the signature */
    MD_TCP_TICK_MS = 100
};

enum tcp_frame_kind {
    TCP_CALL = 0x6d640001, /* includes the version of the protocol */
    TCP_DATA,
    TCP_TOLD,    /* an error; its rank has done `seq` operations */
    TCP_LEFT,    /* the handle was closed */
    TCP_ASK,     /* the time is over: asks whether this rank is there */
    TCP_HERE,    /* yes, it waits for another rank */
    TCP_WELCOME, /* to a rank that has given its proof; has a proof in `what` */
    TCP_WORLD    /* from rank 0: the addresses of the others */
};

/* The signature of a rank's call. */
struct tcp_signature {
    uint64_t what; /* kind, type, op and root */
    uint64_t count, seq;
};

struct tcp_head {
    uint32_t kind, zero;
    uint64_t bytes; /* that follow */
    struct tcp_signature signature;
};

struct tcp_told {
    int32_t code, zero; /* without padding, as all that is sent */
    char text[MD_TEXT_BYTES];
};

/* A frame that is being sent; `done` bytes of it are sent. */
struct tcp_outgoing {
    struct tcp_head head;
    const char *at;
    size_t done;
};

/* The expected frame. Another frame may come: an error is read into `told`. */
struct tcp_incoming {
    uint32_t expected; /* kind; 0: none, so nothing is read */
    char *at;
    size_t bytes, done;
    struct tcp_head head;
    struct tcp_told told;
};

struct tcp_peer {
    int fd; /* -1: none, as of this rank itself */
    struct tcp_outgoing out;
    struct tcp_incoming in;
    struct tcp_signature last; /* of its last call */
    bool has_left;
    bool is_odd; /* it came to a different operation */
    bool has_asked, is_here;
};

struct md_tcp {
    uint32_t rank, size;
    struct tcp_peer *peers; /* one for each rank */
    struct pollfd *polls;   /* likewise */
    pthread_mutex_t lock;   /* for peers, while they are read and written */
    bool has_told;
    uint64_t n_done; /* operations */
    uint64_t deadline_ns;
    size_t piece_bytes; /* of each rank's part of a chunk */
    char *receive;      /* piece_bytes for each rank */
    const void **sources;
    struct md_mac_key key;
};

/* ---- tcp_meet.c ---- */

/* Does the environment say where rank 0 is? */
bool md_tcp_can(const struct md_place *place);
/* Connect to every other rank. */
int md_tcp_meet(struct muster_dist *dist);

/* ---- tcp_frame.c ---- */

void md_tcp_send(struct tcp_peer *peer, enum tcp_frame_kind kind, const void *at, size_t bytes,
                 const struct tcp_signature *signature);
void md_tcp_expect(struct tcp_peer *peer, enum tcp_frame_kind kind, void *at, size_t bytes);
/*
 * Send and receive until all frames are sent and all expected frames have come. `call`: for messages; NULL: the ranks
 * are meeting. 0, or the error that ends it.
 */
int md_tcp_exchange(struct muster_dist *dist, const struct md_call *call);
void md_tcp_fail(struct muster_dist *dist, int *code, char *text);
/*
 * Take over an error of a rank from which no frame is expected, and which has not done this operation. call NULL: the
 * ranks are meeting; then an ended connection is an error as well.
 */
int md_tcp_unsolicited_read(struct muster_dist *dist, const struct md_call *call);
/* An error of another rank, or a rank that is gone, during an operation in device memory. */
int md_tcp_look(struct muster_dist *dist, const struct md_call *call);
/*
 * Tell the others that this rank leaves, and let sent bytes arrive. Take over a late error of an operation that this
 * rank has done.
 */
void md_tcp_leave(struct muster_dist *dist);
void md_tcp_format(const struct tcp_signature *signature, char *out, size_t cap);
/* "rank 1", "ranks 1, 3 and 4" of those for which is_missing is set. */
void md_ranks_format(const bool *is_missing, uint32_t size, char *out, size_t cap);
