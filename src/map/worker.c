/* SPDX-License-Identifier: Apache-2.0
 *
 * One worker process: its start, its logs, its input and its output.
 */
#include "map/session_impl.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/shell.h"
#include "base/xalloc.h"
#include "map/environment.h"
#include "map/work.h"

enum {
    /* of lines: so many are asked of the feeder at a time; their answers share a row in the ledger */
    ROOM_BYTES = 256 * 1024,
};

const char *worker_label(const struct worker *worker)
{
    return worker->session->seats[worker->seat].seat.label;
}

void worker_handle_closed(uv_handle_t *handle)
{
    struct worker *worker = handle->data;
    if (--worker->open_handles > 0 || !worker->is_over)
        return;
    buf_release(&worker->to_worker);
    buf_release(&worker->channel_in);
    filter_release(&worker->filter);
    answers_forget(worker);
    free(worker->answers.at);
    free(worker->channel_path);
    if (worker->session->request->work->worker->release)
        worker->session->request->work->worker->release(worker);
    free(worker);
}

/* ---- to the worker ---- */

uint64_t worker_room_items(const struct session *s)
{
    uint64_t known = MAX(source_known(s->source), (uint64_t)1);
    uint64_t each = MAX(source_bytes_scanned(s->source) / known, (uint64_t)1);
    return MAX(ROOM_BYTES / each, (uint64_t)1);
}

void worker_ask_for_room(struct worker *worker)
{
    if (worker->is_channel || worker->input_must_close || worker->filter.room_is_asked ||
        !node_is_open(worker->process, STREAM_IN))
        return;
    worker->filter.room_is_asked = true;
    worker->filter.room_is_due = false;
    session_event(worker->session,
                  (struct feed_event){.kind = EV_ROOM,
                                      .worker = worker->seat,
                                      .count = worker_room_items(worker->session)});
}

bool worker_room_is_there(struct worker *worker)
{
    bool is_empty = worker->to_worker.len == 0 && worker->filter.n_unwritten == 0;
    worker->filter.room_is_asked = false;
    worker->filter.room_is_due |= !is_empty;
    return is_empty;
}

void worker_input_broken(struct worker *worker, enum worker_stream stream)
{
    worker_unwritten_drop(worker);
    node_drop(worker->process, stream);
    if (worker->session->outcome.is_complete || worker->was_ended)
        return;
    worker_closed_note(worker);
    log_add(shell_log(worker->session->shell), LOG_INFO, "worker", "%s closed its input early",
            worker_label(worker));
    session_event(worker->session, (struct feed_event){.kind = EV_CLOSED, .worker = worker->seat});
}

/* Writes as much of to_worker as the stream takes. False: its reader is gone. */
static bool put_some(struct worker *worker, enum worker_stream stream)
{
    struct buf *out = &worker->to_worker;
    struct str rest = {buf_text(out) + worker->n_put, out->len - worker->n_put};
    ssize_t put = node_write(worker->process, stream, rest);
    if (put > 0)
        worker->n_put += (size_t)put;
    /* Bytes are moved only when that frees at least half: a worker may take a long line in thousands of small pieces. */
    if (worker->n_put >= out->len - worker->n_put) {
        buf_consume(out, worker->n_put);
        worker->n_put = 0;
    }
    return put >= 0;
}

void worker_unwritten_drop(struct worker *worker)
{
    buf_reset(&worker->to_worker);
    worker->n_put = 0;
    worker->filter.n_unwritten = 0;
}

void worker_flush(struct worker *worker)
{
    enum worker_stream stream = worker->is_channel ? STREAM_CHANNEL : STREAM_IN;
    if (!node_is_open(worker->process, stream)) {
        worker_unwritten_drop(worker);
        return;
    }
    do {
        worker->filter.room_is_due |= worker->to_worker.len > 0;
        if (!put_some(worker, stream)) {
            worker_input_broken(worker, stream);
            return;
        }
    } while (worker->to_worker.len == 0 && !worker->is_channel && filter_load(worker));
    if (worker->to_worker.len > 0 || worker->filter.n_unwritten > 0)
        return;
    if (worker->input_must_close)
        node_finish(worker->process, stream);
    else if (worker->filter.room_is_due)
        worker_ask_for_room(worker);
}

/* ---- from the worker ---- */

static void words_note(struct worker *worker, enum worker_stream stream, struct str bytes)
{
    struct session *s = worker->session;
    const struct worker_ops *ops = s->request->work->worker;
    cleanup_buf struct buf shown = BUF_INIT;
    char prefix[80];
    if (ops->printed) {
        ops->printed(worker, stream == STREAM_ERR, bytes, &shown);
        bytes = buf_str(&shown);
    }
    snprintf(prefix, sizeof(prefix), "[%s] ", worker_label(worker));
    for (char *c = prefix; *c; c++)
        *c = *c == '_' ? ' ' : *c;
    console_add(shell_console(s->shell), worker->seat * 2, prefix, bytes, shell_last_now(s->shell));
}

void worker_words_end(struct worker *worker)
{
    words_note(worker, STREAM_OUT, (struct str){NULL, 0});
    words_note(worker, STREAM_ERR, (struct str){NULL, 0});
}

static void stdout_read(struct worker *worker, struct str bytes)
{
    if (worker->is_channel) {
        logfile_add(worker->stdout_log, bytes);
        words_note(worker, STREAM_OUT, bytes);
    } else {
        filter_read(worker, bytes);
    }
}

static void stderr_read(struct worker *worker, struct str bytes)
{
    logfile_add(worker->stderr_log, bytes);
    words_note(worker, STREAM_ERR, bytes);
}

static void on_output(void *context, enum worker_stream stream, struct str bytes)
{
    static void (*const readers[WORKER_STREAMS])(struct worker * worker, struct str bytes) = {
        [STREAM_OUT] = stdout_read,
        [STREAM_ERR] = stderr_read,
        [STREAM_CHANNEL] = channel_read,
    };
    struct worker *worker = context;
    shell_now(worker->session->shell);
    if (stream != STREAM_ERR)
        worker->last_output_ms = shell_last_now(worker->session->shell);
    readers[stream](worker, bytes);
}

static void on_writable(void *context, enum worker_stream stream)
{
    struct worker *worker = context;
    (void)stream;
    shell_now(worker->session->shell);
    worker_flush(worker);
}

static void on_closed(void *context, enum worker_stream stream)
{
    struct worker *worker = context;
    shell_now(worker->session->shell);
    if (stream == STREAM_IN || worker->is_channel)
        worker_input_broken(worker, stream);
}

static void on_warned(void *context, const char *text)
{
    const struct worker *worker = context;
    log_add(shell_log(worker->session->shell), LOG_WARN, "worker", "%s: %s", worker_label(worker),
            text);
}

static void on_failed(void *context, const struct err *why)
{
    const struct worker *worker = context;
    struct err err = *why;
    wrap(&err, why->code, "%s", worker_label(worker));
    shell_abort(worker->session->shell, &err);
}

static const struct worker_handlers handlers = {.started = worker_started,
                                                .output = on_output,
                                                .writable = on_writable,
                                                .closed = on_closed,
                                                .input = worker_input_seen,
                                                .gone = worker_gone,
                                                .warned = on_warned,
                                                .failed = on_failed};

/* ---- birth ---- */

static int logs_open(struct worker *worker, struct err *err)
{
    struct session *s = worker->session;
    char headline[160];
    snprintf(headline, sizeof(headline), "attempt %u of %s", worker->number, worker_label(worker));
    cleanup_free char *out =
        xasprintf("%s/logs/%s_stdout.log", shell_run_dir(s->shell), worker_label(worker));
    cleanup_free char *errors =
        xasprintf("%s/logs/%s_stderr.log", shell_run_dir(s->shell), worker_label(worker));
    struct logfile_opts opts = {
        .path = out, .cap_bytes = s->request->run.log_cap_bytes, .headline = headline};
    int rc = logfile_open(&worker->stdout_log, &opts, err);
    opts.path = errors;
    return rc ? rc : logfile_open(&worker->stderr_log, &opts, err);
}

static enum worker_channel channel_of(const struct worker *worker)
{
    return !worker->session->request->work->keeps_workers ? CHANNEL_NONE
           : worker->channel_path                         ? CHANNEL_PATH
                                                          : CHANNEL_DESCRIPTOR;
}

static int process_start(struct worker *worker, uint64_t batch, struct err *err)
{
    struct session *s = worker->session;
    struct env_list env = {0}, command = {0};
    const struct work *work = s->request->work;
    const struct seat *seat = &s->seats[worker->seat].seat;
    if (work->keeps_workers && s->request->channel_path)
        worker->channel_path = xasprintf("%s/w%u.sock", shell_run_dir(s->shell), worker->number);
    worker_environment(worker, batch, &env);
    environment_command(&s->request->environment, work->worker->command(worker), &command);
    const struct spawn_request request = {.argv = (const char *const *)command.at,
                                          .envp = (const char *const *)env.at,
                                          .seat = seat,
                                          .grace_ms = s->request->run.grace_ms,
                                          .has_input = work->keeps_workers,
                                          .answers = work->keeps_workers,
                                          .channel = channel_of(worker),
                                          .channel_path = worker->channel_path,
                                          .sent = &s->request->environment.env,
                                          .files = work->worker->files ? work->worker->files(worker)
                                                                       : NULL,
                                          .locks = &s->allocation.locks,
                                          .handlers = &handlers,
                                          .context = worker};
    int rc = node_spawn(shell_node(s->shell), &request, &worker->process, err);
    env_list_release(&env);
    env_list_release(&command);
    if (rc == 0)
        device_watch_started(s->devices, worker->seat);
    return rc;
}

struct worker *worker_new(struct session *s, uint32_t seat, void *work_data)
{
    struct worker *worker = xcalloc(1, sizeof(*worker));
    *worker = (struct worker){
        .session = s, .seat = seat, .work_data = work_data, .is_channel = work_data != NULL};
    worker->busy.started_us = clock_now_ns() / 1000;
    worker->last_output_ms = shell_now(s->shell);
    worker->started_wall_ms = clock_wall_ms();
    s->seats[seat].worker = worker;
    return worker;
}

void worker_attempt_begin(struct worker *worker)
{
    worker->number = worker->session->next_number++;
    worker->busy.started_us = clock_now_ns() / 1000;
}

void worker_start_failed(struct worker *worker, int rc, const struct err *why)
{
    struct session *s = worker->session;
    log_add(shell_log(s->shell), LOG_ERROR, "worker", "%s could not be started: %s",
            worker_label(worker), why->text);
    snprintf(worker->start_error, sizeof(worker->start_error), "%.*s",
             (int)sizeof(worker->start_error) - 1, why->text);
    worker->exit = (struct worker_exit){.was_refused = true, .exec_errno = why->sys};
    if (rc == ERR_STOPPED) /* the disk is full for the next worker too */
        shell_abort(s->shell, why);
    worker_over(worker);
}

static void command_log(const struct worker *worker)
{
    const struct session *s = worker->session;
    cleanup_buf struct buf words = BUF_INIT;
    for (const char *const *word = s->request->command; *word; word++) {
        buf_add_char(&words, ' ');
        buf_add_shell_word(&words, *word);
    }
    log_add(shell_log(s->shell), LOG_DEBUG, "worker", "%s runs%s", worker_label(worker),
            buf_text(&words));
}

void worker_start(struct worker *worker, uint64_t batch)
{
    struct session *s = worker->session;
    struct err err = {0};
    cleanup_buf struct buf what = BUF_INIT;
    int rc = logs_open(worker, &err);
    if (rc == 0)
        rc = process_start(worker, batch, &err);
    if (rc) {
        worker_start_failed(worker, rc, &err);
        return;
    }
    if (!s->request->work->keeps_workers)
        s->request->work->worker->describe(worker, &what);
    cleanup_free char *guard = worker->process->guard_pid
                                   ? xasprintf(" under guard %d", worker->process->guard_pid)
                                   : xstrdup("");
    log_add(shell_log(s->shell), LOG_INFO, "worker", "%s: attempt %u starts%s%s",
            worker_label(worker), worker->number, guard, buf_text(&what));
    if (s->request->work->keeps_workers)
        command_log(worker);
}

void worker_spawn(struct session *s, uint32_t seat, uint64_t batch)
{
    struct worker *worker = worker_new(s, seat, NULL);
    worker_attempt_begin(worker);
    worker_start(worker, batch);
}

void worker_result(struct worker *worker, uint64_t item, struct str result, struct str metrics)
{
    struct step_context *step = &worker->session->step;
    if (metrics.len > 0)
        (void)metrics_add(&step->metrics, metrics);
    step->result = result;
    session_event(worker->session,
                  (struct feed_event){.kind = EV_DONE, .worker = worker->seat, .item = item});
}

bool worker_part_ready(struct worker *worker)
{
    struct err err = {0};
    if (worker->part)
        return true;
    if (shell_is_settled(worker->session->shell)) /* a late answer: the parts may be gone */
        return false;
    if (part_open(worker->session->ledger, worker->number, &worker->part, &err) == 0) {
        log_add(shell_log(worker->session->shell), LOG_DEBUG, "map", "%s writes parts/%u.part",
                worker_label(worker), worker->number);
        return true;
    }
    shell_abort(worker->session->shell, &err);
    return false;
}

void worker_ready_note(struct worker *worker, uint64_t ready_us)
{
    struct seat_state *seat_state = &worker->session->seats[worker->seat];
    if (seat_state->ready_us == 0)
        seat_state->ready_us = ready_us;
}

void worker_first_result(struct worker *worker)
{
    struct session *s = worker->session;
    struct seat_state *seat_state = &s->seats[worker->seat];
    if (worker->busy.live_us != 0)
        return;
    uint64_t now_us = clock_now_ns() / 1000, age_us = now_us - worker->busy.started_us;
    /* A filter may give its first answer at its end; it has worked since it began to read. */
    uint64_t reads_after_us = seat_state->reads_after_ms * 1000;
    uint64_t load_us = reads_after_us > 0 ? MIN(reads_after_us, age_us) : age_us;
    busy_is_live(&worker->busy, worker->busy.started_us + load_us, now_us);
    seat_state->load_ms += load_us / 1000;
    worker_ready_note(worker, worker->busy.started_us + load_us);
    s->outcome.has_result = true;
}
