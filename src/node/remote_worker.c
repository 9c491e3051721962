/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers of a remote node: orders become frames, frames become calls of their owner's handlers.
 */
#include <unistd.h>

#include "base/cleanup.h"
#include "base/env_list.h"
#include "base/xalloc.h"
#include "node/environment.h"
#include "node/remote_impl.h"

enum {
    WARNED_MAX = 100 /* warnings of a worker: the run's log has no limit of its own */
};

static struct remote_worker *remote_of(struct node_worker *worker)
{
    return (struct remote_worker *)worker;
}

static const struct remote_worker *remote_const(const struct node_worker *worker)
{
    return (const struct remote_worker *)worker;
}

static void frame_send(const struct remote_worker *w, enum frame_type type, unsigned stream,
                       struct str body)
{
    if (!w->is_lost)
        remote_send(w->remote, type, w->id, stream, body);
}

static void send_number(const struct remote_worker *w, enum frame_type type, unsigned stream,
                        uint64_t value)
{
    cleanup_buf struct buf out = BUF_INIT;
    struct wire_body body = wire_body_to(&out);
    wire_u64(&body, &value);
    frame_send(w, type, stream, buf_str(&out));
}

/* ---- start ---- */

static struct remote_worker *worker_new(struct remote *remote, const struct spawn_request *request)
{
    struct remote_worker *w = xcalloc(1, sizeof(*w));
    bool has_channel = request->channel != CHANNEL_NONE;
    *w = (struct remote_worker){
        .base = {.ops = &remote_ops, .handlers = request->handlers, .context = request->context},
        .remote = remote,
        .answers = request->answers,
        .may_leave_error = request->error_variable};
    for (unsigned stream = 0; stream < WORKER_STREAMS; stream++)
        w->streams[stream] = (struct remote_stream){
            .is_open = true, .may_send = WIRE_CREDIT_BYTES, .may_come = WIRE_CREDIT_BYTES};
    w->streams[STREAM_IN].is_open = request->has_input;
    w->streams[STREAM_CHANNEL].is_open = has_channel;
    while (w->id < remote->n_ids && remote->workers[w->id])
        w->id++;
    if (w->id == remote->n_ids)
        remote->workers =
            xrealloc(remote->workers, ++remote->n_ids * sizeof(struct remote_worker *));
    remote->workers[w->id] = w;
    return w;
}

static void worker_free(struct remote_worker *w)
{
    w->remote->workers[w->id] = NULL;
    for (unsigned stream = 0; stream < WORKER_STREAMS; stream++)
        buf_release(&w->streams[stream].held);
    free(w);
}

static void spawn_send(const struct remote_worker *w, const struct spawn_request *request)
{
    struct env_list changes = {0};
    cleanup_buf struct buf out = BUF_INIT;
    struct wire_body body = wire_body_to(&out);
    environment_changes(request->envp, request->sent, &changes);
    uint64_t round_trip_ms = w->remote->link.round_trip_ms;
    if (round_trip_ms > 0)
        env_set(&changes, xasprintf("MUSTER_ROUND_TRIP_MS=%lu", round_trip_ms));
    env_end(&changes);
    struct wire_spawn spawn = {.seat = request->seat->number,
                               .grace_ms = request->grace_ms,
                               .has_input = request->has_input,
                               .answers = request->answers,
                               .channel = (uint8_t)request->channel,
                               .umask = w->remote->umask,
                               .files = remote_files_id(request->files),
                               .cpus = request->cpus ? *request->cpus : (struct cpu_wish){0},
                               .local_rank = request->cpus ? request->local_rank : 0,
                               .is_joined = request->joined,
                               .n_joined = request->n_joined,
                               .argv = (const char **)(uintptr_t)request->argv,
                               .changes = (const char **)(uintptr_t)changes.at};
    if (request->n_joined > 0)
        memcpy(spawn.joined, request->joined, request->n_joined * sizeof(*request->joined));
    if (request->cwd)
        snprintf(spawn.cwd, sizeof(spawn.cwd), "%s", request->cwd);
    if (request->error_variable)
        snprintf(spawn.error_variable, sizeof(spawn.error_variable), "%s", request->error_variable);
    wire_spawn(&body, &spawn);
    frame_send(w, FRAME_SPAWN, 0, buf_str(&out));
    env_list_release(&changes);
}

int remote_spawn(struct node *node, const struct spawn_request *request, struct node_worker **out,
                 struct err *err)
{
    struct remote *remote = (struct remote *)node;
    if (remote->state != REMOTE_UP)
        return fail(err, ERR_UNAVAILABLE, "there is no connection to its host");
    ASSERT(request->n_joined <= SEAT_DEVICES_MAX);
    if (request->cwd && strlen(request->cwd) >= sizeof(((struct wire_spawn *)0)->cwd))
        return fail(err, ERR_USAGE, "the path of its folder is too long: %s", request->cwd);
    struct remote_worker *w = worker_new(remote, request);
    spawn_send(w, request);
    *out = &w->base;
    return 0;
}

/* ---- orders ---- */

ssize_t remote_write(struct node_worker *worker, enum worker_stream stream, struct str bytes)
{
    struct remote_worker *w = remote_of(worker);
    struct remote_stream *at = &w->streams[stream];
    size_t n_done = 0;
    while (n_done < bytes.len && at->may_send > 0 && link_has_room(&w->remote->link)) {
        size_t n = MIN(bytes.len - n_done, MIN((size_t)at->may_send, (size_t)WIRE_DATA_MAX_BYTES));
        frame_send(w, FRAME_DATA, stream, (struct str){bytes.at + n_done, n});
        at->may_send -= n;
        n_done += n;
    }
    at->is_blocked = n_done < bytes.len;
    if (stream == STREAM_IN)
        w->n_input_bytes += n_done;
    return (ssize_t)n_done;
}

void remote_finish(struct node_worker *worker, enum worker_stream stream)
{
    struct remote_worker *w = remote_of(worker);
    if (w->streams[stream].is_open && !w->is_gone)
        frame_send(w, FRAME_FINISH, stream, STR(""));
    w->streams[stream].is_blocked = false;
    w->streams[stream].is_finished = true;
    if (stream != STREAM_CHANNEL) /* the worker may still send there */
        w->streams[stream].is_open = false;
}

void remote_drop(struct node_worker *worker, enum worker_stream stream)
{
    struct remote_worker *w = remote_of(worker);
    if (w->streams[stream].is_open && !w->is_gone)
        frame_send(w, FRAME_DROP, stream, STR(""));
    w->streams[stream].is_blocked = w->streams[stream].is_open = false;
    w->streams[stream].is_finished = false;
}

bool remote_is_open(const struct node_worker *worker, enum worker_stream stream)
{
    return remote_const(worker)->streams[stream].is_open;
}

static void ask_send(const struct remote_worker *w, enum wire_ask_kind kind, uint64_t value)
{
    cleanup_buf struct buf out = BUF_INIT;
    struct wire_body body = wire_body_to(&out);
    struct wire_ask ask = {.kind = (uint8_t)kind, .value = value};
    wire_ask(&body, &ask);
    frame_send(w, FRAME_ASK, 0, buf_str(&out));
}

static void ask(struct node_worker *worker, enum wire_ask_kind kind, uint64_t value)
{
    struct remote_worker *w = remote_of(worker);
    if (w->asked[kind] != value && !w->is_gone)
        ask_send(w, kind, value);
    w->asked[kind] = value;
}

void remote_ask_read(struct node_worker *worker, bool is_asked)
{
    ask(worker, ASK_READ, is_asked);
}

void remote_ask_rest(struct node_worker *worker, uint64_t pause_max_ms)
{
    ask(worker, ASK_REST, pause_max_ms);
}

void remote_ask_wait(struct node_worker *worker, bool is_asked)
{
    ask(worker, ASK_WAIT, is_asked);
}

void remote_ask_stand(struct node_worker *worker, uint64_t every_ms)
{
    ask(worker, ASK_STAND, every_ms);
}

void remote_ask_where(struct node_worker *worker)
{
    ask(worker, ASK_WHERE, remote_of(worker)->asked[ASK_WHERE] + 1);
}

void remote_end(struct node_worker *worker, enum worker_end how)
{
    struct remote_worker *w = remote_of(worker);
    cleanup_buf struct buf out = BUF_INIT;
    struct wire_body body = wire_body_to(&out);
    uint8_t wanted = (uint8_t)how;
    wire_u8(&body, &wanted);
    wire_u8(&body, &worker->end_signal);
    if (!w->is_gone)
        frame_send(w, FRAME_END, 0, buf_str(&out));
}

pid_t remote_pid(const struct node_worker *worker)
{
    return remote_const(worker)->pid;
}

void remote_release(struct node_worker *worker)
{
    struct remote_worker *w = remote_of(worker);
    frame_send(w, FRAME_RELEASE, 0, STR(""));
    worker_free(w);
}

void remote_oom_explained(struct node_worker *worker)
{
    frame_send(remote_of(worker), FRAME_EXPLAINED, 0, STR(""));
}

/* ---- what the worker prints ---- */

static bool is_stopped(const struct remote_worker *w, unsigned stream)
{
    bool has_answers = w->answers && (stream == STREAM_OUT || stream == STREAM_CHANNEL);
    return w->streams[stream].is_paused || (w->remote->is_held && has_answers);
}

/* Grants again what was used up, in large pieces. */
static void grant(struct remote_worker *w, unsigned stream, size_t n_bytes)
{
    struct remote_stream *at = &w->streams[stream];
    at->used += n_bytes;
    if (at->used < WIRE_CREDIT_BYTES / 4 || w->is_gone)
        return;
    at->may_come += at->used;
    send_number(w, FRAME_CREDIT, stream, at->used);
    at->used = 0;
}

static void tell_output(struct remote_worker *w, enum worker_stream stream, struct str bytes)
{
    grant(w, stream, bytes.len);
    w->base.handlers->output(w->base.context, stream, bytes);
}

/* Gives the owner the held bytes. Its handlers may pause the stream again. */
static void held_tell(struct remote_worker *w, enum worker_stream stream)
{
    struct buf held = w->streams[stream].held;
    if (held.len == 0)
        return;
    w->streams[stream].held = (struct buf)BUF_INIT;
    tell_output(w, stream, buf_str(&held));
    buf_release(&held);
}

static const enum worker_stream from_worker[] = {STREAM_CHANNEL, STREAM_OUT, STREAM_ERR};

void remote_pause(struct node_worker *worker, enum worker_stream stream, bool is_paused)
{
    remote_of(worker)->streams[stream].is_paused = is_paused;
}

/*
 * Gives the owner the held bytes of streams that go on: handlers must not be called from within node_pause and
 * node_hold.
 */
void remote_worker_tick(struct remote_worker *w)
{
    for (size_t i = 0; i < countof(from_worker); i++)
        if (!is_stopped(w, from_worker[i]))
            held_tell(w, from_worker[i]);
}

/* ---- frames from the agent ---- */

static void on_started(struct remote_worker *w, const struct frame *frame, struct wire_body *body)
{
    struct wire_started started = {0};
    (void)frame;
    wire_started(body, &started);
    w->pid = (pid_t)MIN(started.pid, (uint64_t)INT32_MAX);
    w->base.guard_pid = (pid_t)MIN(started.guard_pid, (uint64_t)INT32_MAX);
    if (w->base.handlers->started && !w->is_started)
        w->base.handlers->started(w->base.context);
    w->is_started = true;
}

static void on_data(struct remote_worker *w, const struct frame *frame, struct wire_body *body)
{
    struct remote_stream *at = &w->streams[frame->stream];
    body->in.len = 0; /* it is all data */
    if (frame->stream == STREAM_IN || frame->body.len > at->may_come) {
        remote_break(w->remote, frame, "with more bytes than were granted");
        return;
    }
    at->may_come -= frame->body.len;
    if (is_stopped(w, frame->stream) || at->held.len > 0)
        buf_add_str(&at->held, frame->body);
    else
        tell_output(w, frame->stream, frame->body);
}

static void on_credit(struct remote_worker *w, const struct frame *frame, struct wire_body *body)
{
    struct remote_stream *at = &w->streams[frame->stream];
    uint64_t granted = 0;
    wire_u64(body, &granted);
    if (granted > WIRE_CREDIT_BYTES - MIN(at->may_send, (uint64_t)WIRE_CREDIT_BYTES)) {
        remote_break(w->remote, frame, "for more than was sent");
        return;
    }
    at->may_send += granted;
    if (at->is_blocked && at->is_open && w->base.handlers->writable) {
        at->is_blocked = false;
        w->base.handlers->writable(w->base.context, frame->stream);
    }
}

static void on_closed(struct remote_worker *w, const struct frame *frame, struct wire_body *body)
{
    struct remote_stream *at = &w->streams[frame->stream];
    (void)body;
    if (!at->is_open && !at->is_finished)
        return;
    held_tell(w, frame->stream);
    at->is_open = at->is_blocked = at->is_finished = false;
    if (w->base.handlers->closed)
        w->base.handlers->closed(w->base.context, frame->stream);
}

/* A fact from before the agent had all of the input is out of date. */
static void on_input(struct remote_worker *w, const struct frame *frame, struct wire_body *body)
{
    struct wire_input input = {0};
    (void)frame;
    wire_input(body, &input);
    bool is_of_all = input.fact == INPUT_READ || input.fact == INPUT_WORKS;
    if (!body->is_malformed && (is_of_all || input.n_bytes == w->n_input_bytes) &&
        w->base.handlers->input)
        w->base.handlers->input(w->base.context, input.fact);
}

static void on_stand(struct remote_worker *w, const struct frame *frame, struct wire_body *body)
{
    struct proc_stand stand = {0};
    wire_stand(body, &stand);
    if (!wire_body_is_whole(body))
        remote_break(w->remote, frame, "that is malformed");
    else if (w->base.handlers->stands && w->asked[ASK_STAND] > 0)
        w->base.handlers->stands(w->base.context, &stand);
}

static void on_where(struct remote_worker *w, const struct frame *frame, struct wire_body *body)
{
    body->in.len = 0;
    if (w->base.handlers->where && w->asked[ASK_WHERE] > 0)
        w->base.handlers->where(w->base.context, frame->body);
}

static void on_warned(struct remote_worker *w, const struct frame *frame, struct wire_body *body)
{
    cleanup_free char *text = xstrndup(frame->body.at, frame->body.len);
    body->in.len = 0;
    if (++w->n_warned <= WARNED_MAX && w->base.handlers->warned)
        w->base.handlers->warned(w->base.context, text);
}

static void on_error_file(struct remote_worker *w, const struct frame *frame,
                          struct wire_body *body)
{
    body->in.len = 0; /* it is all data */
    if (!w->may_leave_error) {
        remote_break(w->remote, frame, "that was not expected");
        return;
    }
    w->may_leave_error = false;
    if (w->base.handlers->error_file)
        w->base.handlers->error_file(w->base.context, frame->body, w->remote->peer.clock_ahead_ms);
}

static void gone_tell(struct remote_worker *w, const struct worker_exit *exit)
{
    for (size_t i = 0; i < countof(from_worker); i++)
        held_tell(w, from_worker[i]);
    for (unsigned stream = 0; stream < WORKER_STREAMS; stream++)
        w->streams[stream].is_open = w->streams[stream].is_blocked = false;
    w->is_gone = true;
    w->base.handlers->gone(w->base.context, exit);
}

static void on_gone(struct remote_worker *w, const struct frame *frame, struct wire_body *body)
{
    struct worker_exit exit = {0};
    wire_exit(body, &exit);
    if (wire_body_is_whole(body))
        gone_tell(w, &exit);
    else
        remote_break(w->remote, frame, "that is malformed");
}

static void (*const frame_handlers[FRAME_TYPES_COUNT])(struct remote_worker *w,
                                                       const struct frame *frame,
                                                       struct wire_body *body) = {
    [FRAME_STARTED] = on_started, [FRAME_DATA] = on_data,
    [FRAME_CREDIT] = on_credit,   [FRAME_CLOSED] = on_closed,
    [FRAME_INPUT] = on_input,     [FRAME_WARNED] = on_warned,
    [FRAME_GONE] = on_gone,       [FRAME_STAND] = on_stand,
    [FRAME_WHERE] = on_where,     [FRAME_ERROR_FILE] = on_error_file,
};

void remote_worker_frame(struct remote *remote, const struct frame *frame)
{
    struct remote_worker *w = frame->worker < remote->n_ids ? remote->workers[frame->worker] : NULL;
    struct wire_body body = wire_body_of(frame->body);
    if (!frame_handlers[frame->type] || frame->stream >= WORKER_STREAMS)
        remote_break(remote, frame, "that only the head sends");
    else if (!w || w->is_gone)
        remote_break(remote, frame, "about a worker that is not there");
    else
        frame_handlers[frame->type](w, frame, &body);
}

void remote_workers_resume(struct remote *remote)
{
    for (uint32_t id = 0; id < remote->n_ids; id++) {
        struct remote_worker *w = remote->workers[id];
        for (unsigned stream = 0; w && !w->is_gone && stream < WORKER_STREAMS; stream++) {
            struct remote_stream *at = &w->streams[stream];
            if (!at->is_blocked || at->may_send == 0 || !w->base.handlers->writable)
                continue;
            at->is_blocked = false;
            w->base.handlers->writable(w->base.context, stream);
        }
    }
}

void remote_workers_disconnect(struct remote *remote)
{
    for (uint32_t id = 0; id < remote->n_ids; id++) {
        struct remote_worker *w = remote->workers[id];
        if (!w)
            continue;
        w->is_lost = true;
        if (!w->is_gone)
            gone_tell(w, &(struct worker_exit){0});
    }
}
