/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers of an agent. Bytes from the head wait here until the worker's pipe takes them. Output of the worker waits
 * here until the head grants credit and the link has room; meanwhile the agent does not read the worker's pipe.
 */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/agent_impl.h"
#include "base/cleanup.h"
#include "base/end_signals.h"
#include "base/fs.h"
#include "base/ours.h"
#include "base/xalloc.h"
#include "node/environment.h"

enum {
    IDS_MAX = 65536
};

struct agent_stream {
    struct buf input;  /* from the head, for the worker */
    bool must_finish;  /* after the input */
    struct buf output; /* from the worker, for the head */
    uint64_t may_send; /* bytes that the agent may send: credit from the head */
    uint64_t may_come; /* bytes that the head may send: credit from the agent */
    uint64_t used;     /* bytes written to the worker, for which no new credit was granted yet */
    bool has_closed;   /* the worker has closed the stream; the head hears of it after the output */
    bool is_told;
};

struct agent_worker {
    struct agent *agent;
    uint32_t id;
    struct node_worker *process; /* NULL: the worker was not started */
    struct agent_stream streams[WORKER_STREAMS];
    uint64_t n_input_bytes;
    uint32_t files;   /* the number of its struct agent_files; WIRE_NO_WORKER: none */
    char *error_path; /* NULL: the worker has no error file */
    bool is_gone, is_released;
    bool was_ended; /* the head has ended the worker */
    struct worker_exit exit;
};

static void frame_send(const struct agent_worker *w, enum frame_type type, unsigned stream,
                       struct str body)
{
    if (!w->is_released)
        agent_send(w->agent, type, w->id, stream, body);
}

static void worker_free(struct agent_worker *w)
{
    if (w->process)
        node_release(w->process);
    for (unsigned stream = 0; stream < WORKER_STREAMS; stream++) {
        buf_release(&w->streams[stream].input);
        buf_release(&w->streams[stream].output);
    }
    w->agent->workers[w->id] = NULL;
    free(w->error_path);
    free(w);
}

/* ---- from the worker to the head ---- */

static void gone_send(struct agent_worker *w)
{
    cleanup_buf struct buf out = BUF_INIT;
    struct wire_body body = wire_body_to(&out);
    wire_exit(&body, &w->exit);
    frame_send(w, FRAME_GONE, 0, buf_str(&out));
    if (w->agent->watch)
        device_watch_hurry(w->agent->watch);
}

/* Sends as many of the bytes as the credit and the link allow. Returns how many were sent. */
static size_t data_send(struct agent_worker *w, unsigned stream, struct str bytes)
{
    struct agent_stream *at = &w->streams[stream];
    size_t n_done = 0;
    while (n_done < bytes.len && at->may_send > 0 && link_has_room(&w->agent->link)) {
        size_t n = MIN(bytes.len - n_done, MIN((size_t)at->may_send, (size_t)WIRE_DATA_MAX_BYTES));
        frame_send(w, FRAME_DATA, stream, (struct str){bytes.at + n_done, n});
        at->may_send -= n;
        n_done += n;
    }
    return n_done;
}

static bool has_output(const struct agent_worker *w)
{
    bool has = false;
    for (unsigned stream = 0; stream < WORKER_STREAMS; stream++)
        has = has || w->streams[stream].output.len > 0;
    return has;
}

/* Sends the end of each stream, and the end of the worker, once all output was sent. */
static void ends_send(struct agent_worker *w)
{
    for (unsigned stream = 0; stream < WORKER_STREAMS; stream++) {
        struct agent_stream *at = &w->streams[stream];
        if (at->has_closed && !at->is_told && at->output.len == 0) {
            at->is_told = true;
            frame_send(w, FRAME_CLOSED, stream, STR(""));
        }
    }
    if (w->is_gone && !has_output(w))
        gone_send(w);
}

static void output_resume(struct agent_worker *w, unsigned stream)
{
    struct buf *output = &w->streams[stream].output;
    if (output->len == 0)
        return;
    buf_consume(output, data_send(w, stream, buf_str(output)));
    if (output->len > 0)
        return;
    if (!w->is_gone)
        node_pause(w->process, stream, false);
    ends_send(w);
}

static void on_output(void *context, enum worker_stream stream, struct str bytes)
{
    struct agent_worker *w = context;
    struct buf *output = &w->streams[stream].output;
    if (w->agent->is_over || w->is_released)
        return;
    size_t n_sent = output->len == 0 ? data_send(w, stream, bytes) : 0;
    if (n_sent == bytes.len)
        return;
    buf_add(output, bytes.at + n_sent, bytes.len - n_sent);
    node_pause(w->process, stream, true);
}

static void on_started(void *context)
{
    struct agent_worker *w = context;
    cleanup_buf struct buf out = BUF_INIT;
    struct wire_body body = wire_body_to(&out);
    struct wire_started started = {.pid = (uint64_t)node_pid(w->process),
                                   .guard_pid = (uint64_t)w->process->guard_pid};
    wire_started(&body, &started);
    frame_send(w, FRAME_STARTED, 0, buf_str(&out));
}

static void on_closed(void *context, enum worker_stream stream)
{
    struct agent_worker *w = context;
    w->streams[stream].has_closed = true;
    buf_release(&w->streams[stream].input);
    ends_send(w);
}

/*
 * While output or input still waits here, the fact would be wrong for the head, so it is not sent. INPUT_READ is
 * always true, comes once, and is always sent.
 */
static void on_input(void *context, enum input_fact fact)
{
    struct agent_worker *w = context;
    cleanup_buf struct buf out = BUF_INIT;
    struct wire_body body = wire_body_to(&out);
    struct wire_input input = {.fact = (uint8_t)fact, .n_bytes = w->n_input_bytes};
    wire_input(&body, &input);
    bool is_all_seen = w->streams[STREAM_IN].input.len == 0 && !has_output(w);
    if (fact == INPUT_READ || is_all_seen)
        frame_send(w, FRAME_INPUT, 0, buf_str(&out));
}

/* The program may have made anything at this path: only a plain file is read and sent. */
static void error_file_send(const struct agent_worker *w)
{
    cleanup_buf struct buf bytes = BUF_INIT;
    struct err ignored = {0};
    if (plain_file_read(w->error_path, wire_body_max(FRAME_ERROR_FILE), &bytes, &ignored) == 0)
        frame_send(w, FRAME_ERROR_FILE, 0, buf_str(&bytes));
}

static void on_stands(void *context, const struct proc_stand *stand)
{
    struct agent_worker *w = context;
    cleanup_buf struct buf out = BUF_INIT;
    struct wire_body body = wire_body_to(&out);
    struct proc_stand copy = *stand;
    wire_stand(&body, &copy);
    frame_send(w, FRAME_STAND, 0, buf_str(&out));
}

static void on_where(void *context, struct str text)
{
    frame_send(context, FRAME_WHERE, 0, text);
}

/* True if the worker was ended from outside. Some set-ups of Slurm send TERM to every process of a job. */
static bool was_told_to_end(const struct agent_worker *w)
{
    bool by_head = w->was_ended || w->is_released || w->agent->is_over;
    return !by_head && worker_exit_status(&w->exit) != 0;
}

static void on_gone(void *context, const struct worker_exit *exit)
{
    struct agent_worker *w = context;
    w->exit = *exit;
    w->is_gone = true;
    w->agent->n_alive--;
    if (w->agent->is_draining && was_told_to_end(w))
        agent_end_now(w->agent);
    if (exit->exit_code || exit->exit_signal)
        agent_files_room_tell(w->agent, w->files);
    if (w->error_path && worker_exit_status(exit) != 0)
        error_file_send(w);
    ends_send(w);
    if (w->is_released)
        worker_free(w);
}

static void on_warned(void *context, const char *text)
{
    const struct agent_worker *w = context;
    struct str bytes = str_of(text);
    bytes.len = MIN(bytes.len, (size_t)4096);
    frame_send(w, FRAME_WARNED, 0, bytes);
}

static void on_failed(void *context, const struct err *why)
{
    struct agent_worker *w = context;
    agent_error_send(w->agent, FRAME_FAILED, WIRE_NO_WORKER, why);
}

/* ---- from the head to the worker ---- */

static void grant(struct agent_worker *w, unsigned stream, uint64_t n_bytes)
{
    struct agent_stream *at = &w->streams[stream];
    cleanup_buf struct buf out = BUF_INIT;
    struct wire_body body = wire_body_to(&out);
    at->used += n_bytes;
    if (at->used < WIRE_CREDIT_BYTES / 4)
        return;
    wire_u64(&body, &at->used);
    frame_send(w, FRAME_CREDIT, stream, buf_str(&out));
    at->may_come += at->used;
    at->used = 0;
}

/* Writes the bytes that wait for the worker, and closes its input after the last byte if it must finish. */
static void input_flush(struct agent_worker *w, enum worker_stream stream)
{
    struct agent_stream *at = &w->streams[stream];
    if (!node_is_open(w->process, stream)) {
        buf_reset(&at->input);
        return;
    }
    ssize_t put = at->input.len > 0 ? node_write(w->process, stream, buf_str(&at->input)) : 0;
    if (put < 0) {
        node_drop(w->process, stream);
        on_closed(w, stream);
        return;
    }
    buf_consume(&at->input, (size_t)put);
    grant(w, stream, (uint64_t)put);
    if (at->must_finish && at->input.len == 0)
        node_finish(w->process, stream);
}

static void on_writable(void *context, enum worker_stream stream)
{
    input_flush(context, stream);
}

static const struct worker_handlers handlers = {.started = on_started,
                                                .output = on_output,
                                                .writable = on_writable,
                                                .closed = on_closed,
                                                .input = on_input,
                                                .stands = on_stands,
                                                .where = on_where,
                                                .gone = on_gone,
                                                .warned = on_warned,
                                                .failed = on_failed};

/* ---- frames ---- */

/*
 * The path of the socket that a worker connects to with --channel-path. It lies in the agent's own folder, because
 * the head's path means nothing on this machine. free() it.
 */
static int channel_path_make(struct agent_worker *w, char **out, struct err *err)
{
    int rc = agent_scratch_take(w->agent, err);
    if (rc)
        return rc;
    *out = xasprintf("%s/%u", w->agent->scratch.path, w->id);
    return 0;
}

/* Gives the worker a path for its error file. If that fails, the worker starts all the same. */
static void error_file_name(struct agent_worker *w, const char *variable, struct env_list *env)
{
    struct err err = {0};
    if (agent_scratch_take(w->agent, &err) != 0) {
        on_warned(w, err.text);
        return;
    }
    w->error_path = xasprintf("%s/%u.error", w->agent->scratch.path, w->id);
    unlink(w->error_path);
    env_set(env, xasprintf("%s=%s", variable, w->error_path));
}

/* False if a seat does not exist, or if the joined seats have too many devices. */
static bool seats_are_known(const struct agent *agent, const struct wire_spawn *spawn)
{
    const struct allocation *a = &agent->allocation;
    size_t n_devices = 0;
    bool are_known = spawn->is_joined || spawn->seat < a->n_seats;
    for (uint32_t i = 0; i < spawn->n_joined; i++) {
        are_known = are_known && spawn->joined[i] < a->n_seats;
        n_devices += are_known ? a->seats[spawn->joined[i]].n_devices : 0;
    }
    return are_known && n_devices <= SEAT_DEVICES_MAX;
}

static void seats_join(const struct agent *agent, const struct wire_spawn *spawn, struct seat *seat)
{
    *seat = (struct seat){0};
    for (uint32_t i = 0; i < spawn->n_joined; i++)
        seat_join(seat, &agent->allocation.seats[spawn->joined[i]]);
    seat->threads = MAX(seat->threads, 1u);
}

/* Sets *seat to the seat of the worker, with the CPUs that a rank on this seat gets. */
static int seat_bind(struct agent *agent, const struct wire_spawn *spawn, struct seat *seat,
                     struct err *err)
{
    const struct cpu_wish *wish = &spawn->cpus, *known = &agent->shares.of;
    bool is_known = agent->shares.at && agent->shares.seat == spawn->seat &&
                    known->binding == wish->binding && known->n_ranks == wish->n_ranks;
    if (spawn->is_joined) {
        seats_join(agent, spawn, seat);
        return 0;
    }
    *seat = agent->allocation.seats[spawn->seat];
    if (wish->n_ranks == 0)
        return 0;
    if (!is_known) {
        free(steal_ptr(&agent->shares.at));
        int rc = cpu_shares_of(wish, &agent->allocation.devices, seat->devices, seat->n_devices,
                               &agent->shares.at, err);
        if (rc) {
            free(steal_ptr(&agent->shares.at));
            return rc;
        }
        agent->shares.of = *wish;
        agent->shares.seat = spawn->seat;
    }
    ASSERT(agent->shares.at);
    seat->cpus = agent->shares.at[spawn->local_rank].cpus;
    seat->threads = agent->shares.at[spawn->local_rank].threads;
    return 0;
}

static int start(struct agent_worker *w, const struct wire_spawn *spawn, const struct seat *seat,
                 struct err *err)
{
    struct allocation *a = &w->agent->allocation;
    struct env_list env = {0}, changes = {0};
    cleanup_free char *channel_path = NULL, *cwd = path_cwd();
    int rc = 0;
    env_inherit(&env);
    env_set(&env, xstrdup(w->agent->mark));
    if (cwd)
        env_set(&env, xasprintf("PWD=%s", spawn->cwd[0] ? spawn->cwd : cwd));
    if (spawn->is_joined)
        seat_devices_add(a, seat, &env);
    else
        seat_environment_add(a, spawn->seat, &env);
    if (spawn->error_variable[0])
        error_file_name(w, spawn->error_variable, &env);
    for (size_t i = 0; spawn->changes[i]; i++)
        env_list_add(&changes, xstrdup(spawn->changes[i]));
    const char *run_id = env_get(&changes, "MUSTER_RUN_ID");
    if (run_id)
        agent_locks_sign(w->agent, run_id);
    env_apply(&env, &changes);
    if (spawn->cpus.shares_threads)
        env_set(&env, xasprintf("OMP_NUM_THREADS=%u", seat->threads));
    if (spawn->channel == CHANNEL_PATH)
        rc = channel_path_make(w, &channel_path, err);
    if (channel_path)
        env_set(&env, xasprintf("MUSTER_CHANNEL=%s", channel_path));
    env_end(&env);
    const struct spawn_request request = {.argv = spawn->argv,
                                          .envp = (const char *const *)env.at,
                                          .cwd = spawn->cwd[0] ? spawn->cwd : NULL,
                                          .seat = seat,
                                          .grace_ms = spawn->grace_ms,
                                          .has_input = spawn->has_input,
                                          .answers = spawn->answers,
                                          .channel = spawn->channel,
                                          .channel_path = channel_path,
                                          .locks = &a->locks,
                                          .handlers = &handlers,
                                          .context = w};
    /*
     * The worker inherits the umask. All workers have the same one. It is not set back, because other threads may be
     * making files.
     */
    (void)umask((mode_t)spawn->umask);
    if (rc == 0)
        rc = node_spawn(shell_node(w->agent->shell), &request, &w->process, err);
    env_list_release(&env);
    return rc;
}

static void own_program_set(const struct agent *agent, struct wire_spawn *spawn)
{
    if (strcmp(spawn->argv[0], AGENT_PROGRAM) != 0)
        return;
    free((char *)(uintptr_t)spawn->argv[0]);
    spawn->argv[0] = xstrdup(shell_self_path(agent->shell));
}

static struct agent_worker *worker_new(struct agent *agent, uint32_t id)
{
    struct agent_worker *w = xcalloc(1, sizeof(*w));
    *w = (struct agent_worker){.agent = agent, .id = id};
    for (unsigned stream = 0; stream < WORKER_STREAMS; stream++)
        w->streams[stream].may_send = w->streams[stream].may_come = WIRE_CREDIT_BYTES;
    if (agent->n_ids <= id)
        agent->workers = xrealloc(agent->workers, (id + 1) * sizeof(struct agent_worker *));
    while (agent->n_ids <= id)
        agent->workers[agent->n_ids++] = NULL;
    agent->workers[id] = w;
    return w;
}

static void take_spawn(struct agent *agent, const struct frame *frame)
{
    struct wire_body body = wire_body_of(frame->body);
    struct wire_spawn spawn = {0};
    struct err err = {0};
    bool is_free = frame->worker < IDS_MAX &&
                   (frame->worker >= agent->n_ids || !agent->workers[frame->worker]);
    wire_spawn(&body, &spawn);
    if (!wire_body_is_whole(&body) || !is_free || !seats_are_known(agent, &spawn)) {
        agent_break(agent, frame, "that is malformed");
        wire_spawn_release(&spawn);
        return;
    }
    own_program_set(agent, &spawn);
    struct agent_worker *w = worker_new(agent, frame->worker);
    w->files = spawn.files;
    struct seat seat;
    int rc = seat_bind(agent, &spawn, &seat, &err);
    rc = rc ? rc : start(w, &spawn, &seat, &err);
    wire_spawn_release(&spawn);
    agent->n_alive += rc == 0;
    if (rc == 0)
        return;
    on_warned(w, err.text);
    w->is_gone = true;
    w->exit = (struct worker_exit){.was_refused = true, .exec_errno = err.sys};
    gone_send(w);
}

static void take_data(struct agent_worker *w, const struct frame *frame, struct wire_body *body)
{
    struct agent_stream *at = &w->streams[frame->stream];
    body->in.len = 0; /* the whole body is data */
    if (frame->body.len > at->may_come) {
        agent_break(w->agent, frame, "with more bytes than were granted");
        return;
    }
    at->may_come -= frame->body.len;
    if (frame->stream == STREAM_IN)
        w->n_input_bytes += frame->body.len;
    buf_add_str(&at->input, frame->body);
    if (at->input.len == frame->body.len) /* if other input waits already, `writable` writes it */
        input_flush(w, frame->stream);
}

static void take_credit(struct agent_worker *w, const struct frame *frame, struct wire_body *body)
{
    struct agent_stream *at = &w->streams[frame->stream];
    uint64_t granted = 0;
    wire_u64(body, &granted);
    if (granted > WIRE_CREDIT_BYTES - MIN(at->may_send, (uint64_t)WIRE_CREDIT_BYTES)) {
        agent_break(w->agent, frame, "for more than was sent");
        return;
    }
    at->may_send += granted;
    output_resume(w, frame->stream);
}

static void take_finish(struct agent_worker *w, const struct frame *frame, struct wire_body *body)
{
    (void)body;
    w->streams[frame->stream].must_finish = true;
    if (!w->is_gone && w->streams[frame->stream].input.len == 0)
        input_flush(w, frame->stream);
}

static void take_drop(struct agent_worker *w, const struct frame *frame, struct wire_body *body)
{
    (void)body;
    buf_release(&w->streams[frame->stream].input);
    if (!w->is_gone)
        node_drop(w->process, frame->stream);
}

static void take_ask(struct agent_worker *w, const struct frame *frame, struct wire_body *body)
{
    struct wire_ask ask = {0};
    (void)frame;
    wire_ask(body, &ask);
    if (w->is_gone)
        return;
    switch ((enum wire_ask_kind)ask.kind) {
    case ASK_READ:
        node_ask_read(w->process, ask.value != 0);
        return;
    case ASK_REST:
        node_ask_rest(w->process, ask.value);
        return;
    case ASK_WAIT:
        node_ask_wait(w->process, ask.value != 0);
        return;
    case ASK_STAND:
        node_ask_stand(w->process, ask.value);
        return;
    case ASK_WHERE:
        node_ask_where(w->process);
        return;
    case ASK_KINDS:
        return;
    }
}

static void take_end(struct agent_worker *w, const struct frame *frame, struct wire_body *body)
{
    uint8_t how = END_POLITELY, signal = 0;
    (void)frame;
    wire_u8(body, &how);
    wire_u8(body, &signal);
    w->was_ended = true;
    if (w->is_gone)
        return;
    if (how == END_AT_ONCE)
        node_end(w->process, END_AT_ONCE);
    else
        node_end_by(w->process, end_signal_is(signal) ? signal : SIGTERM);
}

static void take_explained(struct agent_worker *w, const struct frame *frame,
                           struct wire_body *body)
{
    (void)body;
    if (!w->is_gone)
        agent_break(w->agent, frame, "about a worker that has not ended");
    else if (w->process)
        node_oom_explained(w->process);
}

static void take_release(struct agent_worker *w, const struct frame *frame, struct wire_body *body)
{
    (void)frame, (void)body;
    w->is_released = true;
    if (w->is_gone)
        worker_free(w);
    else
        node_end(w->process, END_AT_ONCE);
}

static void (*const takers[FRAME_TYPES_COUNT])(struct agent_worker *w, const struct frame *frame,
                                               struct wire_body *body) = {
    [FRAME_DATA] = take_data,       [FRAME_CREDIT] = take_credit,
    [FRAME_FINISH] = take_finish,   [FRAME_DROP] = take_drop,
    [FRAME_ASK] = take_ask,         [FRAME_END] = take_end,
    [FRAME_RELEASE] = take_release, [FRAME_EXPLAINED] = take_explained,
};

void agent_worker_frame(struct agent *agent, const struct frame *frame)
{
    struct agent_worker *w = frame->worker < agent->n_ids ? agent->workers[frame->worker] : NULL;
    struct wire_body body = wire_body_of(frame->body);
    if (frame->type == FRAME_SPAWN)
        take_spawn(agent, frame);
    else if (!takers[frame->type] || frame->stream >= WORKER_STREAMS)
        agent_break(agent, frame, "that only an agent sends");
    else if (!w || w->is_released)
        agent_break(agent, frame, "about a worker that is not there");
    else
        takers[frame->type](w, frame, &body);
}

void agent_workers_resume(struct agent *agent)
{
    for (uint32_t id = 0; id < agent->n_ids; id++)
        for (unsigned stream = 0; agent->workers[id] && stream < WORKER_STREAMS; stream++)
            output_resume(agent->workers[id], stream);
}

void agent_workers_end(struct agent *agent, enum worker_end how)
{
    for (uint32_t id = 0; id < agent->n_ids; id++)
        if (agent->workers[id] && !agent->workers[id]->is_gone)
            node_end(agent->workers[id]->process, how);
}

void agent_workers_free(struct agent *agent)
{
    for (uint32_t id = 0; id < agent->n_ids; id++)
        if (agent->workers[id])
            worker_free(agent->workers[id]);
    free(agent->workers);
}
