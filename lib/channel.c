/* SPDX-License-Identifier: Apache-2.0 */
#include "channel.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
    READ_BYTES = 1 << 18
};

/* The value of MUSTER_CHANNEL for a worker's children, which must not use its channel. */
static const char taken[] = "taken";

uint64_t mw_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int fail_errno(char *error, size_t error_cap, const char *what)
{
    const char *why = strerrordesc_np(errno);
    snprintf(error, error_cap, "%s: %s", what, why ? why : "unknown error");
    return MUSTER_WORKER_EIO;
}

static int connect_path(struct mw_channel *channel, const char *path, char *error, size_t error_cap)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(address.sun_path)) {
        snprintf(error, error_cap, "MUSTER_CHANNEL: a socket's path has at most %zu bytes: %s",
                 sizeof(address.sun_path) - 1, path);
        return MUSTER_WORKER_EIO;
    }
    memcpy(address.sun_path, path, strlen(path));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return fail_errno(error, error_cap, "socket");
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        int rc = fail_errno(error, error_cap, path);
        close(fd);
        return rc;
    }
    channel->in_fd = channel->out_fd = fd;
    return 0;
}

static int adopt_fd(struct mw_channel *channel, const char *text, char *error, size_t error_cap)
{
    char *end;
    long fd = strtol(text, &end, 10);
    if (end == text || *end != '\0' || fd < 0 || fd > INT32_MAX) {
        snprintf(error, error_cap, "MUSTER_CHANNEL: expected a descriptor or a path, found '%s'",
                 text);
        return MUSTER_WORKER_EIO;
    }
    /*
     * Children must not hold the channel open: muster takes its closing for the end of the worker.
     */
    if (fcntl((int)fd, F_SETFD, FD_CLOEXEC) != 0)
        return fail_errno(error, error_cap, "MUSTER_CHANNEL: descriptor");
    channel->in_fd = channel->out_fd = (int)fd;
    return 0;
}

int mw_channel_open(struct mw_channel *channel, char *error, size_t error_cap)
{
    *channel = (struct mw_channel){.in_fd = -1, .out_fd = -1, .flushed_ns = mw_now_ns()};
    const char *where = getenv("MUSTER_CHANNEL");
    if (!where || *where == '\0') {
        const char *seed = getenv("MUSTER_SEED");
        channel->by_hand = true;
        channel->in_fd = STDIN_FILENO;
        channel->out_fd = STDOUT_FILENO;
        channel->base_seed = seed ? strtoull(seed, NULL, 10) : 0;
        return 0;
    }
    if (strcmp(where, taken) == 0) {
        snprintf(error, error_cap,
                 "the channel belongs to another process: only the process that "
                 "muster started, and that opened it first, may use it");
        return MUSTER_WORKER_EUSE;
    }
    int rc = strchr(where, '/') ? connect_path(channel, where, error, error_cap)
                                : adopt_fd(channel, where, error, error_cap);
    if (rc == 0)
        setenv("MUSTER_CHANNEL", taken, 1);
    return rc;
}

void mw_channel_close(struct mw_channel *channel)
{
    if (!channel->by_hand && channel->in_fd >= 0)
        close(channel->in_fd);
    channel->in_fd = channel->out_fd = -1;
    mw_buf_release(&channel->in);
    mw_buf_release(&channel->out);
    mw_buf_release(&channel->raw);
}

bool mw_channel_line(struct mw_channel *channel, struct muster_text *line)
{
    const struct mw_buf *in = &channel->in;
    if (channel->searched == in->len)
        return false;
    const char *newline = memchr(in->at + channel->searched, '\n', in->len - channel->searched);
    if (!newline) {
        channel->searched = in->len;
        return false;
    }
    size_t end = (size_t)(newline - in->at);
    *line = (struct muster_text){in->at + channel->begin, end - channel->begin};
    channel->begin = channel->searched = end + 1;
    return true;
}

void mw_channel_reclaim(struct mw_channel *channel)
{
    size_t left = channel->in.len - channel->begin;
    /* Moving at most half of the buffer keeps the amortised cost of a byte constant. */
    if (channel->begin == 0 || left > channel->begin)
        return;
    memmove(channel->in.at, channel->in.at + channel->begin, left);
    channel->in.len = left;
    channel->searched -= channel->begin;
    channel->begin = 0;
}

bool mw_channel_is_midline(const struct mw_channel *channel)
{
    return channel->in.len > channel->begin;
}

/*
 * The same function as in muster, so that an item run by hand gets the seed that it has in a run.
 */
static uint64_t item_seed(uint64_t base_seed, uint64_t index)
{
    uint64_t x = base_seed;
    for (int round = 0; round < 2; round++) {
        x += (round == 0 ? 1 : index + 1) * UINT64_C(0x9e3779b97f4a7c15);
        x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
        x ^= x >> 31;
    }
    return x;
}

/* Removes a byte-order mark, which is no part of the first record for muster map either. */
static struct muster_text unmarked(struct muster_text text)
{
    bool has_mark = text.len >= 3 && memcmp(text.at, "\xef\xbb\xbf", 3) == 0;
    return has_mark ? (struct muster_text){text.at + 3, text.len - 3} : text;
}

/* Adds one line of stdin as the message that muster would send. */
static bool add_by_hand(struct mw_channel *channel, struct muster_text line)
{
    char head[96];
    if (channel->n_by_hand == 0)
        line = unmarked(line);
    int len = snprintf(head, sizeof(head),
                       "{\"item\":%" PRIu64 ",\"seed\":\"%016" PRIx64 "\",\"attempt\":1,\"data\":",
                       channel->n_by_hand, item_seed(channel->base_seed, channel->n_by_hand));
    bool has_json = line.len > 0 && (line.at[0] == '{' || line.at[0] == '[' || line.at[0] == '"');
    bool is_json = has_json && mw_json_is_value(line);
    channel->n_by_hand++;
    return mw_buf_add(&channel->in, head, (size_t)len) &&
           (is_json ? mw_buf_add(&channel->in, line.at, line.len)
                    : mw_buf_add_json(&channel->in, line)) &&
           mw_buf_add_text(&channel->in, "}\n");
}

/*
 * Turns the complete lines of raw into messages; at the end of stdin, an unfinished line as well.
 */
static bool translate_by_hand(struct mw_channel *channel)
{
    struct mw_buf *raw = &channel->raw;
    size_t begin = 0, searched = channel->raw_searched;
    while (begin < raw->len) {
        const char *at = raw->at + begin;
        const char *newline = memchr(raw->at + searched, '\n', raw->len - searched);
        if (!newline && !channel->has_ended)
            break;
        size_t len = newline ? (size_t)(newline - at) : raw->len - begin;
        size_t text_len = len > 0 && at[len - 1] == '\r' ? len - 1 : len;
        if (!add_by_hand(channel, (struct muster_text){at, text_len}))
            return false;
        begin = searched = begin + len + (newline ? 1 : 0);
    }
    if (begin > 0)
        memmove(raw->at, raw->at + begin, raw->len - begin);
    raw->len -= begin;
    channel->raw_searched = raw->len;
    return true;
}

static int out_of_memory(char *error, size_t error_cap)
{
    snprintf(error, error_cap, "no memory for an item");
    return MUSTER_WORKER_ENOMEM;
}

static int await(int fd, short events, int timeout_ms)
{
    struct pollfd wait = {.fd = fd, .events = events};
    int n;
    do
        n = poll(&wait, 1, timeout_ms);
    while (n < 0 && errno == EINTR);
    return n;
}

int mw_channel_fill(struct mw_channel *channel, int timeout_ms, char *error, size_t error_cap)
{
    struct mw_buf *into = channel->by_hand ? &channel->raw : &channel->in;
    if (!mw_buf_reserve(into, READ_BYTES))
        return out_of_memory(error, error_cap);
    ssize_t n;
    do {
        int ready = timeout_ms < 0 ? 1 : await(channel->in_fd, POLLIN, timeout_ms);
        if (ready == 0)
            return 0;
        n = read(channel->in_fd, into->at + into->len, into->cap - into->len);
        if (n < 0 && errno == EAGAIN)
            await(channel->in_fd, POLLIN, -1);
    } while (n < 0 && (errno == EINTR || errno == EAGAIN));
    /*
     * ECONNRESET: muster has ended before it read all our bytes. It counts as the end of input; the
     * next write fails.
     */
    if (n < 0 && errno != ECONNRESET)
        return fail_errno(error, error_cap, channel->by_hand ? "read stdin" : "read the channel");
    channel->has_ended = n <= 0;
    into->len += n > 0 ? (size_t)n : 0;
    if (channel->by_hand && !translate_by_hand(channel))
        return out_of_memory(error, error_cap);
    return 1;
}

int mw_channel_flush(struct mw_channel *channel, char *error, size_t error_cap)
{
    size_t sent = 0;
    while (sent < channel->out.len) {
        const char *at = channel->out.at + sent;
        size_t len = channel->out.len - sent;
        ssize_t n = channel->by_hand ? write(channel->out_fd, at, len)
                                     : send(channel->out_fd, at, len, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN)
            await(channel->out_fd, POLLOUT, -1);
        else if (n < 0 && errno != EINTR)
            return fail_errno(error, error_cap,
                              channel->by_hand ? "write stdout" : "write to muster");
        sent += n > 0 ? (size_t)n : 0;
    }
    channel->out.len = 0;
    channel->flushed_ns = mw_now_ns();
    return 0;
}
