/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/reach.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "launch/master_port.h"
#include "launch/meeting_point.h"

enum {
    LIMIT_MS = 2000, /* for all addresses together */
    CALLERS_MAX = 512,
    TOKEN_LENGTH = MEETING_TOKEN_BYTES - 1,
    AT_INPUT = 0,
    AT_LISTENER = 1,
    AT_CALLERS = 2
};

static int print(const struct buf *text, struct err *err)
{
    return write_all(STDOUT_FILENO, text->at, text->len, err);
}

/* ---- the host of rank 0 ---- */

static int addresses_add(struct buf *out, struct err *err)
{
    struct ifaddrs *all;
    if (getifaddrs(&all) != 0)
        return fail_errno_as(err, ERR_UNAVAILABLE, "list the addresses of this host");
    meeting_addresses_add(all, out);
    freeifaddrs(all);
    return 0;
}

static void token_make(char token[MEETING_TOKEN_BYTES])
{
    unsigned char bytes[TOKEN_LENGTH / 2] = {0};
    (void)!getrandom(bytes, sizeof(bytes), 0); /* never short for so few bytes */
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(token + 2 * i, 3, "%02x", bytes[i]);
}

/* Callers close their connections first: one that is closed here would keep the port in TIME_WAIT. */
struct callers {
    struct pollfd at[AT_CALLERS + CALLERS_MAX];
    nfds_t n;
    char token[MEETING_TOKEN_BYTES];
};

static void caller_take(struct callers *callers)
{
    int fd = accept4(callers->at[AT_LISTENER].fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    bool is_told = callers->n < countof(callers->at) &&
                   send(fd, callers->token, TOKEN_LENGTH, MSG_NOSIGNAL) == TOKEN_LENGTH;
    if (is_told)
        callers->at[callers->n++] = (struct pollfd){.fd = fd, .events = POLLIN};
    else
        close(fd);
}

static void callers_look(struct callers *callers)
{
    char ignored[256];
    for (nfds_t i = callers->n; i-- > AT_CALLERS;) {
        if (callers->at[i].revents == 0 || read(callers->at[i].fd, ignored, sizeof(ignored)) > 0)
            continue;
        close(callers->at[i].fd);
        callers->at[i] = callers->at[--callers->n];
    }
}

static void callers_leave(struct callers *callers)
{
    while (callers->n > AT_CALLERS)
        close(callers->at[--callers->n].fd);
    fd_close(&callers->at[AT_LISTENER].fd); /* poll() skips -1 */
}

/* Answers callers until the input ends. A line of the input means that rank 0 is to have the port. */
static int port_serve(struct callers *callers, struct err *err)
{
    char input[256];
    for (;;) {
        if (poll(callers->at, callers->n, -1) < 0 && errno != EINTR)
            return fail_errno(err, "poll");
        if (callers->at[AT_LISTENER].revents)
            caller_take(callers);
        callers_look(callers);
        if (!callers->at[AT_INPUT].revents)
            continue;
        if (read(STDIN_FILENO, input, sizeof(input)) <= 0)
            return 0;
        callers_leave(callers);
        cleanup_buf struct buf line = BUF_INIT;
        buf_add_text(&line, "held\n");
        int rc = print(&line, err);
        if (rc)
            return rc;
    }
}

static int port_hold(const struct reach_request *request, struct err *err)
{
    struct master_port port = MASTER_PORT_INIT;
    struct callers callers = {
        .at = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = -1, .events = POLLIN}},
        .n = AT_CALLERS};
    cleanup_buf struct buf line = BUF_INIT;
    int rc = master_port_take(&port, (uint16_t)request->port, err);
    if (rc == 0 && request->listens)
        rc = master_port_listen(&port, &callers.at[AT_LISTENER].fd, err);
    token_make(callers.token);
    buf_addf(&line, "%u %s", port.port, callers.token);
    rc = rc ? rc : addresses_add(&line, err);
    buf_add_char(&line, '\n');
    rc = rc ? rc : print(&line, err);
    rc = rc ? rc : port_serve(&callers, err);
    callers_leave(&callers);
    master_port_release(&port);
    return rc;
}

/* ---- the other hosts ---- */

struct tried {
    char address[INET6_ADDRSTRLEN];
    char answer[TOKEN_LENGTH];
    size_t n_answered;
};

/* Begins to connect. -1: the address is refused at once. */
static int connect_begin(const char *address, uint64_t port)
{
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
                                   .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    char service[8];
    snprintf(service, sizeof(service), "%u", (unsigned)port);
    if (getaddrinfo(address, service, &hints, &found) != 0)
        return -1;
    cleanup_fd int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool is_begun =
        fd >= 0 && (connect(fd, found->ai_addr, found->ai_addrlen) == 0 || errno == EINPROGRESS);
    freeaddrinfo(found);
    return is_begun ? steal_fd(&fd) : -1;
}

/* Reads the answer, and closes the connection when it is complete or cannot be. */
static void answer_read(struct tried *tried, struct pollfd *at)
{
    ssize_t got = read(at->fd, tried->answer + tried->n_answered, TOKEN_LENGTH - tried->n_answered);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    tried->n_answered += (size_t)MAX(got, (ssize_t)0);
    if (got <= 0 || tried->n_answered == TOKEN_LENGTH)
        fd_close(&at->fd);
}

static void answers_await(struct tried *tried, struct pollfd *at, size_t n)
{
    uint64_t end_ms = clock_now_ms() + LIMIT_MS, now_ms = 0;
    bool any = true;
    while (any && (now_ms = clock_now_ms()) < end_ms) {
        (void)poll(at, n, (int)(end_ms - now_ms));
        any = false;
        for (size_t i = 0; i < n; i++) {
            if (at[i].fd >= 0 && at[i].revents)
                answer_read(&tried[i], &at[i]);
            any = any || at[i].fd >= 0;
        }
    }
}

static int addresses_reach(const struct reach_request *request, struct err *err)
{
    struct tried tried[MEETING_ADDRESSES_MAX] = {0};
    struct pollfd at[MEETING_ADDRESSES_MAX];
    struct str rest = str_of(request->addresses), word;
    cleanup_buf struct buf line = BUF_INIT;
    size_t n = 0;
    while (rest.len > 0 && n < countof(tried) && str_next(&rest, ',', &word)) {
        snprintf(tried[n].address, sizeof(tried[n].address), "%.*s",
                 (int)MIN(word.len, sizeof(tried[n].address)), word.at);
        at[n] = (struct pollfd){connect_begin(tried[n].address, request->port), POLLIN, 0};
        n++;
    }
    answers_await(tried, at, n);
    struct str token = str_of(request->token ? request->token : "");
    for (size_t i = 0; i < n; i++) {
        fd_close(&at[i].fd);
        if (str_equal(token, (struct str){tried[i].answer, tried[i].n_answered}))
            buf_addf(&line, "%s%s", line.len > 0 ? " " : "", tried[i].address);
    }
    buf_add_char(&line, '\n');
    return print(&line, err);
}

int reach_run(const struct reach_request *request, struct err *err)
{
    return request->addresses ? addresses_reach(request, err) : port_hold(request, err);
}
