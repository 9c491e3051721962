/* SPDX-License-Identifier: Apache-2.0
 *
 * The operations over TCP. Every rank combines its part of the values, in the order of the ranks,
 * and all gather the parts. Values are sent from the caller's memory and received into it; only
 * values that are to be combined are received into memory of our own. Few values travel with the
 * signature, and every rank combines all of them.
 */
#include "tcp.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reduce.h"
#include "shm.h"

enum {
    PIECE_BYTES_MAX = 1 << 20, /* most bytes of each rank's part */
    RECEIVE_BYTES = 16 << 20   /* about so many bytes of all ranks together */
};

/* One operation. */
struct work {
    struct muster_dist *dist;
    struct md_tcp *tcp;
    const struct md_call *call;
    const char *in;
    char *out;
    size_t width, bytes; /* bytes of a value; bytes of `count` values */
};

/* ---- exchanges ---- */

static char *received(const struct md_tcp *tcp, uint32_t rank)
{
    return tcp->receive + rank * tcp->piece_bytes;
}

/*
 * Begins an exchange without frames; the caller adds frames. Takes the lock, up to exchange_run():
 * another thread may fail meanwhile, and would send that on the same connections.
 */
static void exchange_begin(struct md_tcp *tcp)
{
    pthread_mutex_lock(&tcp->lock);
    for (uint32_t r = 0; r < tcp->size; r++) {
        tcp->peers[r].out.head.kind = 0;
        tcp->peers[r].in.expected = 0;
    }
}

static int exchange_run(const struct work *work)
{
    pthread_mutex_unlock(&work->tcp->lock);
    return md_tcp_exchange(work->dist, work->call);
}

static void combine(const struct work *work, void *out, const void *own, size_t count)
{
    struct md_tcp *tcp = work->tcp;
    for (uint32_t r = 0; r < tcp->size; r++)
        tcp->sources[r] = r == tcp->rank ? own : received(tcp, r);
    md_reduce(work->call, out, tcp->sources, tcp->size, count);
}

/* ---- large operations ---- */

/*
 * Reduces values [begin, begin + count): sends each rank its part, and gathers the results of all
 * parts.
 */
static int chunk_reduce(struct work *work, size_t begin, size_t count)
{
    struct md_tcp *tcp = work->tcp;
    size_t each = (count + tcp->size - 1) / tcp->size;
    for (int is_back = 0; is_back < 2; is_back++) {
        size_t own_begin = each * tcp->rank < count ? each * tcp->rank : count;
        size_t own_len = count - own_begin < each ? count - own_begin : each;
        size_t own = (begin + own_begin) * work->width;
        exchange_begin(tcp);
        for (uint32_t r = 0; r < tcp->size; r++) {
            size_t r_begin = each * r < count ? each * r : count;
            size_t len = (count - r_begin < each ? count - r_begin : each) * work->width;
            size_t at = (begin + r_begin) * work->width;
            if (is_back) {
                md_tcp_send(&tcp->peers[r], TCP_DATA, work->out + own, own_len * work->width, NULL);
                md_tcp_expect(&tcp->peers[r], TCP_DATA, work->out + at, len);
            } else {
                md_tcp_send(&tcp->peers[r], TCP_DATA, work->in + at, len, NULL);
                md_tcp_expect(&tcp->peers[r], TCP_DATA, received(tcp, r), own_len * work->width);
            }
        }
        int rc = exchange_run(work);
        if (rc != 0)
            return rc;
        if (!is_back)
            combine(work, work->out + own, work->in + own, own_len);
    }
    return 0;
}

static int all_reduce(struct work *work)
{
    size_t most = work->tcp->piece_bytes / work->width * work->tcp->size;
    int rc = 0;
    for (size_t begin = 0; rc == 0 && begin < work->call->what.count; begin += most) {
        size_t left = work->call->what.count - begin;
        rc = chunk_reduce(work, begin, left < most ? left : most);
    }
    return rc;
}

static int reduce_scatter(struct work *work)
{
    struct md_tcp *tcp = work->tcp;
    int rc = 0;
    for (size_t at = 0; rc == 0 && at < work->bytes; at += tcp->piece_bytes) {
        size_t len = work->bytes - at < tcp->piece_bytes ? work->bytes - at : tcp->piece_bytes;
        exchange_begin(tcp);
        for (uint32_t r = 0; r < tcp->size; r++) {
            md_tcp_send(&tcp->peers[r], TCP_DATA, work->in + r * work->bytes + at, len, NULL);
            md_tcp_expect(&tcp->peers[r], TCP_DATA, received(tcp, r), len);
        }
        rc = exchange_run(work);
        if (rc == 0)
            combine(work, work->out + at, work->in + tcp->rank * work->bytes + at,
                    len / work->width);
    }
    return rc;
}

static void own_copy(char *to, const char *from, size_t bytes)
{
    if (to != from)
        memcpy(to, from, bytes);
}

static int all_gather(struct work *work)
{
    struct md_tcp *tcp = work->tcp;
    exchange_begin(tcp);
    for (uint32_t r = 0; r < tcp->size; r++) {
        md_tcp_send(&tcp->peers[r], TCP_DATA, work->in, work->bytes, NULL);
        md_tcp_expect(&tcp->peers[r], TCP_DATA, work->out + r * work->bytes, work->bytes);
    }
    int rc = exchange_run(work);
    if (rc == 0)
        own_copy(work->out + tcp->rank * work->bytes, work->in, work->bytes);
    return rc;
}

static int broadcast(struct work *work)
{
    struct md_tcp *tcp = work->tcp;
    uint32_t root = work->call->what.root;
    exchange_begin(tcp);
    if (tcp->rank != root)
        md_tcp_expect(&tcp->peers[root], TCP_DATA, work->out, work->bytes);
    else
        for (uint32_t r = 0; r < tcp->size; r++)
            md_tcp_send(&tcp->peers[r], TCP_DATA, work->in, work->bytes, NULL);
    int rc = exchange_run(work);
    if (rc == 0 && tcp->rank == root)
        own_copy(work->out, work->in, work->bytes);
    return rc;
}

/* ---- what ranks came for, and few values with it ---- */

static void call_send(struct work *work, size_t few)
{
    struct md_tcp *tcp = work->tcp;
    const struct muster_dist_call *what = &work->call->what;
    struct tcp_signature own = {md_shm_pack(work->call), what->count, work->call->seq};
    bool is_broadcast = what->kind == MUSTER_BROADCAST;
    /* without values the address may be NULL */
    size_t stride = work->in && what->kind == MUSTER_REDUCE_SCATTER ? few : 0;
    exchange_begin(tcp);
    tcp->peers[tcp->rank].last = own;
    for (uint32_t r = 0; r < tcp->size; r++) {
        struct tcp_peer *peer = &tcp->peers[r];
        const char *at = stride > 0 ? work->in + r * stride : work->in;
        peer->is_odd = false;
        md_tcp_send(peer, TCP_CALL, at, is_broadcast && tcp->rank != what->root ? 0 : few, &own);
        md_tcp_expect(peer, TCP_CALL, received(tcp, r), is_broadcast && r != what->root ? 0 : few);
    }
}

static int calls_compare(struct work *work)
{
    const struct md_tcp *tcp = work->tcp;
    const struct tcp_signature *first = &tcp->peers[0].last;
    for (uint32_t r = 1; r < tcp->size; r++) {
        const struct tcp_signature *other = &tcp->peers[r].last;
        if (memcmp(first, other, sizeof(*first)) == 0)
            continue;
        char a[120], b[120];
        md_tcp_format(first, a, sizeof(a));
        md_tcp_format(other, b, sizeof(b));
        return md_fail(work->dist, MUSTER_DIST_EMISMATCH,
                       "ranks disagree: rank 0 came to %s, rank %u to %s", a, r, b);
    }
    return 0;
}

static void few_end(struct work *work)
{
    struct md_tcp *tcp = work->tcp;
    const struct muster_dist_call *what = &work->call->what;
    if (what->kind == MUSTER_ALL_REDUCE)
        combine(work, work->out, work->in, what->count);
    else if (what->kind == MUSTER_REDUCE_SCATTER)
        combine(work, work->out, work->in + tcp->rank * work->bytes, what->count);
    else if (what->kind == MUSTER_BROADCAST)
        own_copy(work->out, tcp->rank == what->root ? work->in : received(tcp, what->root),
                 work->bytes);
    else
        for (uint32_t r = 0; r < tcp->size; r++)
            own_copy(work->out + r * work->bytes, r == tcp->rank ? work->in : received(tcp, r),
                     work->bytes);
}

static int call_do(struct muster_dist *dist, const struct md_call *call)
{
    static int (*const runs[])(struct work *) = {[MUSTER_ALL_REDUCE] = all_reduce,
                                                 [MUSTER_BROADCAST] = broadcast,
                                                 [MUSTER_REDUCE_SCATTER] = reduce_scatter,
                                                 [MUSTER_ALL_GATHER] = all_gather};
    struct md_tcp *tcp = dist->impl;
    size_t width = muster_type_bytes(call->what.type), bytes = call->what.count * width;
    struct work work = {dist, tcp, call, call->what.in, call->what.out, width, bytes};
    bool has_values = call->what.kind != MUSTER_BARRIER && call->memory == MD_HOST && bytes > 0;
    bool is_few = has_values && bytes <= MD_TCP_SMALL_BYTES;
    tcp->deadline_ns = md_now_ns() + dist->timeout_ms * 1000000;
    call_send(&work, is_few ? bytes : 0);
    int rc = exchange_run(&work);
    rc = rc ? rc : calls_compare(&work);
    /* ranks that did not wait for this one may have sent an error */
    rc = rc ? rc : md_tcp_unsolicited_read(dist, call);
    if (rc != 0 || !has_values)
        return rc;
    if (!is_few)
        return runs[call->what.kind](&work);
    few_end(&work);
    return 0;
}

static int tcp_run(struct muster_dist *dist, const struct md_call *call)
{
    struct md_tcp *tcp = dist->impl;
    int rc = call_do(dist, call);
    pthread_mutex_lock(&tcp->lock);
    tcp->n_done = rc == 0 && call->memory != MD_DEVICE ? call->seq : tcp->n_done;
    pthread_mutex_unlock(&tcp->lock);
    return rc;
}

/* ---- begin and end ---- */

static int tcp_open(struct muster_dist *dist)
{
    uint32_t size = dist->place.size;
    size_t piece = (size_t)RECEIVE_BYTES / size / MD_TCP_SMALL_BYTES * MD_TCP_SMALL_BYTES;
    struct md_tcp *tcp = calloc(1, sizeof(*tcp));
    if (!tcp)
        return md_fail(dist, MUSTER_DIST_ENOMEM, "rank %u: no memory", dist->place.rank);
    tcp->rank = dist->place.rank;
    tcp->piece_bytes = piece > PIECE_BYTES_MAX      ? PIECE_BYTES_MAX
                       : piece < MD_TCP_SMALL_BYTES ? MD_TCP_SMALL_BYTES
                                                    : piece;
    tcp->peers = calloc(size, sizeof(*tcp->peers));
    tcp->polls = calloc(size, sizeof(*tcp->polls));
    tcp->sources = calloc(size, sizeof(*tcp->sources));
    tcp->receive = malloc(tcp->piece_bytes * size);
    pthread_mutex_init(&tcp->lock, NULL);
    dist->impl = tcp;
    if (!tcp->peers || !tcp->polls || !tcp->sources || !tcp->receive)
        return md_fail(dist, MUSTER_DIST_ENOMEM, "rank %u: no memory for %u ranks",
                       dist->place.rank, size);
    tcp->size = size;
    for (uint32_t r = 0; r < size; r++)
        tcp->peers[r].fd = -1;
    return md_tcp_meet(dist);
}

static void tcp_close(struct muster_dist *dist)
{
    struct md_tcp *tcp = dist->impl;
    bool is_ours = md_is_ours(dist);
    if (!tcp)
        return;
    if (is_ours)
        md_tcp_leave(dist);
    for (uint32_t r = 0; r < tcp->size; r++)
        if (tcp->peers[r].fd >= 0)
            close(tcp->peers[r].fd);
    if (is_ours)
        pthread_mutex_destroy(&tcp->lock);
    free(tcp->peers);
    free(tcp->polls);
    free(tcp->sources);
    free(tcp->receive);
    free(tcp);
    dist->impl = NULL;
}

const struct md_backend_ops md_tcp_ops = {
    .name = "tcp",
    .open = tcp_open,
    .close = tcp_close,
    .run = tcp_run,
    .look = md_tcp_look,
    .fail = md_tcp_fail,
};
