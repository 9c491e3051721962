/* SPDX-License-Identifier: Apache-2.0 */
#include "mesh/ring.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/rng.h"
#include "base/xalloc.h"

enum {
    RING_MS = RING_MAX_MS - GREET_MS,
    STILL_MS = 3000, /* if no byte moves for so long, one of the links does not work */
    NUMBERS = RING_BYTES / sizeof(uint64_t)
};

struct pass {
    const struct ring *ring;
    int next_fd, before_fd;
    uint64_t *numbers, *received; /* [n] */
    size_t n;
    uint64_t end_ms, still_ms; /* still_ms: when to give up if no byte moves */
    struct ring_result *result;
};

/* Rank i has i + 1 times these numbers, modulo 2^64, so that the sum is exact. */
static uint64_t base_number(size_t position)
{
    return mix64(position);
}

static size_t chunk_begin(const struct pass *pass, uint32_t chunk)
{
    return pass->n * chunk / pass->ring->count;
}

static bool end_failed(struct pass *pass, bool is_of_next, enum link_state state)
{
    pass->result->state = state;
    pass->result->is_of_next = is_of_next;
    return false;
}

struct part {
    char *at;
    size_t len;
};

static bool is_later(ssize_t moved)
{
    return moved < 0 && (errno == EAGAIN || errno == EINTR);
}

static void part_advance(struct part *part, ssize_t moved)
{
    part->at += MAX(moved, (ssize_t)0);
    part->len -= (size_t)MAX(moved, (ssize_t)0);
}

/* Sends and receives at the same time: all ranks send at once, and a buffer of the kernel may not hold a whole part. */
static bool parts_move(struct pass *pass, struct part to_next, struct part from_before)
{
    while (to_next.len > 0 || from_before.len > 0) {
        struct pollfd at[] = {{.fd = to_next.len > 0 ? pass->next_fd : -1, .events = POLLOUT},
                              {.fd = from_before.len > 0 ? pass->before_fd : -1, .events = POLLIN}};
        uint64_t now_ms = clock_now_ms(), end_ms = MIN(pass->end_ms, pass->still_ms);
        if (now_ms >= end_ms)
            return end_failed(pass, from_before.len == 0, LINK_SILENT);
        if (poll(at, countof(at), (int)(end_ms - now_ms)) > 0)
            pass->still_ms = clock_now_ms() + STILL_MS;
        if (at[0].revents) {
            ssize_t put = send(pass->next_fd, to_next.at, to_next.len, MSG_NOSIGNAL);
            if (put <= 0 && !is_later(put))
                return end_failed(pass, true, LINK_BROKEN);
            part_advance(&to_next, put);
        }
        if (at[1].revents) {
            ssize_t got = recv(pass->before_fd, from_before.at, from_before.len, 0);
            if (got <= 0 && !is_later(got))
                return end_failed(pass, false, LINK_BROKEN);
            part_advance(&from_before, got);
        }
    }
    return true;
}

/* One step: sends a chunk to the next rank, and receives another one from the rank before. */
static bool chunk_move(struct pass *pass, uint32_t sent, uint32_t came)
{
    size_t sent_at = chunk_begin(pass, sent), came_at = chunk_begin(pass, came);
    size_t n_sent = chunk_begin(pass, sent + 1) - sent_at;
    size_t n_came = chunk_begin(pass, came + 1) - came_at;
    return parts_move(pass,
                      (struct part){(char *)(pass->numbers + sent_at), n_sent * sizeof(uint64_t)},
                      (struct part){(char *)(pass->received + came_at), n_came * sizeof(uint64_t)});
}

static void chunk_take(struct pass *pass, uint32_t chunk, bool is_sum)
{
    for (size_t i = chunk_begin(pass, chunk); i < chunk_begin(pass, chunk + 1); i++)
        pass->numbers[i] = pass->received[i] + (is_sum ? pass->numbers[i] : 0);
}

/* Makes the sum. First every rank gets the sum of one chunk; then the sums go round the ring. */
static bool sum_make(struct pass *pass)
{
    uint32_t count = pass->ring->count, index = pass->ring->index;
    for (uint32_t step = 0; step + 1 < 2 * count - 1; step++) {
        bool is_sum = step < count - 1;
        uint32_t shift = is_sum ? step : step - (count - 1);
        uint32_t sent = (index + 2 * count - shift + !is_sum) % count;
        uint32_t came = (sent + count - 1) % count;
        if (!chunk_move(pass, sent, came))
            return false;
        chunk_take(pass, came, is_sum);
    }
    return true;
}

static bool sum_check(struct pass *pass)
{
    uint64_t count = pass->ring->count, times = count * (count + 1) / 2;
    for (size_t i = 0; i < pass->n; i++)
        pass->result->n_wrong += pass->numbers[i] != base_number(i) * times;
    if (pass->result->n_wrong > 0)
        pass->result->state = LINK_CORRUPTED;
    return pass->result->n_wrong == 0;
}

static bool pass_run(struct pass *pass, size_t n)
{
    pass->n = n;
    for (size_t i = 0; i < n; i++)
        pass->numbers[i] = base_number(i) * (pass->ring->index + 1);
    return sum_make(pass) && sum_check(pass);
}

/* Makes a small sum first. When it is done, all ranks are there, so the second sum's time is only that of its bytes. */
static void passes_run(struct pass *pass)
{
    if (!pass_run(pass, MAX((size_t)pass->ring->count, (size_t)16)))
        return;
    uint64_t begin_ns = clock_now_ns();
    if (pass_run(pass, MAX((size_t)NUMBERS, (size_t)pass->ring->count)))
        pass->result->took_ns = clock_now_ns() - begin_ns;
}

void ring_run(const struct ring *ring, struct ring_result *out)
{
    struct greeted greeted = {.out_fd = -1, .in_fd = -1};
    size_t n = MAX((size_t)NUMBERS, (size_t)ring->count);
    cleanup_free uint64_t *numbers = xmalloc(n * sizeof(*numbers));
    cleanup_free uint64_t *received = xmalloc(n * sizeof(*received));
    *out = (struct ring_result){0};
    if (ring->count > 1)
        greeting_exchange(&ring->greeting, &greeted);
    struct pass pass = {.ring = ring,
                        .next_fd = greeted.out_fd,
                        .before_fd = greeted.in_fd,
                        .numbers = numbers,
                        .received = received,
                        .end_ms = clock_now_ms() + RING_MS,
                        .still_ms = clock_now_ms() + STILL_MS,
                        .result = out};
    if (greeted.out != LINK_FINE)
        (void)end_failed(&pass, true, greeted.out);
    else if (ring->count > 1 && greeted.in_fd < 0)
        (void)end_failed(&pass, false, LINK_SILENT);
    else
        passes_run(&pass);
    greeted_close(&greeted);
}
