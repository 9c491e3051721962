/* SPDX-License-Identifier: Apache-2.0 */
#include "mesh/greeting.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"

enum {
    CALLERS_MAX = 16,
    AT_LISTENER = 0,
    AT_OUT = 1,
    AT_CALLERS = 2
};

struct caller {
    char said[GREETING_BYTES];
    size_t n_said;
};

struct exchange {
    const struct greeting *greeting;
    struct greeted *result;
    struct pollfd at[AT_CALLERS + CALLERS_MAX];
    struct caller callers[CALLERS_MAX];
    nfds_t n;
    bool is_connected; /* connected, and the greeting was sent */
    char answer[GREETING_BYTES];
    size_t n_answered;
};

void greeting_words(const char *token, uint32_t from, uint32_t to, uint32_t round,
                    char out[GREETING_BYTES])
{
    char text[GREETING_BYTES + 1];
    int len = snprintf(text, sizeof(text), "muster %.*s %u %u %u", TOKEN_MAX_BYTES, token, from, to,
                       round);
    ASSERT(len > 0 && len <= GREETING_BYTES);
    memset(out, ' ', GREETING_BYTES);
    memcpy(out, text, (size_t)len);
}

bool greeting_read(const char *token, uint32_t self, uint32_t round,
                   const char words[GREETING_BYTES], uint32_t *from)
{
    char expected[GREETING_BYTES];
    struct str rest = {words, GREETING_BYTES}, word;
    uint64_t number = 0;
    for (int i = 0; i < 3; i++) /* muster, the token, from */
        if (!str_next(&rest, ' ', &word))
            return false;
    if (u64_parse(word, 0, UINT32_MAX, &number, NULL) != 0)
        return false;
    *from = (uint32_t)number;
    greeting_words(token, *from, self, round, expected);
    return memcmp(expected, words, GREETING_BYTES) == 0;
}

/* ---- the own connection ---- */

static void out_end(struct exchange *exchange, enum link_state state)
{
    exchange->result->out = state;
    if (state == LINK_FINE)
        exchange->result->out_fd = exchange->at[AT_OUT].fd;
    else
        fd_close(&exchange->at[AT_OUT].fd);
    exchange->at[AT_OUT].fd = -1;
}

static void out_greet(struct exchange *exchange)
{
    const struct greeting *greeting = exchange->greeting;
    char words[GREETING_BYTES];
    int fd = exchange->at[AT_OUT].fd, sys = stream_connect_error(fd);
    if (sys) {
        out_end(exchange, link_state_of(sys));
        return;
    }
    greeting_words(greeting->token, greeting->self, greeting->to, greeting->round, words);
    enum link_state state = stream_write(fd, words, sizeof(words), greeting->end_ms);
    if (state != LINK_FINE) {
        out_end(exchange, state);
        return;
    }
    exchange->is_connected = true;
    exchange->at[AT_OUT].events = POLLIN;
}

static void out_answered(struct exchange *exchange)
{
    const struct greeting *greeting = exchange->greeting;
    char expected[GREETING_BYTES];
    ssize_t got = recv(exchange->at[AT_OUT].fd, exchange->answer + exchange->n_answered,
                       GREETING_BYTES - exchange->n_answered, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        out_end(exchange, got == 0 || errno == ECONNRESET ? LINK_STRANGER : LINK_BROKEN);
        return;
    }
    exchange->n_answered += (size_t)got;
    if (exchange->n_answered < GREETING_BYTES)
        return;
    greeting_words(greeting->token, greeting->to, greeting->self, greeting->round, expected);
    bool is_it = memcmp(expected, exchange->answer, GREETING_BYTES) == 0;
    out_end(exchange, is_it ? LINK_FINE : LINK_STRANGER);
}

/* ---- who connects ---- */

static void caller_take(struct exchange *exchange)
{
    int fd = stream_accept(exchange->greeting->listener);
    if (fd < 0)
        return;
    if (exchange->n == countof(exchange->at)) {
        close(fd);
        return;
    }
    exchange->callers[exchange->n - AT_CALLERS].n_said = 0;
    exchange->at[exchange->n++] = (struct pollfd){.fd = fd, .events = POLLIN};
}

static void caller_drop(struct exchange *exchange, nfds_t i)
{
    nfds_t last = --exchange->n;
    exchange->at[i] = exchange->at[last];
    exchange->callers[i - AT_CALLERS] = exchange->callers[last - AT_CALLERS];
}

static void caller_look(struct exchange *exchange, nfds_t i)
{
    const struct greeting *greeting = exchange->greeting;
    struct caller *caller = &exchange->callers[i - AT_CALLERS];
    char expected[GREETING_BYTES], words[GREETING_BYTES];
    ssize_t got =
        recv(exchange->at[i].fd, caller->said + caller->n_said, GREETING_BYTES - caller->n_said, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    caller->n_said += (size_t)MAX(got, (ssize_t)0);
    if (got > 0 && caller->n_said < GREETING_BYTES)
        return;
    greeting_words(greeting->token, greeting->from, greeting->self, greeting->round, expected);
    greeting_words(greeting->token, greeting->self, greeting->from, greeting->round, words);
    bool is_it = caller->n_said == GREETING_BYTES && exchange->result->in_fd < 0 &&
                 memcmp(expected, caller->said, GREETING_BYTES) == 0;
    if (is_it &&
        stream_write(exchange->at[i].fd, words, sizeof(words), greeting->end_ms) == LINK_FINE)
        exchange->result->in_fd = exchange->at[i].fd;
    else
        close(exchange->at[i].fd);
    caller_drop(exchange, i);
}

/* ---- both ---- */

static bool is_done(const struct exchange *exchange)
{
    return exchange->at[AT_OUT].fd < 0 && exchange->result->in_fd >= 0;
}

static void events_take(struct exchange *exchange)
{
    if (exchange->at[AT_OUT].fd >= 0 && exchange->at[AT_OUT].revents) {
        if (exchange->is_connected)
            out_answered(exchange);
        else
            out_greet(exchange);
    }
    for (nfds_t i = exchange->n; i-- > AT_CALLERS;)
        if (exchange->at[i].revents)
            caller_look(exchange, i);
    if (exchange->at[AT_LISTENER].revents)
        caller_take(exchange);
}

void greeting_exchange(const struct greeting *greeting, struct greeted *out)
{
    struct exchange exchange = {.greeting = greeting, .result = out, .n = AT_CALLERS};
    uint64_t now_ms;
    *out = (struct greeted){.out_fd = -1, .in_fd = -1, .out = LINK_SILENT};
    exchange.at[AT_LISTENER] = (struct pollfd){.fd = greeting->listener, .events = POLLIN};
    exchange.at[AT_OUT] =
        (struct pollfd){.fd = stream_connect_begin(&greeting->address), .events = POLLOUT};
    if (exchange.at[AT_OUT].fd < 0)
        out->out = link_state_of(errno);
    while (!is_done(&exchange) && (now_ms = clock_now_ms()) < greeting->end_ms) {
        if (poll(exchange.at, exchange.n, (int)(greeting->end_ms - now_ms)) > 0)
            events_take(&exchange);
    }
    if (exchange.at[AT_OUT].fd >= 0)
        out_end(&exchange, exchange.is_connected ? LINK_MUTE : LINK_SILENT);
    while (exchange.n > AT_CALLERS)
        close(exchange.at[--exchange.n].fd);
}

void greeted_close(struct greeted *greeted)
{
    fd_close(&greeted->out_fd);
    fd_close(&greeted->in_fd);
}
