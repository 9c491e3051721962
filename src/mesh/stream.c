/* SPDX-License-Identifier: Apache-2.0 */
#include "mesh/stream.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

enum {
    UNSENT_MAX_BYTES = 512 * 1024 /* in the kernel's buffer: a slow link has to send these later */
};

static const struct {
    const char *word, *text;
} states[] = {
#define X(name, word, text) [LINK_##name] = {(word), (text)},
    LINK_STATES(X)
#undef X
};

const char *link_state_word(enum link_state state)
{
    return states[state].word;
}

const char *link_state_text(enum link_state state)
{
    return states[state].text;
}

bool link_state_find(struct str word, enum link_state *out)
{
    for (size_t i = 0; i < countof(states); i++) {
        *out = (enum link_state)i;
        if (str_equal(word, str_of(states[i].word)))
            return true;
    }
    return false;
}

enum link_state link_state_of(int sys)
{
    switch (sys) {
    case 0:
        return LINK_FINE;
    case ECONNREFUSED:
        return LINK_REFUSED;
    case ENETUNREACH:
    case EHOSTUNREACH:
    case EADDRNOTAVAIL:
    case EACCES:
    case EPERM: /* a firewall rule of this machine */
        return LINK_UNREACHABLE;
    case ETIMEDOUT:
    case EINPROGRESS:
        return LINK_SILENT;
    default:
        return LINK_BROKEN;
    }
}

static void options_set(int fd)
{
    int on = 1, unsent = UNSENT_MAX_BYTES;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof(unsent));
}

int stream_connect_begin(const struct address *to)
{
    bool is_v6 = to->any.sa_family == AF_INET6;
    cleanup_fd int fd = socket(to->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    options_set(fd);
    if (connect(fd, &to->any, is_v6 ? sizeof(to->v6) : sizeof(to->v4)) != 0 && errno != EINPROGRESS)
        return -1;
    return steal_fd(&fd);
}

int stream_connect_error(int fd)
{
    int sys = 0;
    socklen_t len = sizeof(sys);
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &sys, &len) == 0 ? sys : errno;
}

int stream_accept(int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0)
        options_set(fd);
    return fd;
}

bool stream_peer(int fd, struct address *out)
{
    socklen_t len = sizeof(*out);
    return getpeername(fd, &out->any, &len) == 0;
}

bool stream_own(int fd, struct address *out)
{
    socklen_t len = sizeof(*out);
    return getsockname(fd, &out->any, &len) == 0;
}

bool stream_await(int fd, short events, uint64_t end_ms)
{
    struct pollfd at = {.fd = fd, .events = events};
    uint64_t now_ms = clock_now_ms();
    int n = 0;
    while (now_ms < end_ms && (n = poll(&at, 1, (int)(end_ms - now_ms))) <= 0 &&
           (n == 0 || errno == EINTR))
        now_ms = clock_now_ms();
    return n > 0;
}

static bool may_come_later(void)
{
    return errno == EAGAIN || errno == EINTR;
}

enum link_state stream_write(int fd, const void *at, size_t len, uint64_t end_ms)
{
    const char *from = at;
    while (len > 0) {
        ssize_t put = send(fd, from, len, MSG_NOSIGNAL);
        if (put < 0 && !may_come_later())
            return LINK_BROKEN;
        from += MAX(put, (ssize_t)0);
        len -= (size_t)MAX(put, (ssize_t)0);
        if (len > 0 && !stream_await(fd, POLLOUT, end_ms))
            return LINK_SILENT;
    }
    return LINK_FINE;
}

enum link_state stream_read(int fd, void *at, size_t len, uint64_t end_ms)
{
    char *to = at;
    while (len > 0) {
        ssize_t got = recv(fd, to, len, 0);
        if (got == 0 || (got < 0 && !may_come_later()))
            return LINK_BROKEN;
        to += MAX(got, (ssize_t)0);
        len -= (size_t)MAX(got, (ssize_t)0);
        if (len > 0 && !stream_await(fd, POLLIN, end_ms))
            return LINK_SILENT;
    }
    return LINK_FINE;
}

enum link_state stream_line(int fd, struct buf *rest, size_t max, struct buf *line, uint64_t end_ms)
{
    char bytes[4096];
    const char *end;
    while (!(end = rest->len > 0 ? memchr(rest->at, '\n', rest->len) : NULL)) {
        if (rest->len > max)
            return LINK_STRANGER;
        if (!stream_await(fd, POLLIN, end_ms))
            return LINK_SILENT;
        ssize_t got = recv(fd, bytes, sizeof(bytes), 0);
        if (got == 0 || (got < 0 && !may_come_later()))
            return LINK_BROKEN;
        buf_add(rest, bytes, (size_t)MAX(got, (ssize_t)0));
    }
    size_t len = (size_t)(end - rest->at);
    buf_reset(line);
    buf_add(line, rest->at, len);
    buf_consume(rest, len + 1);
    return LINK_FINE;
}
