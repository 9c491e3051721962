/* SPDX-License-Identifier: Apache-2.0
 *
 * How ranks on several machines find each other. Rank 0 listens at a port that all know:
 * MASTER_PORT, which the launcher holds for the ranks' own library, or MUSTER_DIST_PORT. The others
 * connect, and tell their ranks and the ports at which they listen. When all have come, rank 0
 * sends everyone the addresses, and each rank connects to those with lower numbers. Then no rank
 * listens any more.
 *
 * The rank that accepts a connection sends a random number, with which the other end proves that it
 * knows the job (and MUSTER_DIST_TOKEN, if that is set). The connection of anybody else is closed,
 * and the ranks go on waiting.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tcp.h"

enum {
    GREETING_MAGIC = 0x6d647431,
    PENDING_MAX = 64, /* connections that have not said who they are */
    RETRY_NS = 50000000,
    PORT_WAIT_MS = 10000, /* for a port that an ending attempt may still have */
    PENDING_MS = 5000     /* for a pending connection to introduce itself */
};
static const uint64_t connect_ns = 2000000000; /* for an address */
static const uint64_t later_ns = 2000000000;   /* rank 0 may be later, and knows who is missing */

/* The greeting of the rank that accepts. */
struct greeting {
    uint32_t magic, zero;
    uint64_t nonce[2];
};

struct hello {
    uint32_t magic, rank, size, port;
    uint64_t nonce[2]; /* for the proof of the other end */
    uint64_t mac;
};

/* The address at which a rank listens; IPv4 is mapped into IPv6. */
struct where {
    struct in6_addr address;
    uint32_t port, scope;
};

union any_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* A connection whose other end has not proved yet which rank it is. */
struct pending {
    int fd;
    uint64_t nonce[2], since_ns;
    struct hello hello;
    size_t got;
};

struct meeting {
    struct muster_dist *dist;
    struct md_tcp *tcp;
    const char *host;
    uint32_t port, own_port;
    int listener;
    struct pending pending[PENDING_MAX];
    struct where *where; /* of each rank */

    struct in6_addr of_first; /* address of rank 0, as this rank sees it */
    uint32_t n_awaited;
};

static const char *reason(int error)
{
    const char *why = strerrordesc_np(error);
    return why ? why : "unknown error";
}

static bool is_late(const struct md_tcp *tcp)
{
    return md_now_ns() > tcp->deadline_ns;
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = RETRY_NS}, NULL);
}

static bool nonce_draw(uint64_t nonce[2])
{
    return getrandom(nonce, 2 * sizeof(*nonce), 0) == (ssize_t)(2 * sizeof(*nonce));
}

/* ---- the environment ---- */

static const char *port_variable(void)
{
    const char *own = getenv("MUSTER_DIST_PORT");
    return own && *own != '\0' ? "MUSTER_DIST_PORT" : "MASTER_PORT";
}

bool md_tcp_can(const struct md_place *place)
{
    const char *host = getenv("MASTER_ADDR"), *port = getenv(port_variable());
    return place->is_of_torch && host && *host != '\0' && port && *port != '\0';
}

static int environment_read(struct meeting *meeting)
{
    const char *name = port_variable(), *text = getenv(name), *token = getenv("MUSTER_DIST_TOKEN");
    char *end = NULL, job[24], key[4096];
    meeting->host = getenv("MASTER_ADDR");
    unsigned long port = text ? strtoul(text, &end, 10) : 0;
    if (!meeting->host || *meeting->host == '\0')
        return md_fail(meeting->dist, MUSTER_DIST_EENV,
                       "MASTER_ADDR, which says where rank 0 is, is not set: start the ranks with "
                       "`muster launch` or torchrun");
    if (!text || *text < '0' || *text > '9' || *end != '\0' || port == 0 || port > UINT16_MAX)
        return md_fail(meeting->dist, MUSTER_DIST_EENV, "%s: '%.40s' is not a port", name,
                       text ? text : "");
    meeting->port = (uint32_t)port;
    snprintf(job, sizeof(job), "%016llx", (unsigned long long)meeting->dist->place.job);
    snprintf(key, sizeof(key), "%s %s", job, token ? token : "");
    meeting->tcp->key = md_mac_key_of(key);
    return 0;
}

/* ---- proofs ---- */

static uint64_t hello_mac(const struct md_tcp *tcp, const uint64_t nonce[2],
                          const struct hello *hello)
{
    unsigned char said[sizeof(*hello) + 2 * sizeof(*nonce)];
    struct hello copy = *hello;
    copy.mac = 0;
    memcpy(said, &copy, sizeof(copy));
    memcpy(said + sizeof(copy), nonce, 2 * sizeof(*nonce));
    return md_mac(&tcp->key, said, sizeof(said));
}

/* Returns the proof of the rank that accepted the connection. */
static uint64_t answer_mac(const struct md_tcp *tcp, const struct hello *hello)
{
    return md_mac(&tcp->key, hello->nonce, sizeof(hello->nonce));
}

/* ---- sockets ---- */

/*
 * The kernel probes a machine that was silent for ten seconds, and gives it up after 30. There is
 * no time limit on unread bytes, since the other rank may be computing.
 */
static void socket_set(int fd)
{
    const struct {
        int level, option, value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},   {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, 10}, {IPPROTO_TCP, TCP_KEEPINTVL, 5},
        {IPPROTO_TCP, TCP_KEEPCNT, 4},
    };
    for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++)
        setsockopt(fd, options[i].level, options[i].option, &options[i].value,
                   sizeof(options[i].value));
}

/* Opens a socket of both families if there is IPv6. Returns -1 with errno if that fails. */
static int bound_socket(uint32_t port)
{
    const struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    const struct sockaddr_in at_v4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int on = 1, off = 0, flags = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
    int fd = socket(AF_INET6, flags, 0);
    if (fd >= 0 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) == 0 &&
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
        bind(fd, (const struct sockaddr *)&at, sizeof(at)) == 0)
        return fd;
    bool is_had = fd >= 0 && errno == EADDRINUSE;
    if (fd >= 0)
        close(fd);
    if (is_had) {
        errno = EADDRINUSE;
        return -1;
    }
    fd = socket(AF_INET, flags, 0);
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
        bind(fd, (const struct sockaddr *)&at_v4, sizeof(at_v4)) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static int listen_at(struct meeting *meeting, uint32_t port)
{
    union any_address at = {0};
    socklen_t len = sizeof(at);
    int fd = bound_socket(port);
    if (fd < 0)
        return -1;
    if (listen(fd, 4096) != 0 || getsockname(fd, &at.any, &len) != 0) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    meeting->own_port = ntohs(at.any.sa_family == AF_INET6 ? at.v6.sin6_port : at.v4.sin_port);
    meeting->listener = fd;
    return 0;
}

static bool where_of(int fd, struct where *out)
{
    union any_address at = {0};
    socklen_t len = sizeof(at);
    *out = (struct where){0};
    if (getpeername(fd, &at.any, &len) != 0)
        return false;
    if (at.any.sa_family == AF_INET6) {
        out->address = at.v6.sin6_addr;
        out->scope = at.v6.sin6_scope_id;
        return true;
    }
    out->address.s6_addr[10] = out->address.s6_addr[11] = 0xff;
    memcpy(&out->address.s6_addr[12], &at.v4.sin_addr, 4);
    return true;
}

static bool is_loopback(const struct in6_addr *address)
{
    return IN6_IS_ADDR_LOOPBACK(address) ||
           (IN6_IS_ADDR_V4MAPPED(address) && address->s6_addr[12] == 127);
}

/* Receives all bytes until end_ns. */
static bool receive_all(int fd, void *at, size_t bytes, uint64_t end_ns)
{
    size_t got = 0;
    while (got < bytes && md_now_ns() < end_ns) {
        ssize_t n = recv(fd, (char *)at + got, bytes - got, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return false;
        got += n > 0 ? (size_t)n : 0;
        if (n < 0)
            poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, MD_TCP_TICK_MS);
    }
    return got == bytes;
}

/* ---- those that come ---- */

static void pending_close(struct pending *pending)
{
    close(pending->fd);
    pending->fd = -1;
}

static void pending_accept(struct meeting *meeting)
{
    for (int i = 0; i < PENDING_MAX; i++) {
        struct pending *pending = &meeting->pending[i];
        if (pending->fd >= 0)
            continue;
        int fd = accept4(meeting->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            return;
        struct greeting greeting = {.magic = GREETING_MAGIC};
        *pending = (struct pending){.fd = fd, .since_ns = md_now_ns()};
        socket_set(fd);
        if (!nonce_draw(pending->nonce)) {
            pending_close(pending);
            continue;
        }
        memcpy(greeting.nonce, pending->nonce, sizeof(greeting.nonce));
        if (send(fd, &greeting, sizeof(greeting), MSG_NOSIGNAL) != sizeof(greeting))
            pending_close(pending);
    }
}

/* Judges a hello with a valid proof: from here on a flaw is an error of the job. */
static int hello_judge(struct meeting *meeting, const struct hello *hello)
{
    const struct md_tcp *tcp = meeting->tcp;
    if (hello->size != tcp->size)
        return md_fail(meeting->dist, MUSTER_DIST_EENV,
                       "ranks disagree: rank %u says that there are %u, and rank %u %u",
                       hello->rank, hello->size, tcp->rank, tcp->size);
    if (hello->rank <= tcp->rank || hello->rank >= tcp->size)
        return md_fail(meeting->dist, MUSTER_DIST_EENV, "two processes say that they are rank %u",
                       hello->rank);
    if (tcp->peers[hello->rank].fd >= 0)
        return md_fail(meeting->dist, MUSTER_DIST_EENV, "rank %u has come twice", hello->rank);
    return 0;
}

/* Sends the welcome, or the error. */
static void pending_answer(const struct meeting *meeting, const struct pending *pending, int code)
{
    struct {
        struct tcp_head head;
        struct tcp_told told;
    } frame = {.head = {.kind = code ? TCP_TOLD : TCP_WELCOME,
                        .bytes = code ? sizeof(frame.told) : 0,
                        .signature.what = answer_mac(meeting->tcp, &pending->hello)},
               .told.code = code};
    snprintf(frame.told.text, sizeof(frame.told.text), "%s", muster_dist_error(meeting->dist));
    send(pending->fd, &frame.head, sizeof(frame.head), MSG_NOSIGNAL);
    if (code)
        send(pending->fd, &frame.told, sizeof(frame.told), MSG_NOSIGNAL);
}

/* Reads the hello of a pending connection, or closes it. */
static int pending_hear(struct meeting *meeting, struct pending *pending)
{
    struct md_tcp *tcp = meeting->tcp;
    struct hello *hello = &pending->hello;
    ssize_t n = recv(pending->fd, (char *)hello + pending->got, sizeof(*hello) - pending->got,
                     MSG_DONTWAIT);
    bool is_idle = n < 0 && (errno == EAGAIN || errno == EINTR);
    if (n == 0 || (n < 0 && !is_idle) ||
        md_now_ns() - pending->since_ns > PENDING_MS * 1000000ull) {
        pending_close(pending);
        return 0;
    }
    pending->got += n > 0 ? (size_t)n : 0;
    if (pending->got < sizeof(*hello))
        return 0;
    if (hello->magic != GREETING_MAGIC || hello->mac != hello_mac(tcp, pending->nonce, hello)) {
        pending_close(pending);
        return 0;
    }
    int rc = hello_judge(meeting, hello);
    pending_answer(meeting, pending, rc);
    if (rc != 0)
        return rc;
    if (where_of(pending->fd, &meeting->where[hello->rank]))
        meeting->where[hello->rank].port = hello->port;

    tcp->peers[hello->rank].fd = pending->fd;
    pending->fd = -1;
    meeting->n_awaited--;
    return 0;
}

static int late_tell(const struct meeting *meeting)
{
    const struct md_tcp *tcp = meeting->tcp;
    bool is_missing[MD_RANKS_MAX] = {false};
    char names[120];
    for (uint32_t r = 0; r < tcp->size; r++)
        is_missing[r] = r > tcp->rank && tcp->peers[r].fd < 0;
    md_ranks_format(is_missing, tcp->size, names, sizeof(names));
    return md_fail(meeting->dist, MUSTER_DIST_ETIMEOUT,
                   "%s of %u did not come to rank %u within %.1f s (%s)", names, tcp->size,
                   tcp->rank, (double)meeting->dist->timeout_ms / 1e3,
                   meeting->dist->place.launcher);
}

/* Waits for the ranks above this one. */
static int others_await(struct meeting *meeting)
{
    struct md_tcp *tcp = meeting->tcp;
    int rc = 0;
    while (rc == 0 && meeting->n_awaited > 0) {
        struct pollfd polls[PENDING_MAX + 1] = {{.fd = meeting->listener, .events = POLLIN}};
        for (int i = 0; i < PENDING_MAX; i++)
            polls[i + 1] = (struct pollfd){.fd = meeting->pending[i].fd, .events = POLLIN};
        poll(polls, PENDING_MAX + 1, MD_TCP_TICK_MS);
        pending_accept(meeting);
        for (int i = 0; rc == 0 && i < PENDING_MAX; i++)
            if (meeting->pending[i].fd >= 0)
                rc = pending_hear(meeting, &meeting->pending[i]);
        rc = rc ? rc : md_tcp_unsolicited_read(meeting->dist, NULL);
        if (rc == 0 && meeting->n_awaited > 0 && is_late(tcp))
            rc = late_tell(meeting);
    }
    return rc;
}

/* ---- going to others ---- */

static int connect_within(const struct sockaddr *at, socklen_t len, uint64_t end_ns)
{
    int error = 0, fd = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t size = sizeof(error);
    if (fd < 0)
        return -1;
    if (connect(fd, at, len) != 0)
        error = errno;
    struct pollfd poll_fd = {.fd = fd, .events = POLLOUT};
    while (error == EINPROGRESS || error == EINTR) {
        if (poll(&poll_fd, 1, MD_TCP_TICK_MS) > 0)
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
        else if (md_now_ns() > end_ns)
            error = ETIMEDOUT;
    }
    if (error == 0) {
        socket_set(fd);
        return fd;
    }
    close(fd);
    errno = error;
    return -1;
}

/*
 * Introduces this rank. Returns 0: the other rank welcomes it; negative: the error with which the
 * other rank ends this one; 1, with errno: no rank of this job answers there.
 */
static int hello_say(const struct meeting *meeting, int fd)
{
    const struct md_tcp *tcp = meeting->tcp;
    uint64_t end_ns = md_now_ns() + PENDING_MS * 1000000ull;
    struct greeting greeting;
    struct tcp_head head;
    struct tcp_told told;
    struct hello hello = {GREETING_MAGIC, tcp->rank, tcp->size, meeting->own_port, {0}, 0};
    bool is_greeted = receive_all(fd, &greeting, sizeof(greeting), end_ns) &&
                      greeting.magic == GREETING_MAGIC && nonce_draw(hello.nonce);
    errno = EPROTO;
    if (!is_greeted)
        return 1;
    hello.mac = hello_mac(tcp, greeting.nonce, &hello);
    bool is_known = send(fd, &hello, sizeof(hello), MSG_NOSIGNAL) == sizeof(hello) &&
                    receive_all(fd, &head, sizeof(head), end_ns) &&
                    head.signature.what == answer_mac(tcp, &hello);
    errno = EACCES;
    if (!is_known)
        return 1;
    if (head.kind == TCP_WELCOME)
        return 0;
    if (head.kind != TCP_TOLD || !receive_all(fd, &told, sizeof(told), end_ns))
        return 1;
    told.text[sizeof(told.text) - 1] = '\0';
    return md_adopt(meeting->dist, told.code < 0 ? told.code : MUSTER_DIST_EFAIL, told.text);
}

/* Connects, and introduces this rank; *out: the connection. Returns as hello_say(). */
static int try_at(const struct meeting *meeting, const struct sockaddr *at, socklen_t len, int *out)
{
    int fd = connect_within(at, len, md_now_ns() + connect_ns);
    if (fd < 0)
        return 1;
    int rc = hello_say(meeting, fd), error = errno;
    if (rc == 0)
        *out = fd;
    else
        close(fd);
    errno = error;
    return rc;
}

static const char *why_not(int error)
{
    return error == EPROTO   ? "what listens there is no rank"
           : error == EACCES ? "it is another job's, or has another MUSTER_DIST_TOKEN"
                             : reason(error);
}

/*
 * Tries every address of rank 0's host once. Returns what hello_say() returns; *why: why it failed.
 */
static int first_try(const struct meeting *meeting, const char **why)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *all = NULL;
    char port[12];
    snprintf(port, sizeof(port), "%u", meeting->port);
    int rc = 1, failed = getaddrinfo(meeting->host, port, &hints, &all);
    *why = failed ? gai_strerror(failed) : *why;
    for (const struct addrinfo *at = all; !failed && at && rc == 1; at = at->ai_next) {
        rc = try_at(meeting, at->ai_addr, at->ai_addrlen, &meeting->tcp->peers[0].fd);
        *why = rc == 1 ? why_not(errno) : *why;
    }
    if (all)
        freeaddrinfo(all);
    return rc;
}

/* Waits for rank 0, which may not have begun. */
static int first_connect(const struct meeting *meeting)
{
    const struct md_tcp *tcp = meeting->tcp;
    const char *why = "nothing answers";
    for (;;) {
        int rc = first_try(meeting, &why);
        if (rc <= 0)
            return rc;
        if (is_late(tcp))
            return md_fail(meeting->dist, MUSTER_DIST_ETIMEOUT,
                           "rank 0 of %u did not come within %.1f s: rank %u did not meet it at "
                           "%.100s, port %u: %s (%s)",
                           tcp->size, (double)meeting->dist->timeout_ms / 1e3, tcp->rank,
                           meeting->host, meeting->port, why, meeting->dist->place.launcher);
        nap();
    }
}

/*
 * Connects to rank 0, and gets the addresses of all from it when they have come. On a timeout, rank
 * 0 says which ranks are missing.
 */
static int first_meet(struct meeting *meeting)
{
    struct md_tcp *tcp = meeting->tcp;
    uint64_t deadline_ns = tcp->deadline_ns;
    struct where of_first;
    int rc = first_connect(meeting);
    if (rc != 0)
        return rc;
    meeting->of_first = where_of(tcp->peers[0].fd, &of_first) ? of_first.address : in6addr_any;
    md_tcp_expect(&tcp->peers[0], TCP_WORLD, meeting->where, tcp->size * sizeof(*meeting->where));
    tcp->deadline_ns += later_ns;
    rc = md_tcp_exchange(meeting->dist, NULL);
    tcp->deadline_ns = deadline_ns;
    return rc == 1 ? md_fail(meeting->dist, MUSTER_DIST_ETIMEOUT,
                             "rank 0 of %u does not say within %.1f s where the others are",
                             tcp->size, (double)meeting->dist->timeout_ms / 1e3)
                   : rc;
}

/* A rank that rank 0 saw at a loopback address is on rank 0's machine. */
static int other_connect(struct meeting *meeting, uint32_t rank)
{
    struct md_tcp *tcp = meeting->tcp;
    const struct where *where = &meeting->where[rank];
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
                              .sin6_port = htons((uint16_t)where->port),
                              .sin6_addr = where->address,
                              .sin6_scope_id = where->scope};
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = v6.sin6_port};
    char text[INET6_ADDRSTRLEN] = "";
    if (is_loopback(&v6.sin6_addr))
        v6.sin6_addr = meeting->of_first;
    bool is_v4 = IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr);
    memcpy(&v4.sin_addr, &v6.sin6_addr.s6_addr[12], 4);
    const struct sockaddr *at = is_v4 ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6;
    const char *why = "";
    do {
        int rc = try_at(meeting, at, is_v4 ? sizeof(v4) : sizeof(v6), &tcp->peers[rank].fd);
        why = rc == 1 ? why_not(errno) : why;
        rc = rc == 1 ? md_tcp_unsolicited_read(meeting->dist, NULL) : rc;
        if (rc != 0 || tcp->peers[rank].fd >= 0)
            return rc;
        nap();
    } while (!is_late(tcp));
    inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
    return md_fail(meeting->dist, MUSTER_DIST_ETIMEOUT,
                   "rank %u cannot reach rank %u at %s, port %u: %s (is there a firewall between "
                   "them?)",
                   tcp->rank, rank, text, where->port, why);
}

/* ---- the meeting ---- */

static int host_listen(struct meeting *meeting)
{
    uint64_t end_ns = md_now_ns() + PORT_WAIT_MS * 1000000ull;
    while (listen_at(meeting, meeting->port) != 0) {
        if (errno != EADDRINUSE || md_now_ns() > end_ns || is_late(meeting->tcp))
            return md_fail(meeting->dist, MUSTER_DIST_EIO,
                           "rank 0: port %u, where the ranks meet: %s; MUSTER_DIST_PORT names "
                           "another one, where the program itself uses MASTER_PORT",
                           meeting->port, reason(errno));
        nap();
    }
    return 0;
}

static int host_meet(struct meeting *meeting)
{
    struct md_tcp *tcp = meeting->tcp;
    int rc = host_listen(meeting);
    rc = rc ? rc : others_await(meeting);
    if (rc != 0)
        return rc;
    for (uint32_t r = 1; r < tcp->size; r++) {
        md_tcp_send(&tcp->peers[r], TCP_WORLD, meeting->where, tcp->size * sizeof(*meeting->where),
                    NULL);
        tcp->peers[r].in.expected = 0;
    }
    rc = md_tcp_exchange(meeting->dist, NULL);
    return rc == 1 ? late_tell(meeting) : rc;
}

static int guest_meet(struct meeting *meeting)
{
    const struct md_tcp *tcp = meeting->tcp;
    int rc = 0;
    if (listen_at(meeting, 0) != 0)
        return md_fail(meeting->dist, MUSTER_DIST_EIO, "rank %u: no port to listen at: %s",
                       tcp->rank, reason(errno));
    rc = first_meet(meeting);
    for (uint32_t r = 1; rc == 0 && r < tcp->rank; r++)
        rc = other_connect(meeting, r);
    return rc ? rc : others_await(meeting);
}

int md_tcp_meet(struct muster_dist *dist)
{
    struct md_tcp *tcp = dist->impl;
    struct meeting meeting = {
        .dist = dist, .tcp = tcp, .listener = -1, .n_awaited = tcp->size - 1 - tcp->rank};
    for (int i = 0; i < PENDING_MAX; i++)
        meeting.pending[i].fd = -1;
    tcp->deadline_ns = md_now_ns() + dist->timeout_ms * 1000000;
    meeting.where = calloc(tcp->size, sizeof(*meeting.where));
    int rc = meeting.where ? environment_read(&meeting)
                           : md_fail(dist, MUSTER_DIST_ENOMEM, "rank %u: no memory", tcp->rank);
    rc = rc ? rc : tcp->rank == 0 ? host_meet(&meeting) : guest_meet(&meeting);
    for (int i = 0; i < PENDING_MAX; i++)
        if (meeting.pending[i].fd >= 0)
            close(meeting.pending[i].fd);
    if (meeting.listener >= 0)
        close(meeting.listener);
    free(meeting.where);

    return rc;
}
