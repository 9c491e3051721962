/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames between ranks. All frames of an exchange move at the same time, in the order in which
 * sockets are ready. A waiting rank checks the clock, and looks for errors of other ranks. Of a
 * received head, only the number of bytes is used, and only if it is the expected one.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "shm.h"
#include "tcp.h"

enum {
    LOOK_NS = 50000,         /* how long to poll, with yields, before sleeping */
    FAREWELL_NS = 300000000, /* for an error, or the last bytes, to be sent */
    ASK_NS = 1000000000,     /* for answers of ranks that wait as well */
    PEEK_BYTES = 16384,
    N_NAMED_MAX = 8 /* ranks in a message */
};

/* The result of a look at a connection. */
enum look {
    IDLE,  /* nothing could be done */
    MOVED, /* bytes went on */
    TOLD,  /* an error has come */
    LOST,  /* it ended, or an invalid frame came; errno says which */
};

void md_tcp_send(struct tcp_peer *peer, enum tcp_frame_kind kind, const void *at, size_t bytes,
                 const struct tcp_signature *signature)
{
    /* Without values the address may be NULL, to which nothing may be added. */
    peer->out = (struct tcp_outgoing){.head = {.kind = kind, .bytes = bytes}, .at = at ? at : ""};
    if (signature)
        peer->out.head.signature = *signature;
}

void md_tcp_expect(struct tcp_peer *peer, enum tcp_frame_kind kind, void *at, size_t bytes)
{
    peer->in.expected = kind;
    peer->in.at = at;
    peer->in.bytes = bytes;
    peer->in.done = 0;
}

/* ---- out ---- */

static bool is_sent(const struct tcp_peer *peer)
{
    return peer->out.head.kind == 0 ||
           peer->out.done == sizeof(peer->out.head) + peer->out.head.bytes;
}

static enum look peer_write(struct tcp_peer *peer)
{
    struct tcp_outgoing *out = &peer->out;
    size_t head = out->done < sizeof(out->head) ? sizeof(out->head) - out->done : 0;
    size_t body = out->done - (sizeof(out->head) - head);
    struct iovec pieces[2] = {
        {(char *)&out->head + sizeof(out->head) - head, head},
        {(char *)(uintptr_t)out->at + body, out->head.bytes - body},
    };
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};
    ssize_t n = sendmsg(peer->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? IDLE : LOST;
    out->done += (size_t)n;
    return MOVED;
}

/* ---- in ---- */

static size_t incoming_bytes(const struct tcp_incoming *in)
{
    return in->head.kind == TCP_TOLD ? sizeof(in->told) : in->head.kind == TCP_LEFT ? 0 : in->bytes;
}

static bool has_come(const struct tcp_peer *peer)
{
    const struct tcp_incoming *in = &peer->in;
    return in->expected == 0 || (in->done >= sizeof(in->head) && in->head.kind == in->expected &&
                                 (peer->is_odd || in->done == sizeof(in->head) + in->bytes));
}

/*
 * Judges a complete head. If a rank came to another operation, that is reported when all have come.
 */
static enum look head_judge(struct tcp_peer *peer, const struct tcp_signature *own)
{
    struct tcp_incoming *in = &peer->in;
    if (in->head.kind == TCP_CALL && in->expected == TCP_CALL) {
        peer->last = in->head.signature;
        peer->is_odd = memcmp(&peer->last, own, sizeof(*own)) != 0;
        if (peer->is_odd)
            return MOVED;
    }
    if ((in->head.kind == TCP_ASK || in->head.kind == TCP_HERE) && in->head.bytes == 0) {
        peer->has_asked |= in->head.kind == TCP_ASK;
        peer->is_here |= in->head.kind == TCP_HERE;
        in->done = 0;
        return MOVED;
    }
    bool is_known =
        in->head.kind == in->expected || in->head.kind == TCP_TOLD || in->head.kind == TCP_LEFT;
    errno = EPROTO;
    if (!is_known || in->head.bytes != incoming_bytes(in))
        return LOST;
    if (in->head.kind != TCP_LEFT)
        return MOVED;
    peer->has_left = true;
    return LOST;
}

static enum look peer_read(struct tcp_peer *peer, const struct tcp_signature *own)
{
    struct tcp_incoming *in = &peer->in;
    bool is_head = in->done < sizeof(in->head);
    size_t body = is_head ? 0 : in->done - sizeof(in->head);
    char *to = is_head                     ? (char *)&in->head + in->done
               : in->head.kind == TCP_TOLD ? (char *)&in->told + body
               : in->at                    ? in->at + body
                                           : NULL; /* nothing is to come */
    size_t most = is_head ? sizeof(in->head) - in->done : incoming_bytes(in) - body;
    if (!is_head && in->head.kind != TCP_TOLD && in->head.kind != in->expected) {
        errno = EPROTO; /* it was no head, so the next bytes mean nothing */
        return LOST;
    }
    ssize_t n = recv(peer->fd, to, most, MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? IDLE : LOST;
    errno = 0;
    if (n == 0)
        return LOST;
    in->done += (size_t)n;
    if (is_head && in->done == sizeof(in->head)) {
        enum look look = head_judge(peer, own);
        if (look != MOVED)
            return look;
    }
    bool is_all = in->done >= sizeof(in->head) && in->done == sizeof(in->head) + incoming_bytes(in);
    return is_all && in->head.kind == TCP_TOLD ? TOLD : MOVED;
}

/* ---- what is said when it does not go on ---- */

void md_ranks_format(const bool *is_missing, uint32_t size, char *out, size_t cap)
{
    uint32_t n = 0, i = 0;
    for (uint32_t r = 0; r < size; r++)
        n += is_missing[r];
    size_t len = (size_t)snprintf(out, cap, n == 1 ? "rank" : "ranks");
    for (uint32_t r = 0; r < size && len < cap; r++) {
        if (!is_missing[r])
            continue;
        if (i == N_NAMED_MAX) {
            snprintf(out + len, cap - len, " and %u more", n - i);
            return;
        }
        const char *before = i == 0 ? " " : i + 1 == n ? " and " : ", ";
        len += (size_t)snprintf(out + len, cap - len, "%s%u", before, r);
        i++;
    }
}

void md_tcp_format(const struct tcp_signature *signature, char *out, size_t cap)
{
    if (signature->seq == 0)
        snprintf(out, cap, "none");
    else
        md_signature_format(signature->what, signature->count, signature->seq, out, cap);
}

static int told_adopt(struct muster_dist *dist, struct tcp_peer *peer)
{
    struct tcp_told *told = &peer->in.told;
    told->text[sizeof(told->text) - 1] = '\0';
    return md_adopt(dist, told->code < 0 ? told->code : MUSTER_DIST_EFAIL, told->text);
}

/* Skips the bytes after the head of a rank that came to another operation. */
static enum look odd_pass(struct tcp_peer *peer)
{
    char scratch[4096];
    struct tcp_incoming *in = &peer->in;
    uint64_t left = in->head.bytes - (in->done - sizeof(in->head));
    if (left == 0) {
        peer->is_odd = false;
        in->expected = 0; /* this frame has come */
        return MOVED;
    }
    ssize_t n =
        recv(peer->fd, scratch, left < sizeof(scratch) ? left : sizeof(scratch), MSG_DONTWAIT);
    if (n <= 0)
        return n < 0 && (errno == EAGAIN || errno == EINTR) ? IDLE : LOST;
    in->done += (size_t)n;
    return MOVED;
}

/* Reads the received frames, up to an error of another rank. */
static enum look told_read(struct md_tcp *tcp, struct tcp_peer *peer)
{
    enum look look = MOVED;
    const struct tcp_signature own = peer->last;
    pthread_mutex_lock(&tcp->lock);
    while (look == MOVED && peer->is_odd && has_come(peer))
        look = odd_pass(peer);
    if (look == MOVED && has_come(peer))
        md_tcp_expect(peer, TCP_TOLD, NULL, sizeof(peer->in.told));
    while (look == MOVED && !has_come(peer))
        look = peer_read(peer, &own);
    pthread_mutex_unlock(&tcp->lock);
    return look;
}

/* Looks once at all connections, without waiting, for errors that other ranks tell. */
static int told_look(struct muster_dist *dist)
{
    struct md_tcp *tcp = dist->impl;
    for (uint32_t r = 0; r < tcp->size; r++) {
        struct tcp_peer *peer = &tcp->peers[r];
        if (peer->fd >= 0 && !peer->has_left && told_read(tcp, peer) == TOLD)
            return told_adopt(dist, peer);
    }
    return 0;
}

/*
 * Reads from a rank from which no frame is expected any more; it may send an error or a question.
 * Its next signature stays unread for later, and so does an error if the rank had done `seq`
 * operations before.
 */
static enum look unsolicited_read(struct tcp_peer *peer, uint64_t seq)
{
    struct {
        struct tcp_head head;
        struct tcp_told told;
    } frame;
    ssize_t n = recv(peer->fd, &frame, sizeof(frame), MSG_PEEK | MSG_DONTWAIT);
    if (n <= 0)
        return n < 0 && (errno == EAGAIN || errno == EINTR) ? IDLE : LOST;
    bool is_told = n == (ssize_t)sizeof(frame) && frame.head.kind == TCP_TOLD &&
                   frame.head.signature.seq < seq;
    bool is_asked = n >= (ssize_t)sizeof(frame.head) &&
                    (frame.head.kind == TCP_ASK || frame.head.kind == TCP_HERE);
    if (!is_told && !is_asked)
        return IDLE;
    recv(peer->fd, &frame, is_told ? sizeof(frame) : sizeof(frame.head), MSG_DONTWAIT);
    peer->has_asked |= frame.head.kind == TCP_ASK;
    peer->is_here |= frame.head.kind == TCP_HERE;
    peer->in.told = frame.told;
    return is_told ? TOLD : MOVED;
}

/*
 * Looks for an error behind the frames of a first operation, which a rank that has met all may have
 * begun, and leaves all of them unread. Frames of more than PEEK_BYTES hide the error.
 */
static enum look told_peek(struct tcp_peer *peer)
{
    char bytes[PEEK_BYTES];
    struct tcp_head head;
    ssize_t n = recv(peer->fd, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);
    size_t left = n > 0 ? (size_t)n : 0;
    for (const char *at = bytes; left >= sizeof(head); at += head.bytes) {
        memcpy(&head, at, sizeof(head));
        at += sizeof(head);
        left -= sizeof(head);
        if (head.bytes > left)
            break;
        if (head.kind == TCP_TOLD && head.bytes == sizeof(peer->in.told)) {
            memcpy(&peer->in.told, at, sizeof(peer->in.told));
            return TOLD;
        }
        left -= head.bytes;
    }
    return IDLE;
}

int md_tcp_unsolicited_read(struct muster_dist *dist, const struct md_call *call)
{
    struct md_tcp *tcp = dist->impl;
    for (uint32_t r = 0; r < tcp->size; r++) {
        struct tcp_peer *peer = &tcp->peers[r];
        if (peer->fd < 0)
            continue;
        enum look look = MOVED;
        pthread_mutex_lock(&tcp->lock);
        while (look == MOVED)
            look = unsolicited_read(peer, call ? call->seq : UINT64_MAX);
        if (look == IDLE && !call)
            look = told_peek(peer);
        pthread_mutex_unlock(&tcp->lock);
        if (look == TOLD)
            return told_adopt(dist, peer);
        if (look == LOST && !call)
            return md_fail(dist, MUSTER_DIST_ELOST,
                           "the process of rank %u ended before all ranks had come", r);
    }
    return 0;
}

/*
 * Reports that a connection has ended. A failing rank tells why before it ends, perhaps to another
 * rank, so this waits for such an error first.
 */
static int lost_tell(struct muster_dist *dist, uint32_t rank, const struct md_call *call, int error)
{
    struct md_tcp *tcp = dist->impl;
    struct tcp_peer *peer = &tcp->peers[rank];
    char own[120] = "the meeting", last[120];
    uint64_t end_ns = md_now_ns() + FAREWELL_NS;
    int rc = 0;
    while (rc == 0 && md_now_ns() < end_ns) {
        rc = told_look(dist);
        nanosleep(&(struct timespec){.tv_nsec = FAREWELL_NS / 100}, NULL);
    }
    if (rc != 0)
        return rc;
    if (call)
        md_call_format(call, own, sizeof(own));
    md_tcp_format(&peer->last, last, sizeof(last));
    if (peer->has_left)
        return md_fail(dist, MUSTER_DIST_ELOST,
                       "rank %u has closed its handle, and rank %u waits for it in %s; the last "
                       "that it came to was %s",
                       rank, tcp->rank, own, last);
    return md_fail(dist, MUSTER_DIST_ELOST,
                   "the process of rank %u has ended, or cannot be reached any more%s%s; rank %u "
                   "waits for it in %s; the last that it came to was %s",
                   rank, error ? ": " : "", error ? strerrordesc_np(error) : "", tcp->rank, own,
                   last);
}

int md_tcp_look(struct muster_dist *dist, const struct md_call *call)
{
    struct md_tcp *tcp = dist->impl;
    for (uint32_t r = 0; r < tcp->size; r++) {
        enum look look = MOVED;
        pthread_mutex_lock(&tcp->lock);
        while (look == MOVED)
            look = tcp->peers[r].fd >= 0 ? unsolicited_read(&tcp->peers[r], UINT64_MAX) : IDLE;
        pthread_mutex_unlock(&tcp->lock);
        if (look == TOLD)
            return told_adopt(dist, &tcp->peers[r]);
        if (look == LOST)
            return lost_tell(dist, r, call, 0);
    }
    return 0;
}

static int late_tell(struct muster_dist *dist, const struct md_call *call)
{
    struct md_tcp *tcp = dist->impl;
    bool is_missing[MD_RANKS_MAX] = {false};
    char names[120], own[120], last[120];
    uint32_t n = 0, first = 0;
    for (int with_those_here = 0; with_those_here < 2 && n == 0; with_those_here++)
        for (uint32_t r = tcp->size; r-- > 0;) {
            const struct tcp_peer *peer = &tcp->peers[r];
            is_missing[r] = peer->fd >= 0 && !(has_come(peer) && is_sent(peer)) &&
                            (with_those_here || !peer->is_here);
            n += is_missing[r];
            first = is_missing[r] ? r : first;
        }
    md_ranks_format(is_missing, tcp->size, names, sizeof(names));
    md_call_format(call, own, sizeof(own));
    md_tcp_format(&tcp->peers[first].last, last, sizeof(last));
    bool has_come_to_it = tcp->peers[first].last.seq == call->seq;
    return md_fail(dist, MUSTER_DIST_ETIMEOUT,
                   "%s %s not %s %s within %.1f s; the last that rank %u came to was %s", names,
                   n == 1 ? "has" : "have", has_come_to_it ? "ended" : "come to", own,
                   (double)dist->timeout_ms / 1e3, first, last);
}

/* ---- an exchange ---- */

/*
 * Looks once at all connections of an exchange. If is_patient is false, the exchange has stood
 * still, and ranks from which no frame is expected are looked at as well. *rank: whose connection
 * is `TOLD` or `LOST`.
 */
static enum look exchange_look(struct md_tcp *tcp, const struct tcp_signature *own, bool is_patient,
                               uint32_t *rank)
{
    enum look result = IDLE;
    pthread_mutex_lock(&tcp->lock);
    for (uint32_t r = 0; r < tcp->size && result <= MOVED; r++) {
        struct tcp_peer *peer = &tcp->peers[r];
        enum look in = IDLE, out = IDLE;
        if (peer->fd < 0)
            continue;
        if (!has_come(peer))
            in = peer_read(peer, own);
        else if (!is_patient && unsolicited_read(peer, UINT64_MAX) ==
                                    TOLD) /* an ended connection is no error here */
            in = TOLD;
        if (peer->has_asked && is_sent(peer)) {
            md_tcp_send(peer, TCP_HERE, NULL, 0, NULL);
            peer->has_asked = false;
        }
        if (in <= MOVED && !is_sent(peer) && !tcp->has_told)
            out = peer_write(peer);
        /* An error that the rank told before its connection ended may still be unread. */
        if (out == LOST && !has_come(peer))
            out = IDLE;
        enum look look = in > out ? in : out;
        *rank = look > MOVED ? r : *rank;
        result = look > result ? look : result;
    }
    pthread_mutex_unlock(&tcp->lock);
    return result;
}

static bool is_over(struct md_tcp *tcp)
{
    bool is_all = true;
    pthread_mutex_lock(&tcp->lock);
    for (uint32_t r = 0; r < tcp->size && is_all; r++)
        is_all = tcp->peers[r].fd < 0 || (has_come(&tcp->peers[r]) && is_sent(&tcp->peers[r]));
    pthread_mutex_unlock(&tcp->lock);
    return is_all;
}

static void exchange_sleep(struct md_tcp *tcp)
{
    pthread_mutex_lock(&tcp->lock);
    for (uint32_t r = 0; r < tcp->size; r++) {
        const struct tcp_peer *peer = &tcp->peers[r];
        short events = (short)((has_come(peer) ? 0 : POLLIN) | (is_sent(peer) ? 0 : POLLOUT));
        tcp->polls[r] = (struct pollfd){.fd = events ? peer->fd : -1, .events = events};
    }
    pthread_mutex_unlock(&tcp->lock);
    poll(tcp->polls, tcp->size, MD_TCP_TICK_MS);
}

static void exchange_wait(struct md_tcp *tcp, bool is_patient)
{
    if (is_patient)
        sched_yield();
    else
        exchange_sleep(tcp);
}

/* Asks the missing ranks whether they wait as well. */
static void missing_ask(struct md_tcp *tcp)
{
    pthread_mutex_lock(&tcp->lock);
    for (uint32_t r = 0; r < tcp->size; r++) {
        struct tcp_peer *peer = &tcp->peers[r];
        peer->is_here = false;
        if (peer->fd >= 0 && !has_come(peer) && is_sent(peer))
            md_tcp_send(peer, TCP_ASK, NULL, 0, NULL);
    }
    pthread_mutex_unlock(&tcp->lock);
}

int md_tcp_exchange(struct muster_dist *dist, const struct md_call *call)
{
    struct md_tcp *tcp = dist->impl;
    struct tcp_signature own = {0};
    uint64_t moved_ns = md_now_ns(), end_ns = tcp->deadline_ns;
    uint32_t rank = 0;
    bool is_patient = true;
    if (call)
        own = (struct tcp_signature){md_shm_pack(call), call->what.count, call->seq};
    while (!is_over(tcp)) {
        enum look look = exchange_look(tcp, &own, is_patient, &rank);
        int error = errno;
        uint64_t now_ns = md_now_ns();
        if (look == TOLD)
            return told_adopt(dist, &tcp->peers[rank]);
        if (look == LOST)
            return lost_tell(dist, rank, call, error);
        if (atomic_load(&dist->code) != 0)
            return atomic_load(&dist->code);
        if (now_ns > end_ns && (!call || end_ns > tcp->deadline_ns)) {
            if (is_over(tcp)) /* the last byte has just come */
                break;
            return call ? late_tell(dist, call) : 1;
        }
        if (now_ns > end_ns) {
            missing_ask(tcp);
            end_ns += ASK_NS;
        }
        if (look == MOVED)
            moved_ns = now_ns;
        is_patient = now_ns - moved_ns < LOOK_NS;
        if (look != MOVED)
            exchange_wait(tcp, is_patient);
    }
    return 0;
}

/* ---- the end ---- */

/* Sends an error, after the rest of an unfinished frame. Called with the lock. */
static void told_send(struct tcp_peer *peer, const struct tcp_told *told, uint64_t n_done,
                      uint64_t end_ns)
{
    enum look look = MOVED;
    bool is_told = false;
    while (look != LOST && md_now_ns() < end_ns) {
        if (is_sent(peer) && is_told)
            return;
        if (is_sent(peer)) {
            md_tcp_send(peer, TCP_TOLD, told, sizeof(*told),
                        &(struct tcp_signature){.seq = n_done});
            is_told = true;
        }
        look = peer_write(peer);
        if (look == IDLE)
            poll(&(struct pollfd){.fd = peer->fd, .events = POLLOUT}, 1, MD_TCP_TICK_MS / 10);
    }
}

void md_tcp_fail(struct muster_dist *dist, int *code, char *text)
{
    struct md_tcp *tcp = dist->impl;
    struct tcp_told told = {.code = *code};
    memcpy(told.text, text, sizeof(told.text));
    pthread_mutex_lock(&tcp->lock);
    uint64_t end_ns = md_now_ns() + FAREWELL_NS;
    for (uint32_t r = 0; r < tcp->size && !tcp->has_told; r++)
        if (tcp->peers[r].fd >= 0)
            told_send(&tcp->peers[r], &told, tcp->n_done, end_ns);
    tcp->has_told = true;
    pthread_mutex_unlock(&tcp->lock);
}

/*
 * A rank may have given up an operation at the moment in which the others completed it: its error
 * counts for all, and comes before it leaves. An error of an operation that this rank has not come
 * to is ignored.
 */
static void told_late_adopt(struct muster_dist *dist, struct tcp_peer *peer)
{
    const struct md_tcp *tcp = dist->impl;
    enum look look = MOVED;
    while (look == MOVED)
        look = unsolicited_read(peer, tcp->n_done);
    if (look == TOLD)
        told_adopt(dist, peer);
}

/*
 * Reads until the other side has closed as well: a socket that is closed with unread bytes discards
 * bytes that it has sent.
 */
static void drain(struct muster_dist *dist)
{
    char room[4096];
    struct md_tcp *tcp = dist->impl;
    uint64_t end_ns = md_now_ns() + FAREWELL_NS;
    for (uint32_t n_open = 1; n_open > 0 && md_now_ns() < end_ns;) {
        n_open = 0;
        for (uint32_t r = 0; r < tcp->size; r++) {
            struct tcp_peer *peer = &tcp->peers[r];
            ssize_t n = 0;
            if (peer->fd >= 0)
                told_late_adopt(dist, peer);
            while (peer->fd >= 0 && (n = recv(peer->fd, room, sizeof(room), MSG_DONTWAIT)) > 0)
                continue;
            bool is_open = peer->fd >= 0 && n < 0 && (errno == EAGAIN || errno == EINTR);
            if (peer->fd >= 0 && !is_open) {
                close(peer->fd);
                peer->fd = -1;
            }
            tcp->polls[r] = (struct pollfd){.fd = peer->fd, .events = POLLIN};
            n_open += is_open;
        }
        if (n_open > 0)
            poll(tcp->polls, tcp->size, MD_TCP_TICK_MS);
    }
}

void md_tcp_leave(struct muster_dist *dist)
{
    struct md_tcp *tcp = dist->impl;
    bool is_well = atomic_load(&dist->code) == 0;
    for (uint32_t r = 0; r < tcp->size; r++) {
        struct tcp_peer *peer = &tcp->peers[r];
        if (peer->fd < 0)
            continue;
        if (is_well) {
            md_tcp_send(peer, TCP_LEFT, NULL, 0, NULL);
            peer_write(peer);
        }
        shutdown(peer->fd, SHUT_WR);
    }
    drain(dist);
}
