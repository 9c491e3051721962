/* SPDX-License-Identifier: Apache-2.0
 *
 * The head of a session: what it orders, what it must see, and its end.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "node/remote.h"
#include "sim/protocol/protocol.h"

enum {
    TICK_MS = 100,
    PAUSE_MS = 5,       /* bytes of it still come when it is over */
    LONG_PAUSE_MS = 60, /* the worker has ended meanwhile */
    SHORT_BYTES = 400,
    HELD_AT_BYTES = 40000, /* of output: the node is held for a while */
    HEAD_LIMIT_MS = 200000,
    LEAVE_MS = 5000,
    AGENT_LIMIT_MS = 70000 /* it waits for a hello for a minute */
};

struct seen {
    struct node_worker *worker;
    enum script script;
    struct buf expected[WORKER_STREAMS];
    size_t n_out[WORKER_STREAMS];
    struct buf input;
    size_t n_written;
    bool is_started, is_gone, is_released, was_paused;
    unsigned n_closed, n_facts;
};

static struct {
    struct node *remote;
    struct seen seen[SCRIPTS];
    bool is_taken, is_lost, is_over, was_held;
    unsigned n_samples;
} head;

/* ---- what is expected ---- */

static void expected_make(struct seen *s)
{
    size_t n_input = s->script != SCRIPT_ECHO ? 0 : play.is_long ? LONG_BYTES : SHORT_BYTES;
    pattern_add(n_input, &s->input);
    if (s->script <= SCRIPT_CLOSES)
        buf_add_text(&s->expected[STREAM_ERR], "it has started\n");
    if (s->script == SCRIPT_CHANNEL)
        buf_add_text(&s->expected[STREAM_CHANNEL], "m1\nm2\n");
    if (s->script == SCRIPT_ECHO)
        buf_add_str(&s->expected[STREAM_OUT], buf_str(&s->input));
    bool is_channel = s->script == SCRIPT_CHANNEL;
    struct buf *end = &s->expected[is_channel ? STREAM_CHANNEL : STREAM_OUT];
    bool prints_much = play.is_long && (is_channel || s->script == SCRIPT_CLOSES);
    if (prints_much)
        pattern_add(LONG_BYTES, end);
    if (prints_much || s->script == SCRIPT_ECHO || s->script == SCRIPT_CLOSES)
        buf_add_text(end, "and no more\n");
    if (s->script == SCRIPT_CLOSES)
        buf_add_text(end, "last words\n");
}

static void exit_check(const struct seen *s, const struct worker_exit *exit)
{
    static const struct worker_exit expected[SCRIPTS] = {
        [SCRIPT_ECHO] = {.has_exited = true},
        [SCRIPT_CHANNEL] = {.has_exited = true, .exit_code = 3},
        [SCRIPT_WAITS] = {.has_exited = true, .exit_signal = SIGTERM},
        [SCRIPT_CLOSES] = {.has_exited = true, .exit_signal = SIGKILL},
        [SCRIPT_REFUSED] = {.was_refused = true, .exec_errno = ENOEXEC},
    };
    const struct worker_exit *e = &expected[s->script];
    if (exit->has_exited != e->has_exited || exit->exit_code != e->exit_code ||
        exit->exit_signal != e->exit_signal || exit->was_refused != e->was_refused ||
        exit->exec_errno != e->exec_errno)
        broken("worker %d ended with status %d, signal %d, errno %d", (int)s->script,
               exit->exit_code, exit->exit_signal, exit->exec_errno);
    for (unsigned stream = 0; stream < WORKER_STREAMS; stream++)
        if (s->n_out[stream] != s->expected[stream].len)
            broken("worker %d ended behind %zu of %zu bytes of stream %u", (int)s->script,
                   s->n_out[stream], s->expected[stream].len, stream);
    if (s->script == SCRIPT_CLOSES && s->n_closed != 1)
        broken("worker %d closed its input %u times", (int)s->script, s->n_closed);
}

/* ---- a worker ---- */

static void input_go_on(struct seen *s)
{
    struct str rest = {s->input.at + s->n_written, s->input.len - s->n_written};
    ssize_t put = rest.len > 0 ? node_write(s->worker, STREAM_IN, rest) : 0;
    s->n_written += (size_t)MAX(put, (ssize_t)0);
    if (s->n_written == s->input.len && node_is_open(s->worker, STREAM_IN))
        node_finish(s->worker, STREAM_IN);
}

static void on_started(void *context)
{
    struct seen *s = context;
    if (s->is_started)
        broken("worker %d has started twice", (int)s->script);
    s->is_started = true;
    if (s->script == SCRIPT_ECHO) {
        node_ask_read(s->worker, true);
        node_ask_rest(s->worker, 1000);
        input_go_on(s);
    } else if (s->script == SCRIPT_CHANNEL) {
        (void)!node_write(s->worker, STREAM_CHANNEL, STR("m1\n"));
    } else if (s->script == SCRIPT_WAITS) {
        node_ask_wait(s->worker, true);
        node_ask_stand(s->worker, 100);
        node_ask_where(s->worker);
    }
}

static void pause_end(void *context, uint64_t stream)
{
    const struct seen *s = context;
    if (!s->is_released)
        node_pause(s->worker, (enum worker_stream)stream, false);
}

static void pause_it(struct seen *s, enum worker_stream stream, uint64_t ms)
{
    s->was_paused = true;
    node_pause(s->worker, stream, true);
    after_ms(ms, pause_end, s, stream);
}

static void hold_end(void *context, uint64_t argument)
{
    (void)context, (void)argument;
    node_hold(head.remote, false);
}

static void answer_to(struct seen *s, enum worker_stream stream)
{
    /* What comes later is held until the worker has ended. */
    bool is_long_one = s->script == SCRIPT_CLOSES || (play.is_long && s->n_out[stream] >= 6);
    if (s->script == SCRIPT_ECHO && !s->was_paused) {
        pause_it(s, stream, PAUSE_MS);
    } else if (s->script != SCRIPT_ECHO && is_long_one && !s->was_paused) {
        pause_it(s, stream, LONG_PAUSE_MS);
    } else if (s->script == SCRIPT_ECHO && s->n_out[stream] > HELD_AT_BYTES && !head.was_held) {
        head.was_held = true;
        node_hold(head.remote, true);
        after_ms(PAUSE_MS, hold_end, NULL, 0);
    } else if (s->script == SCRIPT_CHANNEL && s->n_out[stream] == 3) {
        (void)!node_write(s->worker, STREAM_CHANNEL, STR("m2\n"));
    } else if (s->script == SCRIPT_CHANNEL && s->n_out[stream] == 6 && !play.is_long) {
        node_drop(s->worker, STREAM_CHANNEL);
    }
}

static void on_output(void *context, enum worker_stream stream, struct str bytes)
{
    struct seen *s = context;
    const struct buf *expected = &s->expected[stream];
    size_t begin = s->n_out[stream];
    if (s->is_gone || bytes.len > expected->len - begin ||
        memcmp(expected->at + begin, bytes.at, bytes.len) != 0)
        broken("worker %d: wrong bytes at %zu of stream %u", (int)s->script, begin, stream);
    s->n_out[stream] += bytes.len;
    if (stream == STREAM_OUT || stream == STREAM_CHANNEL)
        answer_to(s, stream);
}

static void on_writable(void *context, enum worker_stream stream)
{
    struct seen *s = context;
    if (s->is_gone)
        broken("worker %d is gone, and its stream %u can be written", (int)s->script, stream);
    input_go_on(s);
}

static void on_closed(void *context, enum worker_stream stream)
{
    struct seen *s = context;
    s->n_closed++;
    if (s->n_out[stream] != s->expected[stream].len)
        broken("worker %d has closed stream %u behind %zu of %zu bytes", (int)s->script, stream,
               s->n_out[stream], s->expected[stream].len);
}

static void on_input(void *context, enum input_fact fact)
{
    struct seen *s = context;
    s->n_facts++;
    if (s->script == SCRIPT_WAITS && fact == INPUT_WAITS)
        node_end(s->worker, END_POLITELY);
}

static void release(void *context, uint64_t argument)
{
    struct seen *s = context;
    (void)argument;
    if (s->script == SCRIPT_CLOSES)
        node_oom_explained(s->worker);
    node_release(s->worker);
    s->is_released = true;
}

static void on_gone(void *context, const struct worker_exit *exit)
{
    struct seen *s = context;
    if (s->is_gone)
        broken("worker %d is gone twice", (int)s->script);
    s->is_gone = true;
    if (!head.is_lost)
        exit_check(s, exit);
    else if (exit->has_exited || exit->was_refused)
        broken("the host is lost, and worker %d has ended by itself", (int)s->script);
    after_us(1000, release, s, 0);
}

static void on_failed(void *context, const struct err *why)
{
    broken("worker %d: %s", (int)((struct seen *)context)->script, why->text);
}

static const struct worker_handlers worker_handlers = {.started = on_started,
                                                       .output = on_output,
                                                       .writable = on_writable,
                                                       .closed = on_closed,
                                                       .input = on_input,
                                                       .gone = on_gone,
                                                       .failed = on_failed};

static void spawn(enum script script, const struct seat *seat)
{
    static const char *const envp[] = {"MUSTER_TEST=1", NULL};
    char number[4];
    const char *argv[] = {"script", number, NULL};
    struct seen *s = &head.seen[script];
    struct err err = {0};
    snprintf(number, sizeof(number), "%d", (int)script);
    s->script = script;
    expected_make(s);
    const struct spawn_request request = {.argv = argv,
                                          .envp = envp,
                                          .seat = seat,
                                          .grace_ms = 200,
                                          .has_input = true,
                                          .answers = true,
                                          .channel = script == SCRIPT_CHANNEL ? CHANNEL_DESCRIPTOR
                                                                              : CHANNEL_NONE,
                                          .handlers = &worker_handlers,
                                          .context = s};
    if (node_spawn(head.remote, &request, &s->worker, &err) != 0)
        broken("no worker can be started: %s", err.text);
}

/* ---- the host ---- */

static void on_taken(void *context, const struct wire_taken *taken)
{
    (void)context;
    if (head.is_taken || head.is_lost || taken->n_seats != 2 || taken->n_devices != 2)
        broken("%u devices were taken, %u seats", taken->n_devices, taken->n_seats);
    head.is_taken = true;
    for (int script = 0; script < SCRIPTS; script++)
        spawn((enum script)script, &taken->seats[script % 2]);
}

static void on_lost(void *context, const struct err *why)
{
    (void)context;
    trace("lost: %s", why->text);
    if (head.is_lost || head.is_over)
        broken("the host is lost twice, or after the end: %s", why->text);
    if (play.fault == FAULT_NONE || play.fault == FAULT_SHORT_DELAY)
        broken("the host is lost without a reason: %s", why->text);
    head.is_lost = true;
}

static void on_sampled(void *context, const struct device_sample *sample)
{
    (void)context;
    if (sample->device > 1 || sample->mem_used_bytes != 1 << 20 || sample->is_lost)
        broken("a sample that nobody took");
    head.n_samples++;
}

static void on_said(void *context, struct str line)
{
    (void)context, (void)line;
}

static const struct remote_handlers host_handlers = {
    .taken = on_taken, .lost = on_lost, .sampled = on_sampled, .said = on_said};

/* ---- a session ---- */

static bool all_are_released(void)
{
    bool all = true;
    for (int script = 0; script < SCRIPTS; script++)
        all = all && (!head.seen[script].worker || head.seen[script].is_released);
    return all;
}

static void tick(void *context, uint64_t argument)
{
    (void)context, (void)argument;
    node_tick(head.remote);
    after_us(TICK_MS * 1000, tick, NULL, 0);
}

static void turn(void)
{
    node_look(head.remote);
    node_flush(head.remote);
    world.now_ns = MAX(world.now_ns, future_next_ns());
    futures_run();
}

static void leave(void)
{
    uint64_t deadline_ms = world_ms() + LEAVE_MS;
    head.is_over = true;
    if (!head.is_lost)
        remote_leave(head.remote);
    while (remote_has_transport(head.remote) && world_ms() < deadline_ms)
        turn();
    if (remote_has_transport(head.remote))
        remote_end_transport(head.remote, END_AT_ONCE);
    while (remote_has_transport(head.remote) && world_ms() < deadline_ms + LEAVE_MS)
        turn();
    if (remote_has_transport(head.remote))
        broken("the transport does not end");
    node_close(head.remote);
}

void agents_await_end(void)
{
    uint64_t deadline_ms = world_ms() + AGENT_LIMIT_MS;
    while (agents_alive() > 0 && world_ms() < deadline_ms && future_next_ns() != UINT64_MAX) {
        world.now_ns = MAX(world.now_ns, future_next_ns());
        futures_run();
    }
    if (agents_alive() > 0)
        broken("the agent does not end");
    scripts_check();
}

static void seen_release(void)
{
    for (int script = 0; script < SCRIPTS; script++) {
        struct seen *s = &head.seen[script];
        for (unsigned stream = 0; stream < WORKER_STREAMS; stream++)
            buf_release(&s->expected[stream]);
        buf_release(&s->input);
    }
    memset(&head, 0, sizeof(head));
}

void head_play(void)
{
    static const char *const argv[] = {"reach", NULL}, *const envp[] = {NULL};
    const struct remote_opts opts = {.local = stream_open(),
                                     .argv = argv,
                                     .envp = envp,
                                     .version = "1",
                                     .take = {.gpus = "cpu:2", .run_id = "test"},
                                     .silence_limit_ms = SILENCE_MS,
                                     .handlers = &host_handlers};
    struct err err = {0};
    head.remote = remote_open(&opts);
    if (remote_connect(head.remote, &err) != 0)
        broken("no transport: %s", err.text);
    after_us(TICK_MS * 1000, tick, NULL, 0);
    while (!head.is_lost && !(head.is_taken && all_are_released()) && world_ms() < HEAD_LIMIT_MS)
        turn();
    if (!head.is_lost && !(head.is_taken && all_are_released()))
        broken("the session does not end");
    while (!all_are_released())
        turn();
    if (!head.is_lost && head.n_samples == 0)
        broken("no sample has come");
    leave();
    futures_forget_of(tick);
    agents_await_end();
    seen_release();
}
