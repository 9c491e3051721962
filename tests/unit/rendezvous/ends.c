/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/rendezvous/ends.h"

#include <arpa/inet.h>
#include <errno.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/end_signals.h"

static struct end *open_ends[ENDS_MAX];
static size_t n_ends;

/* ---- what is heard ---- */

static void said(struct end *end, const char *fmt, ...) PRINTF(2, 3);
static void said(struct end *end, const char *fmt, ...)
{
    char text[65536];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    buf_addf(&end->heard, "%s\n", text);
    if (end->closes_itself && end->r) {
        rendezvous_close(end->r);
        end->r = NULL;
    }
}

static void on_joined(void *context, const struct rendezvous_member *member)
{
    said(context, "joined %u %s %u", member->node, member->host, member->n_ranks);
}

static void on_exited(void *context, uint32_t node, const struct rendezvous_exit *exit)
{
    said(context,
         "exited %u: generation %u rank %u pid %u status %d signal %d %lu s ago '%.*s' '%.*s'",
         node, exit->generation, exit->local_rank, exit->pid, exit->status, exit->exit_signal,
         exit->recorded_ago_s, (int)exit->message.len, exit->message.at, (int)exit->tail.len,
         exit->tail.at);
}

static void on_empty(void *context, uint32_t node)
{
    said(context, "empty %u", node);
}

static void on_left(void *context, uint32_t node, const struct err *why, bool has_closed)
{
    assert_true(why->code != 0 && why->text[0]);
    said(context, "left %u%s: %s", node, has_closed ? " by itself" : "", why->text);
}

static void on_welcomed(void *context, uint32_t node)
{
    said(context, "welcomed %u", node);
}

static void on_start(void *context, const struct rendezvous_start *start)
{
    said(context, "start %u: restarts %u group %u/%u ranks from %u of %u port %u",
         start->generation, start->n_restarts_max, start->group_rank, start->n_members,
         start->first_rank, start->world_size, start->master_port);
}

static void on_end(void *context, const struct rendezvous_end *end)
{
    said(context, "end %s%s", end->at_once ? "" : "by ",
         end->at_once ? "at once" : end_signal_name(end->signal));
}

static void on_retry(void *context, uint64_t pause_ms, struct str why)
{
    said(context, "retry in %lu ms: %.*s", pause_ms, (int)why.len, why.at);
}

static void on_over(void *context, const struct rendezvous_over *over)
{
    said(context, "over %d: %.*s", over->status, (int)over->text.len, over->text.at);
}

static void on_lost(void *context, const struct err *why)
{
    said(context, "lost: %s", why->text);
}

static void on_failed(void *context, const struct err *why)
{
    said(context, "failed %d: %s", why->code, why->text);
}

static void on_warned(void *context, const char *text)
{
    said(context, "warned: %s", text);
}

static const struct rendezvous_handlers handlers = {.joined = on_joined,
                                                    .exited = on_exited,
                                                    .empty = on_empty,
                                                    .left = on_left,
                                                    .welcomed = on_welcomed,
                                                    .start = on_start,
                                                    .end = on_end,
                                                    .retry = on_retry,
                                                    .over = on_over,
                                                    .lost = on_lost,
                                                    .failed = on_failed,
                                                    .warned = on_warned};

/* ---- ends ---- */

struct rendezvous_opts opts_of(uint16_t port)
{
    return (struct rendezvous_opts){.host = "127.0.0.1",
                                    .port = port,
                                    .run_id = "run",
                                    .token = STR(""),
                                    .version = "1.2.3",
                                    .n_nodes_max = 8,
                                    .silence_limit_ms = 60000,
                                    .join_ms = 60000,
                                    .handlers = &handlers};
}

struct rendezvous_member member_of(uint32_t node, const char *host)
{
    struct rendezvous_member member = {.node = node, .n_ranks = 4};
    snprintf(member.host, sizeof(member.host), "%s", host);
    return member;
}

const struct rendezvous_start start_of_test = {.generation = 3,
                                               .n_restarts_max = 2,
                                               .group_rank = 1,
                                               .n_members = 2,
                                               .first_rank = 8,
                                               .world_size = 12,
                                               .master_port = 29500};

struct rendezvous_exit exit_of(uint32_t generation, uint32_t local_rank)
{
    return (struct rendezvous_exit){.generation = generation,
                                    .local_rank = local_rank,
                                    .pid = 4711,
                                    .status = 139,
                                    .exit_signal = 11,
                                    .recorded_ago_s = 7,
                                    .message = STR("it\nbroke"),
                                    .tail = STR("last words")};
}

void end_open(struct end *end, struct rendezvous_opts *opts)
{
    *end = (struct end){0};
    assert_int_equal(uv_loop_init(&end->loop), 0);
    opts->loop = &end->loop;
    opts->context = end;
    assert_true(n_ends < ENDS_MAX);
    open_ends[n_ends++] = end;
}

void lead(struct end *end, struct rendezvous_opts opts)
{
    struct err err = {0};
    end_open(end, &opts);
    if (rendezvous_lead(&opts, &end->r, &err) != 0)
        fail_msg("cannot lead: %s", err.text);
    assert_true(rendezvous_leads(end->r));
}

void follow(struct end *end, struct rendezvous_opts opts, struct rendezvous_member self)
{
    struct err err = {0};
    end_open(end, &opts);
    if (rendezvous_follow(&opts, &self, &end->r, &err) != 0)
        fail_msg("cannot follow: %s", err.text);
    assert_false(rendezvous_leads(end->r));
}

void end_close(struct end *end)
{
    rendezvous_close(end->r);
    uv_run(&end->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&end->loop), 0);
    buf_release(&end->heard);
    for (size_t i = 0; i < n_ends; i++)
        if (open_ends[i] == end)
            open_ends[i] = open_ends[--n_ends];
}

uint16_t pair_open(struct end *leader, struct end *follower, struct rendezvous_opts opts)
{
    lead(leader, opts);
    opts.port = rendezvous_port(leader->r);
    follow(follower, opts, member_of(1, "hostA"));
    wait_for(follower, "welcomed 1\n", 1);
    return opts.port;
}

void pair_close(struct end *leader, struct end *follower)
{
    end_close(follower);
    end_close(leader);
}

uint16_t free_port(void)
{
    struct end leader;
    lead(&leader, opts_of(0));
    uint16_t port = rendezvous_port(leader.r);
    end_close(&leader);
    return port;
}

void turn(void)
{
    bool has_worked = false;
    for (size_t i = 0; i < n_ends; i++) {
        struct end *end = open_ends[i];
        size_t n_heard = end->heard.len;
        if (end->is_asleep)
            continue;
        if (end->r)
            rendezvous_tick(end->r, clock_now_ms() + end->later_ms);
        uv_run(&end->loop, UV_RUN_NOWAIT);
        if (end->r)
            rendezvous_flush(end->r, clock_now_ms() + end->later_ms);
        has_worked |= end->heard.len > n_heard;
    }
    if (!has_worked)
        usleep(500);
}

int ends_forget(void **state)
{
    (void)state;
    n_ends = 0;
    return 0;
}

size_t times_heard(const struct end *end, const char *text)
{
    size_t n = 0;
    for (const char *at = buf_text(&end->heard); (at = strstr(at, text)); at += strlen(text))
        n++;
    return n;
}

void wait_for(const struct end *end, const char *text, size_t times)
{
    uint64_t until_ms = clock_now_ms() + WAIT_MS;
    while (times_heard(end, text) < times && clock_now_ms() < until_ms)
        turn();
    if (times_heard(end, text) < times)
        fail_msg("'%s' was not heard %zu times, but:\n%s", text, times, buf_text(&end->heard));
}

void turn_for(uint64_t ms)
{
    for (uint64_t until_ms = clock_now_ms() + ms; clock_now_ms() < until_ms;)
        turn();
}

/* ---- plain sockets ---- */

int socket_connect(uint16_t port)
{
    const struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
    return fd;
}

void socket_say(int fd, struct str bytes)
{
    while (bytes.len > 0) {
        ssize_t put = send(fd, bytes.at, bytes.len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (put < 0 && errno != EAGAIN)
            return; /* the other end has closed the connection */
        put = MAX(put, (ssize_t)0);
        bytes = (struct str){bytes.at + put, bytes.len - (size_t)put};
        turn();
    }
}

void socket_hear(int fd, struct buf *out, size_t n_bytes)
{
    uint64_t until_ms = clock_now_ms() + WAIT_MS;
    size_t begin = out->len;
    char bytes[4096];
    ssize_t got = 1;
    while (out->len - begin < n_bytes && got != 0 && clock_now_ms() < until_ms) {
        turn();
        got = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (got > 0)
            buf_add(out, bytes, (size_t)got);
        else if (got < 0 && errno != EAGAIN)
            got = 0;
    }
    if (clock_now_ms() >= until_ms)
        fail_msg("the socket has received %zu bytes, and neither more nor the end",
                 out->len - begin);
}

void socket_wait_closed(int fd)
{
    cleanup_buf struct buf heard = BUF_INIT;
    socket_hear(fd, &heard, SIZE_MAX);
    close(fd);
}
