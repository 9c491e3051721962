/* SPDX-License-Identifier: Apache-2.0 */
#include "mesh/addresses.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/xalloc.h"

enum {
    CALLERS_MAX = 1024
};

/* ---- of this host ---- */

static bool is_candidate(const struct ifaddrs *at)
{
    const struct sockaddr *address = at->ifa_addr;
    if (!address || !(at->ifa_flags & IFF_UP) || (at->ifa_flags & IFF_LOOPBACK) ||
        str_starts_with(str_of(at->ifa_name), STR("docker")))
        return false;
    if (address->sa_family != AF_INET6)
        return address->sa_family == AF_INET;
    const struct sockaddr_in6 *v6 = (const void *)address;
    return !IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr);
}

void own_addresses_add(struct buf *out)
{
    struct ifaddrs *all = NULL;
    size_t n = 0;
    if (getifaddrs(&all) != 0)
        return;
    for (const struct ifaddrs *at = all; at && n < HOST_ADDRESSES_MAX; at = at->ifa_next) {
        char text[ADDRESS_TEXT_MAX];
        struct address address = {0};
        if (!is_candidate(at) || strpbrk(at->ifa_name, ",/ \n"))
            continue;
        memcpy(&address, at->ifa_addr,
               at->ifa_addr->sa_family == AF_INET6 ? sizeof(address.v6) : sizeof(address.v4));
        address_text(&address, text);
        buf_addf(out, "%s%s/%s", n++ > 0 ? "," : "", text, at->ifa_name);
    }
    freeifaddrs(all);
}

/* ---- of others ---- */

void target_format(const struct target *target, struct buf *out)
{
    buf_addf(out, "%u/%u/%s/%s", target->rank, target->port, target->address, target->interface);
}

static bool word_take(struct str word, char *out, size_t size)
{
    if (word.len == 0 || word.len >= size)
        return false;
    memcpy(out, word.at, word.len);
    out[word.len] = '\0';
    return true;
}

bool target_next(struct str *list, struct target *out)
{
    struct str entry, word;
    uint64_t rank = 0, port = 0;
    *out = (struct target){0};
    if (list->len == 0 || !str_next(list, ',', &entry) || !str_next(&entry, '/', &word) ||
        u64_parse(word, 0, UINT32_MAX, &rank, NULL) != 0 || !str_next(&entry, '/', &word) ||
        u64_parse(word, 1, UINT16_MAX, &port, NULL) != 0 || !str_next(&entry, '/', &word))
        return false;
    out->rank = (uint32_t)rank;
    out->port = (uint16_t)port;
    return word_take(word, out->address, sizeof(out->address)) &&
           word_take(entry, out->interface, sizeof(out->interface));
}

/* ---- attempts ---- */

static void attempt_begin(struct attempt *attempt)
{
    struct address_list list = {0};
    attempt->fd = -1;
    attempt->state = LINK_SILENT;
    if (!address_parse(attempt->target.address, attempt->target.port, &list) || list.len == 0)
        attempt->state = LINK_UNREACHABLE;
    else if (address_is_own(&list.at[0]))
        attempt->is_own = true;
    else if ((attempt->fd = stream_connect_begin(&list.at[0])) < 0)
        attempt->state = link_state_of(errno);
}

static void attempt_end(struct attempt *attempt, enum link_state state)
{
    attempt->state = state;
    fd_close(&attempt->fd);
}

static void attempt_greet(const struct address_scan *scan, struct attempt *attempt, uint64_t end_ms)
{
    char words[GREETING_BYTES];
    int sys = stream_connect_error(attempt->fd);
    greeting_words(scan->token, scan->self, attempt->target.rank, scan->round, words);
    enum link_state state =
        sys ? link_state_of(sys) : stream_write(attempt->fd, words, sizeof(words), end_ms);
    attempt->is_connected = state == LINK_FINE;
    attempt->state = LINK_MUTE; /* unless an answer comes */
    if (state != LINK_FINE)
        attempt_end(attempt, state);
}

static void attempt_look(const struct address_scan *scan, struct attempt *attempt, uint64_t end_ms)
{
    char expected[GREETING_BYTES];
    if (!attempt->is_connected) {
        attempt_greet(scan, attempt, end_ms);
        return;
    }
    ssize_t got = recv(attempt->fd, attempt->answer + attempt->n_answered,
                       GREETING_BYTES - attempt->n_answered, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    attempt->n_answered += (size_t)MAX(got, (ssize_t)0);
    if (got > 0 && attempt->n_answered < GREETING_BYTES)
        return;
    greeting_words(scan->token, attempt->target.rank, scan->self, scan->round, expected);
    bool is_it = attempt->n_answered == GREETING_BYTES &&
                 memcmp(expected, attempt->answer, GREETING_BYTES) == 0;
    attempt_end(attempt, is_it ? LINK_FINE : LINK_STRANGER);
}

/* ---- who tries this host ---- */

struct callers {
    struct {
        int fd;
        char said[GREETING_BYTES];
        size_t n_said;
    } at[CALLERS_MAX];
    size_t n;
};

static void caller_answer(const struct address_scan *scan, int fd, const char *said,
                          uint64_t end_ms)
{
    char words[GREETING_BYTES];
    uint32_t from;
    if (!greeting_read(scan->token, scan->self, scan->round, said, &from))
        return;
    greeting_words(scan->token, scan->self, from, scan->round, words);
    (void)stream_write(fd, words, sizeof(words), end_ms);
}

static void caller_look(const struct address_scan *scan, struct callers *callers, size_t i,
                        uint64_t end_ms)
{
    char *said = callers->at[i].said;
    size_t *n_said = &callers->at[i].n_said;
    ssize_t got = recv(callers->at[i].fd, said + *n_said, GREETING_BYTES - *n_said, 0);
    *n_said += (size_t)MAX(got, (ssize_t)0);
    if (got > 0 && *n_said < GREETING_BYTES)
        return;
    if (*n_said == GREETING_BYTES)
        caller_answer(scan, callers->at[i].fd, said, end_ms);
    close(callers->at[i].fd);
    callers->at[i] = callers->at[--callers->n];
}

static void caller_take(const struct address_scan *scan, struct callers *callers)
{
    int fd = stream_accept(scan->listener);
    if (fd >= 0 && callers->n == CALLERS_MAX)
        fd_close(&fd);
    if (fd < 0)
        return;
    callers->at[callers->n].fd = fd;
    callers->at[callers->n++].n_said = 0;
}

/* ---- both ---- */

static void turn(struct address_scan *scan, struct callers *callers, struct pollfd *at,
                 uint64_t end_ms)
{
    size_t n = scan->n, n_callers = callers->n;
    uint64_t now_ms = clock_now_ms();
    for (size_t i = 0; i < n; i++)
        at[i] = (struct pollfd){.fd = scan->attempts[i].fd,
                                .events = scan->attempts[i].is_connected ? POLLIN : POLLOUT};
    for (size_t i = 0; i < n_callers; i++)
        at[n + i] = (struct pollfd){.fd = callers->at[i].fd, .events = POLLIN};
    at[n + n_callers] = (struct pollfd){.fd = scan->listener, .events = POLLIN};
    if (now_ms >= end_ms || poll(at, n + n_callers + 1, (int)(end_ms - now_ms)) <= 0)
        return;
    for (size_t i = 0; i < n; i++)
        if (at[i].fd >= 0 && at[i].revents)
            attempt_look(scan, &scan->attempts[i], end_ms);
    for (size_t i = n_callers; i-- > 0;)
        if (at[n + i].revents)
            caller_look(scan, callers, i, end_ms);
    if (at[n + n_callers].revents)
        caller_take(scan, callers);
}

void addresses_try(struct address_scan *scan)
{
    uint64_t end_ms = clock_now_ms() + ADDRESSES_MS;
    struct callers *callers = xcalloc(1, sizeof(*callers));
    struct pollfd *at = xcalloc(scan->n + CALLERS_MAX + 1, sizeof(*at));
    for (size_t i = 0; i < scan->n; i++)
        attempt_begin(&scan->attempts[i]);
    while (clock_now_ms() < end_ms)
        turn(scan, callers, at, end_ms);
    for (size_t i = 0; i < scan->n; i++)
        fd_close(&scan->attempts[i].fd);
    for (size_t i = 0; i < callers->n; i++)
        close(callers->at[i].fd);
    free(callers);
    free(at);
}
