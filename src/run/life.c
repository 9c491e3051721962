/* SPDX-License-Identifier: Apache-2.0
 *
 * One life of one worker: its birth, its logs, what goes to it and what comes from it.
 */
#include "run/session.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "run/environment.h"
#include "run/keyed.h"
#include "run/shard.h"

enum {
    ROOM_BYTES = 256 * 1024, /* of lines, asked of the feeder at a time: a row in the ledger */
    BROKEN_GRACE_MS = 2000,
};

const char *life_label(const struct life *life)
{
    return life->session->places[life->seat].seat.label;
}

void life_handle_closed(uv_handle_t *handle)
{
    struct life *life = handle->data;
    if (--life->open_handles > 0 || !life->is_over)
        return;
    buf_release(&life->to_worker);
    buf_release(&life->from_worker);
    buf_release(&life->channel_in);
    keyed_free(life->keyed);
    buf_release(&life->early_stdout);
    free(life->unwritten);
    free(life->sent);
    answers_forget(life);
    free(life->answered);
    free(life->channel_path);
    shard_life_free(life->shard);
    free(life);
}

/* ---- to the worker ---- */

static uint64_t room_items(const struct session *s)
{
    uint64_t known = MAX(source_known(s->source), (uint64_t)1);
    uint64_t each = MAX(source_bytes_scanned(s->source) / known, (uint64_t)1);
    return MAX(ROOM_BYTES / each, (uint64_t)1);
}

void life_ask_for_room(struct life *life)
{
    if (life->is_channel || life->input_must_close || life->room_is_asked ||
        !node_is_open(life->process, STREAM_IN))
        return;
    life->room_is_asked = true;
    life->room_is_due = false;
    session_event(life->session, (struct feed_event){.kind = EV_ROOM,
                                                     .worker = life->seat,
                                                     .count = room_items(life->session)});
}

bool life_room_is_there(struct life *life)
{
    bool is_empty = life->to_worker.len == 0 && life->n_unwritten == 0;
    life->room_is_asked = false;
    life->room_is_due |= !is_empty;
    return is_empty;
}

void life_input_broken(struct life *life, enum worker_stream stream)
{
    life->to_worker.len = 0;
    life->n_unwritten = 0;
    node_drop(life->process, stream);
    if (life->session->is_complete || life->was_ended)
        return;
    life->deadline_ms = life->session->shell.now_ms + BROKEN_GRACE_MS;
    life_stray_note(life, "it closed its input with items in hand", STR(""));
    log_add(life->session->shell.log, LOG_INFO, "worker", "%s closed its input early",
            life_label(life));
}

/* What is in to_worker, as far as it goes in. False: nobody reads it any more. */
static bool put_some(struct life *life, enum worker_stream stream)
{
    ssize_t put = node_write(life->process, stream, buf_str(&life->to_worker));
    if (put > 0)
        buf_consume(&life->to_worker, (size_t)put);
    return put >= 0;
}

void life_flush(struct life *life)
{
    enum worker_stream stream = life->is_channel ? STREAM_CHANNEL : STREAM_IN;
    if (!node_is_open(life->process, stream)) {
        buf_reset(&life->to_worker);
        life->n_unwritten = 0;
        return;
    }
    do {
        life->room_is_due |= life->to_worker.len > 0;
        if (!put_some(life, stream)) {
            life_input_broken(life, stream);
            return;
        }
    } while (life->to_worker.len == 0 && !life->is_channel && filter_load(life));
    if (life->to_worker.len > 0 || life->n_unwritten > 0)
        return;
    if (life->input_must_close)
        node_finish(life->process, stream);
    else if (life->room_is_due)
        life_ask_for_room(life);
}

/* ---- from the worker ---- */

static void words_note(struct life *life, enum worker_stream stream, struct str bytes)
{
    struct session *s = life->session;
    cleanup_buf struct buf shown = BUF_INIT;
    char prefix[80];
    if (life->shard) {
        shard_printed(life, stream == STREAM_ERR, bytes, &shown);
        bytes = buf_str(&shown);
    }
    snprintf(prefix, sizeof(prefix), "[%s] ", life_label(life));
    for (char *c = prefix; *c; c++)
        *c = *c == '_' ? ' ' : *c;
    console_add(s->shell.console, life->seat * 2, prefix, bytes, s->shell.now_ms);
}

void life_words_end(struct life *life)
{
    words_note(life, STREAM_OUT, (struct str){NULL, 0});
    words_note(life, STREAM_ERR, (struct str){NULL, 0});
}

static void stdout_read(struct life *life, struct str bytes)
{
    if (life->is_channel) {
        logfile_add(life->stdout_log, bytes);
        words_note(life, STREAM_OUT, bytes);
    } else {
        filter_read(life, bytes);
    }
}

static void stderr_read(struct life *life, struct str bytes)
{
    logfile_add(life->stderr_log, bytes);
    words_note(life, STREAM_ERR, bytes);
}

static void on_output(void *context, enum worker_stream stream, struct str bytes)
{
    static void (*const readers[WORKER_STREAMS])(struct life * life, struct str bytes) = {
        [STREAM_OUT] = stdout_read,
        [STREAM_ERR] = stderr_read,
        [STREAM_CHANNEL] = channel_read,
    };
    struct life *life = context;
    shell_now(&life->session->shell);
    if (stream != STREAM_ERR)
        life->last_output_ms = life->session->shell.now_ms;
    readers[stream](life, bytes);
}

static void on_writable(void *context, enum worker_stream stream)
{
    struct life *life = context;
    (void)stream;
    shell_now(&life->session->shell);
    life_flush(life);
}

static void on_closed(void *context, enum worker_stream stream)
{
    struct life *life = context;
    shell_now(&life->session->shell);
    if (stream == STREAM_IN || life->is_channel)
        life_input_broken(life, stream);
}

static void on_warned(void *context, const char *text)
{
    const struct life *life = context;
    log_add(life->session->shell.log, LOG_WARN, "worker", "%s: %s", life_label(life), text);
}

static void on_failed(void *context, const struct err *why)
{
    const struct life *life = context;
    struct err err = *why;
    wrap(&err, why->code, "%s", life_label(life));
    shell_abort(&life->session->shell, &err);
}

static const struct worker_handlers handlers = {.started = life_started,
                                                .output = on_output,
                                                .writable = on_writable,
                                                .closed = on_closed,
                                                .input = life_input_seen,
                                                .gone = life_gone,
                                                .warned = on_warned,
                                                .failed = on_failed};

/* ---- birth ---- */

static int logs_open(struct life *life, struct err *err)
{
    struct session *s = life->session;
    char headline[160];
    snprintf(headline, sizeof(headline), "attempt %u of %s", life->number, life_label(life));
    cleanup_free char *out = xasprintf("%s/logs/%s_stdout.log", s->shell.run_dir, life_label(life));
    cleanup_free char *errors =
        xasprintf("%s/logs/%s_stderr.log", s->shell.run_dir, life_label(life));
    struct logfile_opts opts = {
        .path = out, .cap_bytes = s->request->log_cap_bytes, .headline = headline};
    int rc = logfile_open(&life->stdout_log, &opts, err);
    opts.path = errors;
    return rc ? rc : logfile_open(&life->stderr_log, &opts, err);
}

static enum worker_channel channel_of(const struct life *life)
{
    return life->shard          ? CHANNEL_NONE /* it gets neither items nor messages */
           : life->channel_path ? CHANNEL_PATH
                                : CHANNEL_DESCRIPTOR;
}

static int process_start(struct life *life, uint64_t batch, struct err *err)
{
    struct session *s = life->session;
    struct env_list env = {0};
    int held[LOCK_FDS_MAX];
    const struct seat *seat = &s->places[life->seat].seat;
    if (!life->shard && s->request->channel_path)
        life->channel_path = xasprintf("%s/w%u.sock", s->shell.run_dir, life->number);
    worker_environment(life, batch, &env);
    const struct spawn_request request = {
        .argv = life->shard ? shard_command(life) : s->request->command,
        .envp = (const char *const *)env.at,
        .seat = seat,
        .grace_ms = s->request->grace_ms,
        .has_input = !life->shard,
        .answers = !life->shard,
        .channel = channel_of(life),
        .channel_path = life->channel_path,
        .held_fds = held,
        .n_held_fds = device_locks_fds(&s->allocation.locks, seat->devices, seat->n_devices, held),
        .handlers = &handlers,
        .context = life};
    int rc = node_spawn(s->shell.node, &request, &life->process, err);
    env_list_release(&env);
    if (rc == 0)
        memory_taken(s->memory, life->seat, shell_now(&s->shell));
    return rc;
}

struct life *life_new(struct session *s, uint32_t worker)
{
    struct life *life = xcalloc(1, sizeof(*life));
    *life = (struct life){.session = s, .seat = worker};
    life->started_ms = life->last_output_ms = shell_now(&s->shell);
    life->started_wall_ms = clock_wall_ms();
    s->places[worker].life = life;
    return life;
}

void life_start_failed(struct life *life, int rc, const struct err *why)
{
    struct session *s = life->session;
    log_add(s->shell.log, LOG_ERROR, "worker", "%s could not be started: %s", life_label(life),
            why->text);
    snprintf(life->start_error, sizeof(life->start_error), "%.*s",
             (int)sizeof(life->start_error) - 1, why->text);
    life->exit = (struct worker_exit){.was_refused = true, .exec_errno = why->sys};
    if (rc == ERR_STOPPED) /* a full disk is full for the next one too */
        shell_abort(&s->shell, why);
    life_over(life);
}

void life_start(struct life *life, uint64_t batch)
{
    struct session *s = life->session;
    struct err err = {0};
    cleanup_buf struct buf work = BUF_INIT;
    int rc = logs_open(life, &err);
    if (rc == 0)
        rc = process_start(life, batch, &err);
    if (rc) {
        life_start_failed(life, rc, &err);
        return;
    }
    if (life->shard)
        shard_work_add(life, &work);
    log_add(s->shell.log, LOG_INFO, "worker", "%s: attempt %u starts under guard %d%s",
            life_label(life), life->number, life->process->guard_pid, buf_text(&work));
}

void life_spawn(struct session *s, uint32_t worker, uint64_t batch)
{
    struct life *life = life_new(s, worker);
    life->number = s->next_number++;
    life_start(life, batch);
}

bool life_part_ready(struct life *life)
{
    struct err err = {0};
    if (life->part)
        return true;
    if (part_open(life->session->ledger, life->number, &life->part, &err) == 0)
        return true;
    shell_abort(&life->session->shell, &err);
    return false;
}

void life_first_result(struct life *life)
{
    if (life->live_ms != 0)
        return;
    struct session *s = life->session;
    struct place *place = &s->places[life->seat];
    /* A filter may give its first answer at its end, and be at work since it began to read. */
    uint64_t age_ms = s->shell.now_ms - MIN(s->shell.now_ms, life->started_ms);
    uint64_t load_ms = place->reads_after_ms > 0 ? MIN(place->reads_after_ms, age_ms) : age_ms;
    life->live_ms = life->started_ms + load_ms;
    place->load_ms += load_ms;
    if (load_ms < age_ms && life_is_busy(life)) {
        life->busy_since_ms = life->live_ms;
        life->item_since_us = clock_now_ns() / 1000 - (age_ms - load_ms) * 1000;
    }
    if (s->first_result_ms == 0)
        s->first_result_ms = s->shell.now_ms;
}
