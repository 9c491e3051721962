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
#include "run/environment.h"
#include "run/keyed.h"
#include "run/shard.h"

enum {
    ROOM_BYTES = 256 * 1024, /* of lines, asked of the feeder at a time: a row in the ledger */
    READS_AT_ONCE = 4,
    PIPE_BYTES = 1 << 20,
    BROKEN_GRACE_MS = 2000,
};

const char *life_label(const struct life *life)
{
    return life->session->places[life->seat].seat.label;
}

/* ---- streams ---- */

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

void life_stream_close(struct life *life, enum life_stream stream)
{
    if (life->is_polled[stream]) {
        life->is_polled[stream] = false;
        uv_close((uv_handle_t *)&life->polls[stream], life_handle_closed);
    }
    if (stream == STREAM_REPORT) /* the guard's: guard_close */
        life->fds[stream] = -1;
    else
        fd_close(&life->fds[stream]);
}

static void on_ready(uv_poll_t *poll, int status, int events);

/* Of a session that is held, the answers stay where they are. */
static void poll_begin(struct life *life, enum life_stream stream)
{
    int events = life->events[stream];
    bool holds_answers = stream == STREAM_OUT || stream == STREAM_CHANNEL;
    if (life->session->is_held && holds_answers && !life->shard)
        events &= ~UV_READABLE;
    if (events)
        uv_poll_start(&life->polls[stream], events, on_ready);
    else
        uv_poll_stop(&life->polls[stream]);
}

void life_poll_again(struct life *life)
{
    for (int stream = 0; stream < STREAMS; stream++)
        if (life->is_polled[stream] && life->fds[stream] >= 0)
            poll_begin(life, (enum life_stream)stream);
}

/* Nobody would read or write there for ever: the run ends, and can go on when there is more to be had. */
static void poll_refused(const struct life *life, int sys)
{
    struct err err = {0};
    fail(&err, ERR_STOPPED, "%s: its pipes cannot be watched: %s%s", life_label(life),
         errno_text(sys), sys == ENOSPC ? " (fs.epoll.max_user_watches)" : "");
    session_abort(life->session, &err);
}

void life_poll(struct life *life, enum life_stream stream, int events)
{
    if (life->fds[stream] < 0 || life->events[stream] == events)
        return;
    if (!life->is_polled[stream]) {
        int sys = -uv_poll_init(&life->session->loop, &life->polls[stream], life->fds[stream]);
        if (sys) {
            poll_refused(life, sys);
            return;
        }
        life->polls[stream].data = life;
        life->is_polled[stream] = true;
        life->open_handles++;
    }
    life->events[stream] = events;
    poll_begin(life, stream);
}

static uint64_t room_items(const struct session *s)
{
    uint64_t known = MAX(source_known(s->source), (uint64_t)1);
    uint64_t each = MAX(source_bytes_scanned(s->source) / known, (uint64_t)1);
    return MAX(ROOM_BYTES / each, (uint64_t)1);
}

void life_ask_for_room(struct life *life)
{
    if (life->is_channel || life->input_must_close || life->room_is_asked ||
        life->fds[STREAM_IN] < 0)
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

void life_input_broken(struct life *life, enum life_stream stream)
{
    life->to_worker.len = 0;
    life->n_unwritten = 0;
    life_stream_close(life, stream);
    if (life->session->is_complete || life->was_ended)
        return;
    life->next_hungry_ms = life->session->now_ms + BROKEN_GRACE_MS;
    life_stray_note(life, "it closed its input with items in hand", STR(""));
    log_add(life->session->log, LOG_INFO, "worker", "%s closed its input early", life_label(life));
}

/* What is in to_worker, as far as it goes in. False: nobody reads it any more. */
static bool put_some(struct life *life, enum life_stream stream)
{
    size_t done = 0;
    while (done < life->to_worker.len) {
        ssize_t put =
            write(life->fds[stream], life->to_worker.at + done, life->to_worker.len - done);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0 && errno == EAGAIN)
            break;
        if (put < 0)
            return false;
        done += (size_t)put;
    }
    buf_consume(&life->to_worker, done);
    return true;
}

void life_flush(struct life *life)
{
    enum life_stream stream = life->is_channel ? STREAM_CHANNEL : STREAM_IN;
    if (life->fds[stream] < 0) {
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
    int wanted =
        (stream == STREAM_CHANNEL ? UV_READABLE : 0) | (life->to_worker.len > 0 ? UV_WRITABLE : 0);
    life_poll(life, stream, wanted);
    if (life->to_worker.len > 0 || life->n_unwritten > 0)
        return;
    if (life->input_must_close && stream == STREAM_IN)
        life_stream_close(life, STREAM_IN);
    else if (life->input_must_close)
        shutdown(life->fds[STREAM_CHANNEL], SHUT_WR);
    else if (life->room_is_due)
        life_ask_for_room(life);
}

static void words_note(struct life *life, enum life_stream stream, struct str bytes)
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
    console_add(s->console, life->seat * 2, prefix, bytes, s->now_ms);
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

static void (*const readers[STREAMS])(struct life *life, struct str bytes) = {
    [STREAM_OUT] = stdout_read,
    [STREAM_ERR] = stderr_read,
    [STREAM_CHANNEL] = channel_read,
};

/* Read what is there. False when the stream has ended. */
bool life_stream_read(struct life *life, enum life_stream stream, int reads_max)
{
    char *bytes = life->session->scratch;
    for (int i = 0; i < reads_max && life->fds[stream] >= 0; i++) {
        ssize_t got = read(life->fds[stream], bytes, SOURCE_SCAN_BYTES);
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

static bool is_shortage(int code)
{
    return code == EMFILE || code == ENFILE || code == ENOBUFS || code == ENOMEM;
}

static void accept_later(struct life *life)
{
    struct session *s = life->session;
    if (!life->accept_waits)
        log_add(s->log, LOG_WARN, "worker", "%s: its connection waits: %s; raise ulimit -n",
                life_label(life), errno_text(errno));
    life->accept_waits = true;
    life_poll(life, STREAM_CHANNEL, 0);
}

/* The connection takes the listener's place, descriptor and poll: a handle that libuv is still closing
 * could not be used again. */
static void channel_accept(struct life *life)
{
    int listener = life->fds[STREAM_CHANNEL];
    cleanup_fd int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && is_shortage(errno)) /* the listener stays readable: ask again at the next tick */
        accept_later(life);
    if (fd < 0)
        return;
    life_poll(life, STREAM_CHANNEL, 0);
    if (dup3(fd, listener, O_CLOEXEC) < 0)
        return;
    unlink(life->channel_path);
    life->channel_is_listening = false;
    life_poll(life, STREAM_CHANNEL, UV_READABLE);
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
    struct life *life = poll->data;
    enum life_stream stream = (enum life_stream)(poll - life->polls);
    session_now(life->session);
    if (stream == STREAM_REPORT) {
        life_report_read(life);
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
        !life_stream_read(life, stream, stream == STREAM_ERR ? 1 : READS_AT_ONCE)) {
        if (stream == STREAM_CHANNEL && life->is_channel && !life->has_exited)
            life_input_broken(life, stream);
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

/* A shard gets neither items nor messages: its stdin is /dev/null. */
static int streams_open(struct life *life, struct child_ends *theirs, struct err *err)
{
    int rc = life->shard ? 0 : pipe_open(&life->fds[STREAM_IN], &theirs->in, true, err);
    if (rc == 0)
        rc = pipe_open(&life->fds[STREAM_OUT], &theirs->out, false, err);
    if (rc == 0)
        rc = pipe_open(&life->fds[STREAM_ERR], &theirs->err, false, err);
    if (rc == 0 && !life->shard)
        rc = life->session->request->channel_path ? channel_path_open(life, err)
                                                  : channel_pair_open(life, theirs, err);
    return rc;
}

static int logs_open(struct life *life, struct err *err)
{
    struct session *s = life->session;
    char headline[160];
    snprintf(headline, sizeof(headline), "attempt %u of %s", life->number, life_label(life));
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
    int held[LOCK_FDS_MAX];
    const struct seat *seat = &s->places[life->seat].seat;
    worker_environment(life, batch, &env);
    struct spawn_opts opts = {
        .guard_path = s->guard_path,
        .argv = life->shard ? shard_command(life) : s->request->command,
        .envp = (const char *const *)env.at,
        .cpus = &seat->cpus,
        .grace_ms = s->request->grace_ms,
        .stdin_fd = theirs->in,
        .stdout_fd = theirs->out,
        .stderr_fd = theirs->err,
        .channel_fd = theirs->channel,
        .held_fds = held,
        .n_held_fds = device_locks_fds(&s->locks, seat->devices, seat->n_devices, held)};
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

struct life *life_new(struct session *s, uint32_t worker)
{
    struct life *life = xcalloc(1, sizeof(*life));
    *life = (struct life){.session = s, .seat = worker, .guard = GUARD_INIT};
    life->fds[STREAM_IN] = life->fds[STREAM_OUT] = life->fds[STREAM_ERR] = -1;
    life->fds[STREAM_CHANNEL] = life->fds[STREAM_REPORT] = -1;
    life->started_ms = life->last_output_ms = session_now(s);
    life->started_wall_ms = clock_wall_ms();
    s->places[worker].life = life;
    return life;
}

void life_start_failed(struct life *life, int rc, const struct err *why)
{
    struct session *s = life->session;
    log_add(s->log, LOG_ERROR, "worker", "%s could not be started: %s", life_label(life),
            why->text);
    snprintf(life->start_error, sizeof(life->start_error), "%.*s",
             (int)sizeof(life->start_error) - 1, why->text);
    life->exec_failed = true;
    life->exec_errno = why->sys;
    if (rc == ERR_STOPPED) /* a full disk is full for the next one too */
        session_abort(s, why);
    life_over(life);
}

void life_start(struct life *life, uint64_t batch)
{
    struct session *s = life->session;
    struct child_ends theirs = {-1, -1, -1, -1};
    struct err err = {0};
    int rc = logs_open(life, &err);
    if (rc == 0)
        rc = streams_open(life, &theirs, &err);
    if (rc == 0)
        rc = guard_start(life, &theirs, batch, &err);
    ends_close(&theirs);
    if (rc) {
        life_start_failed(life, rc, &err);
        return;
    }
    reaper_add(s->reaper, life->guard.pid);
    life->fds[STREAM_REPORT] = life->guard.report_fd;
    life_poll(life, STREAM_REPORT, UV_READABLE);
    life_poll(life, STREAM_OUT, UV_READABLE);
    life_poll(life, STREAM_ERR, UV_READABLE);
    life_poll(life, STREAM_CHANNEL, UV_READABLE);
    cleanup_buf struct buf work = BUF_INIT;
    if (life->shard)
        shard_work_add(life, &work);
    log_add(s->log, LOG_INFO, "worker", "%s: attempt %u starts under guard %d%s", life_label(life),
            life->number, life->guard.pid, buf_text(&work));
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
    session_abort(life->session, &err);
    return false;
}

void life_first_result(struct life *life)
{
    if (life->live_ms != 0)
        return;
    struct session *s = life->session;
    struct place *place = &s->places[life->seat];
    /* A filter may give its first answer at its end, and be at work since it began to read. */
    uint64_t age_ms = s->now_ms - MIN(s->now_ms, life->started_ms);
    uint64_t load_ms = place->reads_after_ms > 0 ? MIN(place->reads_after_ms, age_ms) : age_ms;
    life->live_ms = life->started_ms + load_ms;
    place->load_ms += load_ms;
    if (load_ms < age_ms && life_is_busy(life)) {
        life->busy_since_ms = life->live_ms;
        life->item_since_us = clock_now_ns() / 1000 - (age_ms - load_ms) * 1000;
    }
    if (s->first_result_ms == 0)
        s->first_result_ms = s->now_ms;
}
