/* SPDX-License-Identifier: Apache-2.0 */
#include "mesh/pair.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/rng.h"
#include "base/xalloc.h"
/* The kernel's header has all members of tcp_info. It must come after netinet/in.h. */
#include <linux/tcp.h>

enum {
    PINGS_MAX = 51,
    PINGS_MS = 60,       /* no ping begins after this time */
    PINGS_END_MS = 1500, /* after this time a ping is lost */
    BLOCK_BYTES = 256 * 1024,
    DRAIN_MS = 1500, /* after the last byte was sent; later bytes do not count */
    SEED = 0x6d757374
};

static const uint64_t NO_MORE_PINGS = UINT64_MAX;
static const uint64_t IS_LAST = (uint64_t)1 << 63;

/* ---- small messages ---- */

static int by_value(const void *a_, const void *b_)
{
    uint64_t a = *(const uint64_t *)a_, b = *(const uint64_t *)b_;
    return a < b ? -1 : a > b;
}

static enum link_state ping(int fd, uint64_t number, uint64_t end_ms, uint64_t *took_ns)
{
    uint64_t begin_ns = clock_now_ns(), echo = 0;
    enum link_state state = stream_write(fd, &number, sizeof(number), end_ms);
    if (state == LINK_FINE)
        state = stream_read(fd, &echo, sizeof(echo), end_ms);
    *took_ns = clock_now_ns() - begin_ns;
    return state == LINK_FINE && echo != number ? LINK_CORRUPTED : state;
}

static void pings_send(int fd, uint64_t end_ms, struct pair_result *out)
{
    uint64_t took_ns[PINGS_MAX], begin_ms = clock_now_ms();
    size_t n = 0;
    while (out->bytes == LINK_FINE && n < PINGS_MAX &&
           (n < 3 || clock_now_ms() < begin_ms + PINGS_MS)) {
        out->bytes = ping(fd, n, end_ms, &took_ns[n]);
        n += out->bytes == LINK_FINE;
    }
    if (out->bytes == LINK_FINE)
        out->bytes = stream_write(fd, &NO_MORE_PINGS, sizeof(NO_MORE_PINGS), end_ms);
    if (n == 0)
        return;
    qsort(took_ns, n, sizeof(*took_ns), by_value);
    out->round_trip_ns = took_ns[n / 2];
    out->least_ns = took_ns[0];
}

static void pings_answer(int fd, uint64_t end_ms, struct pair_result *out)
{
    uint64_t number = 0;
    while (out->bytes == LINK_FINE && number != NO_MORE_PINGS) {
        out->bytes = stream_read(fd, &number, sizeof(number), end_ms);
        if (out->bytes == LINK_FINE && number != NO_MORE_PINGS)
            out->bytes = stream_write(fd, &number, sizeof(number), end_ms);
    }
}

/* ---- a stream of bytes ---- */

/* Makes a block: its number (with IS_LAST in the last block), and bytes that both ends know. */
static void block_make(unsigned char *block)
{
    struct rng rng = {SEED};
    for (size_t i = 0; i < BLOCK_BYTES; i += sizeof(uint64_t)) {
        uint64_t word = rng_next(&rng);
        memcpy(block + i, &word, sizeof(word));
    }
}

static void stream_send(int fd, uint64_t stream_ms, struct pair_result *out)
{
    cleanup_free unsigned char *block = xmalloc(BLOCK_BYTES);
    uint64_t last_ms = clock_now_ms() + stream_ms, end_ms = last_ms + DRAIN_MS;
    struct tcp_info info = {0};
    socklen_t len = sizeof(info);
    bool is_last = false;
    block_make(block);
    for (uint64_t i = 0; out->bytes == LINK_FINE && !is_last; i++) {
        is_last = clock_now_ms() >= last_ms;
        uint64_t number = i | (is_last ? IS_LAST : 0);
        memcpy(block, &number, sizeof(number));
        out->bytes = stream_write(fd, block, BLOCK_BYTES, end_ms);
    }
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0) {
        out->n_sent_segments = info.tcpi_segs_out;
        out->n_resent_segments = info.tcpi_total_retrans;
    }
}

/* How many bytes of `at`, from its beginning, equal the expected ones. */
static size_t good_length(const unsigned char *at, size_t len, const unsigned char *expected)
{
    if (memcmp(at, expected, len) == 0)
        return len;
    size_t good = 0;
    while (at[good] == expected[good])
        good++;
    return good;
}

struct reception {
    unsigned char *block, *expected; /* [BLOCK_BYTES] */
    uint64_t number;                 /* of the next block */
    bool is_last;
};

static void block_check(struct reception *reception, struct pair_result *out)
{
    uint64_t number, wanted = reception->number++;
    memcpy(&number, reception->block, sizeof(number));
    reception->is_last = number & IS_LAST;
    number &= ~IS_LAST;
    memcpy(reception->expected, &wanted, sizeof(wanted));
    memcpy(reception->block, &number, sizeof(number));
    size_t good = good_length(reception->block, BLOCK_BYTES, reception->expected);
    if (good < BLOCK_BYTES && out->bytes == LINK_FINE) {
        out->bytes = LINK_CORRUPTED;
        out->bad_at = wanted * BLOCK_BYTES + good;
    }
}

/* Receives blocks until the deadline, and counts their bytes in out->n_bytes. */
static void blocks_receive(int fd, struct reception *reception, uint64_t end_ms,
                           struct pair_result *out)
{
    uint64_t begin_ns = 0;
    size_t n_had = 0;
    while (!reception->is_last && stream_await(fd, POLLIN, end_ms)) {
        ssize_t got = recv(fd, reception->block + n_had, BLOCK_BYTES - n_had, 0);
        if (got == 0) /* the other end has given up */
            return;
        if (begin_ns == 0)
            begin_ns = clock_now_ns();
        n_had += (size_t)MAX(got, (ssize_t)0);
        out->n_bytes += (size_t)MAX(got, (ssize_t)0);
        out->took_ns = clock_now_ns() - begin_ns;
        if (n_had < BLOCK_BYTES)
            continue;
        block_check(reception, out);
        n_had = 0;
    }
}

static void stream_receive(int fd, uint64_t stream_ms, struct pair_result *out)
{
    cleanup_free unsigned char *block = xmalloc(BLOCK_BYTES);
    cleanup_free unsigned char *expected = xmalloc(BLOCK_BYTES);
    struct reception reception = {.block = block, .expected = expected};
    block_make(expected);
    blocks_receive(fd, &reception, clock_now_ms() + stream_ms + DRAIN_MS, out);
    if (out->n_bytes == 0 && out->bytes == LINK_FINE)
        out->bytes = LINK_LARGE_LOST;
    else if (!reception.is_last && out->bytes == LINK_FINE)
        out->bytes = LINK_SILENT; /* slow: the bytes that came are counted */
}

/* ---- the pair ---- */

static void first_run(int fd, uint64_t pings_end_ms, uint64_t stream_ms, struct pair_result *out)
{
    pings_send(fd, pings_end_ms, out);
    if (out->bytes == LINK_FINE)
        stream_send(fd, stream_ms, out);
    if (out->bytes == LINK_FINE)
        stream_receive(fd, stream_ms, out);
}

static void second_run(int fd, uint64_t pings_end_ms, uint64_t stream_ms, struct pair_result *out)
{
    pings_answer(fd, pings_end_ms, out);
    if (out->bytes == LINK_FINE)
        stream_receive(fd, stream_ms, out);
    if (out->bytes == LINK_FINE)
        stream_send(fd, stream_ms, out);
}

void pair_measure(const struct greeting *greeting, uint64_t stream_ms, struct pair_result *out)
{
    struct greeted greeted;
    greeting_exchange(greeting, &greeted);
    bool is_first = greeting->self < greeting->to, is_out = greeted.out == LINK_FINE;
    *out = (struct pair_result){.out = greeted.out, .has_in = greeted.in_fd >= 0};
    /* Uses the connection that the first rank has made, or that of the second rank if the former is closed. */
    int fd = is_first ? (is_out ? greeted.out_fd : greeted.in_fd)
                      : (out->has_in ? greeted.in_fd : greeted.out_fd);
    /* If one connection is closed, the other rank may wait for it until the greeting's deadline. */
    uint64_t begin_ms =
        is_out && out->has_in ? clock_now_ms() : MAX(clock_now_ms(), greeting->end_ms);
    uint64_t pings_end_ms = begin_ms + PINGS_END_MS;
    if (fd < 0)
        out->bytes = LINK_SILENT;
    else if (is_first)
        first_run(fd, pings_end_ms, stream_ms, out);
    else
        second_run(fd, pings_end_ms, stream_ms, out);
    greeted_close(&greeted);
}
