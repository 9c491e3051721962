/* SPDX-License-Identifier: Apache-2.0
 *
 * One life of one worker: its pipes, its logs, its guard, its last byte.
 */
#include "run/session.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "proc/waits.h"
#include "run/environment.h"
#include "run/keyed.h"

enum {
    READ_BYTES = 256 * 1024,
    READS_AT_ONCE = 4,
    PIPE_BYTES = 1 << 20,
    TAIL_BYTES = 4096,
    HUNGRY_FIRST_MS = 200,
    SILENT_BYTES_MAX = 4 << 20,
    BROKEN_GRACE_MS = 2000,
};

const char *life_label(const struct life *life)
{
    return life->session->places[life->seat].seat.label;
}

/* ---- streams ---- */

static void on_poll_closed(uv_handle_t *handle)
{
    struct life *life = handle->data;
    if (--life->open_handles > 0 || !life->is_over)
        return;
    buf_release(&life->to_worker);
    buf_release(&life->from_worker);
    buf_release(&life->channel_in);
    keyed_free(life->keyed);
    buf_release(&life->early_stdout);
    free(life->sent);
    answers_forget(life);
    free(life->answered);
    free(life->channel_path);
    free(life);
}

void life_stream_close(struct life *life, enum life_stream stream)
{
    if (life->is_polled[stream]) {
        life->is_polled[stream] = false;
        uv_close((uv_handle_t *)&life->polls[stream], on_poll_closed);
    }
    fd_close(&life->fds[stream]);
}

static void on_ready(uv_poll_t *poll, int status, int events);

void life_poll(struct life *life, enum life_stream stream, int events)
{
    if (life->fds[stream] < 0 || life->events[stream] == events)
        return;
    if (!life->is_polled[stream]) {
        if (uv_poll_init(&life->session->loop, &life->polls[stream], life->fds[stream]) != 0)
            return;
        life->polls[stream].data = life;
        life->is_polled[stream] = true;
        life->open_handles++;
    }
    life->events[stream] = events;
    if (events)
        uv_poll_start(&life->polls[stream], events, on_ready);
    else
        uv_poll_stop(&life->polls[stream]);
}

static uint64_t room_items(const struct session *s)
{
    uint64_t known = MAX(source_known(s->source), (uint64_t)1);
    uint64_t each = MAX(source_bytes_scanned(s->source) / known, (uint64_t)1);
    return MAX(READ_BYTES / each, (uint64_t)1);
}

static void ask_for_room(struct life *life)
{
    if (!life->is_channel && !life->input_must_close && life->fds[STREAM_IN] >= 0)
        session_event(life->session, (struct feed_event){.kind = EV_ROOM,
                                                         .worker = life->seat,
                                                         .count = room_items(life->session)});
}

static void input_broken(struct life *life, enum life_stream stream)
{
    life->to_worker.len = 0;
    life_stream_close(life, stream);
    if (life->session->is_complete || life->was_ended)
        return;
    life->next_hungry_ms = life->session->now_ms + BROKEN_GRACE_MS;
    log_add(life->session->log, LOG_INFO, "worker", "%s closed its input early", life_label(life));
}

void life_flush(struct life *life)
{
    enum life_stream stream = life->is_channel ? STREAM_CHANNEL : STREAM_IN;
    size_t done = 0;
    if (life->fds[stream] < 0) {
        buf_reset(&life->to_worker);
        return;
    }
    while (done < life->to_worker.len) {
        ssize_t put =
            write(life->fds[stream], life->to_worker.at + done, life->to_worker.len - done);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0 && errno == EAGAIN)
            break;
        if (put < 0) {
            input_broken(life, stream);
            return;
        }
        done += (size_t)put;
    }
    buf_consume(&life->to_worker, done);
    int wanted =
        (stream == STREAM_CHANNEL ? UV_READABLE : 0) | (life->to_worker.len > 0 ? UV_WRITABLE : 0);
    life_poll(life, stream, wanted);
    if (life->to_worker.len > 0)
        return;
    if (life->input_must_close && stream == STREAM_IN)
        life_stream_close(life, STREAM_IN);
    else if (life->input_must_close)
        shutdown(life->fds[STREAM_CHANNEL], SHUT_WR);
    else if (done > 0)
        ask_for_room(life);
}

static void words_note(struct life *life, struct str bytes)
{
    struct session *s = life->session;
    char prefix[80];
    snprintf(prefix, sizeof(prefix), "[%s] ", life_label(life));
    for (char *c = prefix; *c; c++)
        *c = *c == '_' ? ' ' : *c;
    console_add(s->console, life->seat * 2, prefix, bytes, s->now_ms);
}

static void stdout_read(struct life *life, struct str bytes)
{
    if (life->is_channel) {
        logfile_add(life->stdout_log, bytes);
        words_note(life, bytes);
    } else {
        filter_read(life, bytes);
    }
}

static void stderr_read(struct life *life, struct str bytes)
{
    logfile_add(life->stderr_log, bytes);
    words_note(life, bytes);
}

static void (*const readers[STREAMS])(struct life *life, struct str bytes) = {
    [STREAM_OUT] = stdout_read,
    [STREAM_ERR] = stderr_read,
    [STREAM_CHANNEL] = channel_read,
};

/* Read what is there. False when the stream has ended. */
static bool stream_read(struct life *life, enum life_stream stream, int reads_max)
{
    static char bytes[READ_BYTES]; /* the loop is one thread, and nothing keeps a view of it */
    for (int i = 0; i < reads_max && life->fds[stream] >= 0; i++) {
        ssize_t got = read(life->fds[stream], bytes, sizeof(bytes));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            return true;
        if (got <= 0)
            return false;
        if (stream != STREAM_ERR)
            life->last_output_ms = life->session->now_ms;
        readers[stream](life, (struct str){bytes, (size_t)got});
    }
    return true;
}

static void channel_accept(struct life *life)
{
    int fd = accept4(life->fds[STREAM_CHANNEL], NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    life_stream_close(life, STREAM_CHANNEL);
    unlink(life->channel_path);
    life->channel_is_listening = false;
    life->fds[STREAM_CHANNEL] = fd;
    life->events[STREAM_CHANNEL] = 0;
    life_poll(life, STREAM_CHANNEL, UV_READABLE);
}

static void report_read(struct life *life);

static void on_ready(uv_poll_t *poll, int status, int events)
{
    struct life *life = poll->data;
    enum life_stream stream = (enum life_stream)(poll - life->polls);
    session_now(life->session);
    if (stream == STREAM_REPORT) {
        report_read(life);
        return;
    }
    if (stream == STREAM_CHANNEL && life->channel_is_listening) {
        channel_accept(life);
        return;
    }
    if (events & UV_WRITABLE)
        life_flush(life);
    if (life->fds[stream] < 0 || !life->is_polled[stream])
        return;
    if ((events & UV_READABLE || status < 0) &&
        !stream_read(life, stream, stream == STREAM_ERR ? 1 : READS_AT_ONCE)) {
        if (stream == STREAM_CHANNEL && life->is_channel && !life->has_exited)
            input_broken(life, stream);
        else
            life_stream_close(life, stream);
    }
}

/* ---- birth ---- */

struct child_ends {
    int in, out, err, channel;
};

static int pipe_open(int *ours, int *theirs, bool we_write, struct err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return fail_errno(err, "create a pipe");
    *ours = ends[we_write];
    *theirs = ends[!we_write];
    fcntl(*ours, F_SETFL, O_NONBLOCK);
    /* Fewer turns for fast filters. Refused above the user's quota: then the default size stays. */
    fcntl(*ours, F_SETPIPE_SZ, PIPE_BYTES);
    return 0;
}

static int channel_pair_open(struct life *life, struct child_ends *theirs, struct err *err)
{
    int ends[2], bytes = 1 << 20;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return fail_errno(err, "create a socket pair");
    setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    life->fds[STREAM_CHANNEL] = ends[0];
    theirs->channel = ends[1];
    return 0;
}

static int channel_path_open(struct life *life, struct err *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    life->channel_path = xasprintf("%s/w%u.sock", life->session->run_dir, life->number);
    if (strlen(life->channel_path) >= sizeof(address.sun_path))
        return fail(
            err, ERR_USAGE,
            "the path of the channel, %s, is longer than %zu bytes; choose a shorter --run-dir",
            life->channel_path, sizeof(address.sun_path) - 1);
    memcpy(address.sun_path, life->channel_path, strlen(life->channel_path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    life->fds[STREAM_CHANNEL] = fd;
    life->channel_is_listening = true;
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(fd, 1) != 0)
        return fail_errno(err, "listen on %s", life->channel_path);
    return 0;
}

static int streams_open(struct life *life, struct child_ends *theirs, struct err *err)
{
    int rc = pipe_open(&life->fds[STREAM_IN], &theirs->in, true, err);
    if (rc == 0)
        rc = pipe_open(&life->fds[STREAM_OUT], &theirs->out, false, err);
    if (rc == 0)
        rc = pipe_open(&life->fds[STREAM_ERR], &theirs->err, false, err);
    if (rc == 0)
        rc = life->session->request->channel_path ? channel_path_open(life, err)
                                                  : channel_pair_open(life, theirs, err);
    return rc;
}

static int logs_open(struct life *life, struct err *err)
{
    struct session *s = life->session;
    char when[40], headline[160];
    clock_rfc3339(when, life->started_wall_ms);
    snprintf(headline, sizeof(headline), "--- %s: attempt %u of %s ---\n", when, life->number,
             life_label(life));
    cleanup_free char *out = xasprintf("%s/logs/%s_stdout.log", s->run_dir, life_label(life));
    cleanup_free char *errors = xasprintf("%s/logs/%s_stderr.log", s->run_dir, life_label(life));
    struct logfile_opts opts = {
        .path = out, .cap_bytes = s->request->log_cap_bytes, .headline = headline};
    int rc = logfile_open(&life->stdout_log, &opts, err);
    opts.path = errors;
    return rc ? rc : logfile_open(&life->stderr_log, &opts, err);
}

static int guard_start(struct life *life, const struct child_ends *theirs, uint64_t batch,
                       struct err *err)
{
    struct session *s = life->session;
    struct env_list env = {0};
    worker_environment(life, batch, &env);
    struct spawn_opts opts = {.guard_path = s->guard_path,
                              .argv = s->request->command,
                              .envp = (const char *const *)env.at,
                              .cpus = &s->places[life->seat].seat.cpus,
                              .grace_ms = s->request->grace_ms,
                              .stdin_fd = theirs->in,
                              .stdout_fd = theirs->out,
                              .stderr_fd = theirs->err,
                              .channel_fd = theirs->channel};
    int rc = guard_spawn(&life->guard, &opts, err);
    env_list_release(&env);
    return rc;
}

static void ends_close(struct child_ends *theirs)
{
    fd_close(&theirs->in);
    fd_close(&theirs->out);
    fd_close(&theirs->err);
    fd_close(&theirs->channel);
}

static void life_over(struct life *life);

void life_spawn(struct session *s, uint32_t worker, uint64_t batch)
{
    struct life *life = xcalloc(1, sizeof(*life));
    struct child_ends theirs = {-1, -1, -1, -1};
    struct err err = {0};
    *life = (struct life){
        .session = s, .seat = worker, .number = s->next_number++, .guard = GUARD_INIT};
    life->fds[STREAM_IN] = life->fds[STREAM_OUT] = life->fds[STREAM_ERR] = -1;
    life->fds[STREAM_CHANNEL] = life->fds[STREAM_REPORT] = -1;
    life->started_ms = life->last_output_ms = session_now(s);
    life->started_wall_ms = clock_wall_ms();
    life->oom_kills_before = proc_oom_kills();
    s->places[worker].life = life;
    s->places[worker].device_mem_baseline_bytes = s->samples[s->device_of[worker]].mem_used_bytes;
    int rc = logs_open(life, &err);
    if (rc == 0)
        rc = streams_open(life, &theirs, &err);
    if (rc == 0)
        rc = guard_start(life, &theirs, batch, &err);
    ends_close(&theirs);
    if (rc) {
        log_add(s->log, LOG_ERROR, "worker", "%s could not be started: %s", life_label(life),
                err.text);
        life->exec_failed = true;
        life_over(life);
        return;
    }
    reaper_add(s->reaper, life->guard.pid);
    life->fds[STREAM_REPORT] = life->guard.report_fd;
    life->guard.report_fd = dup(life->fds[STREAM_REPORT]);
    life_poll(life, STREAM_REPORT, UV_READABLE);
    life_poll(life, STREAM_OUT, UV_READABLE);
    life_poll(life, STREAM_ERR, UV_READABLE);
    life_poll(life, STREAM_CHANNEL, UV_READABLE);
    log_add(s->log, LOG_DEBUG, "worker", "%s: attempt %u under guard %d", life_label(life),
            life->number, life->guard.pid);
}

bool life_part_ready(struct life *life)
{
    struct err err = {0};
    if (life->part)
        return true;
    if (part_open(life->session->ledger, life->number, &life->part, &err) == 0)
        return true;
    session_abort(life->session, &err);
    return false;
}

void life_first_result(struct life *life)
{
    if (life->live_ms != 0)
        return;
    struct session *s = life->session;
    life->live_ms = s->now_ms;
    s->places[life->seat].load_ms += life->live_ms - life->started_ms;
    if (s->first_result_ms == 0)
        s->first_result_ms = s->now_ms;
}

bool life_is_busy(const struct life *life)
{
    return life->n_items_sent > life->n_items_answered;
}

/* Busy is counted from the first sign of readiness: what was sent before waited for the model. */
static void busy_begin(struct life *life)
{
    if (life->live_ms > 0 && life->busy_since_ms == 0 && life_is_busy(life))
        life->busy_since_ms = life->session->now_ms;
}

static void busy_end(struct life *life)
{
    if (life->busy_since_ms > 0)
        life->busy_ms += life->session->now_ms - life->busy_since_ms;
    life->busy_since_ms = 0;
}

void life_sent(struct life *life, uint64_t count)
{
    life->n_items_sent += count;
    busy_begin(life);
}

void life_answered(struct life *life, uint64_t count)
{
    life->n_items_answered = MIN(life->n_items_answered + count, life->n_items_sent);
    if (!life_is_busy(life))
        busy_end(life);
    else
        busy_begin(life);
}

/* ---- end ---- */

void life_end(struct life *life)
{
    life->input_must_close = true;
    life->next_hungry_ms =
        life->session->now_ms + MAX(life->session->request->grace_ms, (uint64_t)1000);
    if (life->is_channel)
        channel_stop(life);
    life_flush(life);
}

void life_terminate(struct life *life, enum feed_cause cause)
{
    static const char *const why[] = {
        [CAUSE_TIMEOUT] = "an item took longer than its limit",
        [CAUSE_START] = "it was not ready within the time limit for starting",
        [CAUSE_PROTOCOL] = "its answers do not match the items it was given",
        [CAUSE_LOST] = "its device is gone",
    };
    struct session *s = life->session;
    if (cause < countof(why) && why[cause])
        log_add(s->log, LOG_WARN, "worker", "%s is ended: %s%s%s", life_label(life), why[cause],
                life->stray[0] ? "; it printed: " : "", life->stray);
    life->was_ended = true;
    guard_terminate(&life->guard);
}

static const enum feed_death death_of[] = {
    [DEATH_CLEAN] = GONE_CLEAN,
    [DEATH_FAILED] = GONE_CRASH,
    [DEATH_CRASHED] = GONE_CRASH,
    [DEATH_OOM] = GONE_OOM,
    [DEATH_HOST_OOM] = GONE_OOM,
    [DEATH_DEVICE_LOST] = GONE_DEVICE_LOST,
    [DEATH_NOT_STARTED] = GONE_NOT_STARTED,
    [DEATH_ENDED_BY_US] = GONE_ENDED,
};

static enum death verdict(struct life *life, struct buf *tail)
{
    cleanup_buf struct buf out_tail = BUF_INIT;
    struct session *s = life->session;
    if (life->stderr_log)
        logfile_tail(life->stderr_log, TAIL_BYTES, tail);
    if (life->stdout_log)
        logfile_tail(life->stdout_log, TAIL_BYTES, &out_tail);
    return verdict_of(&(struct death_facts){
        .exit_code = life->exit_code,
        .exit_signal = life->exit_signal,
        .exec_failed = life->exec_failed,
        .we_ended_it = life->was_ended,
        .oom_killed = life->exit_signal == SIGKILL && proc_oom_kills() > life->oom_kills_before,
        .device_lost = s->device_is_lost[s->device_of[life->seat]],
        .stderr_tail = buf_str(tail),
        .stdout_tail = buf_str(&out_tail),
    });
}

static void death_describe(struct life *life, enum death death, char out[96])
{
    char end[24];
    exit_format(end, life->exit_code, life->exit_signal);
    if (death == DEATH_NOT_STARTED)
        snprintf(out, 96, "could not be executed: %s", errno_text(life->exec_errno));
    else if (death == DEATH_FAILED || death == DEATH_CRASHED || death == DEATH_CLEAN ||
             death == DEATH_ENDED_BY_US)
        snprintf(out, 96, "%s", end);
    else
        snprintf(out, 96, "%s, %s", end, death_text(death));
}

static void attempt_record(struct life *life, const char *end)
{
    struct session *s = life->session;
    bool is_over = end != NULL;
    ledger_attempt(s->ledger, &(struct attempt_row){
                                  .id = life->number,
                                  .seat = life->seat,
                                  .label = life_label(life),
                                  .pid = life->guard.worker_pid,
                                  .started_wall_ms = life->started_wall_ms,
                                  .ended_wall_ms = is_over ? clock_wall_ms() : 0,
                                  .end = end,
                                  .items_done = life->items_done,
                                  .load_ms = life->live_ms ? life->live_ms - life->started_ms : 0,
                                  .busy_ms = life->busy_ms,
                                  .mem_peak_bytes = MAX(
                                      life->mem_peak_bytes,
                                      (uint64_t)MAX(life->last_report.rss_peak_bytes, (int64_t)0)),
                              });
}

static void death_log(struct life *life, enum death death, const char *how, struct str tail)
{
    struct session *s = life->session;
    if (death == DEATH_CLEAN || death == DEATH_ENDED_BY_US) {
        log_add(s->log, LOG_DEBUG, "worker", "%s ended (%s) after %lu items", life_label(life), how,
                life->items_done);
        return;
    }
    struct str last = str_trim(tail);
    const char *line = last.len > 0 ? memrchr(last.at, '\n', last.len) : NULL;
    line = line ? line + 1 : last.at;
    int len = (int)MIN(last.len > 0 ? (size_t)(last.at + last.len - line) : 0, (size_t)160);
    snprintf(s->last_words, sizeof(s->last_words), "%s%s%.*s", how, len > 0 ? ": " : "", len,
             len > 0 ? line : "");
    log_add(s->log, LOG_WARN, "worker", "%s died (%s) after %lu items%s%.*s", life_label(life), how,
            life->items_done, len > 0 ? "; its last words: " : "", len, len > 0 ? line : "");
}

static void resources_close(struct life *life)
{
    for (int stream = 0; stream < STREAMS; stream++)
        life_stream_close(life, (enum life_stream)stream);
    if (life->channel_path)
        unlink(life->channel_path);
    guard_close(&life->guard);
    part_close(life->part);
    life->part = NULL;
    logfile_close(life->stdout_log);
    logfile_close(life->stderr_log);
    life->stdout_log = life->stderr_log = NULL;
}

/* The process and all that was his are gone: read what is left, then tell the feeder. */
static void life_over(struct life *life)
{
    struct session *s = life->session;
    struct place *place = &s->places[life->seat];
    cleanup_buf struct buf tail = BUF_INIT;
    char how[96];
    if (life->is_over)
        return;
    static const enum life_stream remaining[] = {STREAM_CHANNEL, STREAM_OUT, STREAM_ERR};
    for (size_t i = 0; i < countof(remaining); i++)
        if (!(remaining[i] == STREAM_CHANNEL && life->channel_is_listening))
            stream_read(life, remaining[i], 1 << 20);
    if (!life->is_channel)
        filter_eof(life);
    enum death death = verdict(life, &tail);
    death_describe(life, death, how);
    death_log(life, death, how, buf_str(&tail));
    life->is_over = true;
    attempt_record(life, how);
    struct str printed = buf_str(&tail);
    if (!s->in_step) {
        s->hand.error = how;
        s->hand.stderr_tail = printed.len > 0 ? printed.at : NULL;
    }
    session_event(
        s, (struct feed_event){.kind = EV_EXIT, .worker = life->seat, .death = death_of[death]});
    busy_end(life);
    place->busy_ms += life->busy_ms;
    place->items_done += life->items_done;
    place->life = NULL;
    bool has_memory = s->samples[s->device_of[life->seat]].mem_total_bytes > 0;
    place->waits_for_memory = true;
    place->memory_wait_since_ms = s->now_ms;
    life->open_handles++; /* keeps it alive while the streams close */
    resources_close(life);
    uint32_t device = s->device_of[life->seat];
    uv_handle_t last = {.data = life};
    on_poll_closed(&last);
    if (!has_memory) {
        place->waits_for_memory = false;
        session_event(s, (struct feed_event){.kind = EV_MEM_BACK, .worker = device});
    }
}

static void report_take(struct life *life, const struct guard_report *report)
{
    struct session *s = life->session;
    life->last_report = *report;
    switch ((enum guard_report_kind)report->kind) {
    case GUARD_STARTED:
        attempt_record(life, NULL);
        session_event(s, (struct feed_event){.kind = EV_STARTED, .worker = life->seat});
        if (s->request->key_field)
            session_event(s, (struct feed_event){.kind = EV_KEYED, .worker = life->seat});
        ask_for_room(life);
        return;
    case GUARD_EXEC_FAILED:
        life->exec_failed = true;
        life->exec_errno = report->value;
        life->is_gone = true; /* nothing follows this report */
        return;
    case GUARD_EXITED:
        life->has_exited = true;
        life->exit_code = report->exit_code;
        life->exit_signal = report->exit_signal;
        return;
    case GUARD_GONE:
        if (report->value > 0)
            log_add(s->log, LOG_INFO, "worker", "%s left %d process%s behind; ended",
                    life_label(life), report->value, report->value == 1 ? "" : "es");
        life->is_gone = true;
        return;
    case GUARD_STUCK:
        log_add(s->log, LOG_ERROR, "worker", "%s: process %d does not die (uninterruptible sleep?)",
                life_label(life), report->value);
        life->is_gone = true;
        return;
    }
}

static void report_read(struct life *life)
{
    struct guard_report report;
    struct err err = {0};
    int rc;
    while (!life->is_gone && (rc = guard_read(&life->guard, &report, &err)) != 0) {
        if (rc <
            0) { /* the guard itself was killed: the worker went with it, through no fault of its own */
            life->was_ended = life->was_ended || !life->has_exited;
            life->is_gone = true;
            break;
        }
        report_take(life, &report);
    }
    if (life->is_gone)
        life_over(life);
}

void life_child_ended(struct session *s, pid_t pid, int wait_status)
{
    (void)wait_status;
    for (uint32_t p = 0; p < s->n_places; p++) {
        struct life *life = s->places[p].life;
        if (life && life->guard.pid == pid) {
            report_read(life);
            return;
        }
    }
}

/* ---- silence ---- */

static bool has_read_its_input(const struct life *life)
{
    int unread = 0;
    if (life->to_worker.len > 0 || life->fds[STREAM_IN] < 0)
        return false;
    return ioctl(life->fds[STREAM_IN], FIONREAD, &unread) == 0 && unread == 0;
}

static void overdue_check(struct life *life)
{
    struct session *s = life->session;
    if (s->now_ms < life->next_hungry_ms || life->was_ended)
        return;
    bool lost_input =
        !life->input_must_close && life->fds[life->is_channel ? STREAM_CHANNEL : STREAM_IN] < 0;
    bool has_nothing = !life_is_busy(life) || s->is_complete;
    if (lost_input)
        session_event(s, (struct feed_event){.kind = EV_STRAY, .worker = life->seat});
    else if (life->input_must_close && has_nothing)
        life_terminate(life, CAUSE_NONE);
}

void life_hungry_check(struct life *life)
{
    struct session *s = life->session;
    bool lost_input = life->fds[life->is_channel ? STREAM_CHANNEL : STREAM_IN] < 0;
    if (life->input_must_close || lost_input) {
        if (life->guard.worker_pid > 0 && life->next_hungry_ms > 0)
            overdue_check(life);
        return;
    }
    if (life->is_channel || !life_is_busy(life) || s->now_ms < life->next_hungry_ms)
        return;
    uint64_t patience_ms = (uint64_t)HUNGRY_FIRST_MS;
    if (s->now_ms - life->last_output_ms < patience_ms || !has_read_its_input(life)) {
        life->hungry_count = 0;
        return;
    }
    int reading = proc_reads_stdin(life->guard.worker_pid);
    if (reading == 0)
        return;
    /* Where the kernel does not say what it waits for, ask less and less often. */
    life->next_hungry_ms =
        s->now_ms + (reading > 0 ? 0 : patience_ms << MIN(life->hungry_count, (uint64_t)8));
    life->hungry_count++;
    enum feed_event_kind kind = life->bytes_in_flight > SILENT_BYTES_MAX ? EV_FULL : EV_HUNGRY;
    session_event(s, (struct feed_event){.kind = kind, .worker = life->seat, .flag = reading > 0});
}
