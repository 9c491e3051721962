/* SPDX-License-Identifier: Apache-2.0
 *
 * The pipes and sockets of a local worker, watched by the loop.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "node/local_impl.h"

enum {
    READS_AT_ONCE = 4,
    READS_AT_END = 1 << 20,
    PIPE_BYTES = 1 << 20
};

static void on_ready(uv_poll_t *poll, int status, int events);

/* ---- watching ---- */

/* Answers are not polled for while the node is held, and no stream while it is paused. */
static void poll_begin(struct local_worker *w, unsigned stream)
{
    struct local_stream *at = &w->streams[stream];
    bool has_answers = w->answers && (stream == STREAM_OUT || stream == STREAM_CHANNEL);
    bool is_read = !at->is_paused && !(w->node->is_held && has_answers);
    int events = is_read ? at->events : at->events & ~UV_READABLE;
    if (events)
        uv_poll_start(&at->poll, events, on_ready);
    else
        uv_poll_stop(&at->poll);
}

/* Streams cannot be polled, so they could not be read or written any more. */
static void poll_refused(const struct local_worker *w, int sys)
{
    struct err err = {0};
    fail(&err, ERR_STOPPED, "its pipes cannot be watched: %s%s", errno_text(sys),
         sys == ENOSPC ? " (fs.epoll.max_user_watches)" : "");
    w->base.handlers->failed(w->base.context, &err);
}

static void watch(struct local_worker *w, unsigned stream, int events)
{
    struct local_stream *at = &w->streams[stream];
    if (at->fd < 0 || at->events == events)
        return;
    if (!at->is_polled) {
        int sys = -uv_poll_init(w->node->opts.loop, &at->poll, at->fd);
        if (sys) {
            poll_refused(w, sys);
            return;
        }
        at->poll.data = w;
        at->is_polled = true;
        w->n_handles++;
    }
    at->events = events;
    poll_begin(w, stream);
}

/*
 * Fast filters need fewer turns of the loop with a larger pipe. Above the user's quota this fails, and the default
 * size stays.
 */
static void pipe_enlarge(int fd)
{
    fcntl(fd, F_SETPIPE_SZ, PIPE_BYTES);
}

void local_report_watch(struct local_worker *w)
{
    watch(w, STREAM_REPORT, UV_READABLE);
    if (!w->streams[STREAM_REPORT].is_polled) /* the end of the guard itself will be noticed */
        guard_dismiss(&w->guard);
}

void local_streams_watch(struct local_worker *w)
{
    static const unsigned from_worker[] = {STREAM_OUT, STREAM_ERR, STREAM_CHANNEL};
    for (size_t i = 0; i < countof(from_worker); i++) {
        if (from_worker[i] != STREAM_CHANNEL)
            pipe_enlarge(w->streams[from_worker[i]].fd);
        watch(w, from_worker[i], w->streams[from_worker[i]].events | UV_READABLE);
    }
}

void local_streams_rewatch(struct local_worker *w)
{
    for (unsigned stream = 0; stream < LOCAL_STREAMS; stream++)
        if (w->streams[stream].is_polled && w->streams[stream].fd >= 0)
            poll_begin(w, stream);
}

void local_stream_close(struct local_worker *w, unsigned stream)
{
    struct local_stream *at = &w->streams[stream];
    if (at->is_polled) {
        at->is_polled = false;
        uv_close((uv_handle_t *)&at->poll, local_handle_closed);
    }
    if (stream == STREAM_REPORT) /* guard_close closes it */
        at->fd = -1;
    else
        fd_close(&at->fd);
}

void local_streams_close(struct local_worker *w)
{
    for (unsigned stream = 0; stream < LOCAL_STREAMS; stream++)
        local_stream_close(w, stream);
    if (w->channel_path)
        unlink(w->channel_path);
}

/* ---- opening ---- */

static int pipe_open(int *ours, int *theirs, bool we_write, struct err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return fail_errno(err, "create a pipe");
    *ours = ends[we_write];
    *theirs = ends[!we_write];
    fcntl(*ours, F_SETFL, O_NONBLOCK);
    if (we_write)
        pipe_enlarge(*ours);
    return 0;
}

static int channel_pair_open(struct local_worker *w, int *theirs, struct err *err)
{
    int ends[2], bytes = 1 << 20;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return fail_errno(err, "create a socket pair");
    setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    w->streams[STREAM_CHANNEL].fd = ends[0];
    *theirs = ends[1];
    return 0;
}

static int channel_path_open(struct local_worker *w, const char *path, struct err *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(address.sun_path))
        return fail(
            err, ERR_USAGE,
            "the path of the channel, %s, is longer than %zu bytes; choose a shorter --run-dir",
            path, sizeof(address.sun_path) - 1);
    memcpy(address.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    w->streams[STREAM_CHANNEL].fd = fd;
    w->channel_path = xstrdup(path);
    w->is_listening = true;
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(fd, 1) != 0)
        return fail_errno(err, "listen on %s", path);
    return 0;
}

int local_streams_open(struct local_worker *w, const struct spawn_request *request,
                       struct worker_ends *theirs, struct err *err)
{
    int rc = request->has_input ? pipe_open(&w->streams[STREAM_IN].fd, &theirs->in, true, err) : 0;
    if (rc == 0)
        rc = pipe_open(&w->streams[STREAM_OUT].fd, &theirs->out, false, err);
    if (rc == 0)
        rc = pipe_open(&w->streams[STREAM_ERR].fd, &theirs->err, false, err);
    if (rc == 0 && request->channel == CHANNEL_DESCRIPTOR)
        rc = channel_pair_open(w, &theirs->channel, err);
    else if (rc == 0 && request->channel == CHANNEL_PATH)
        rc = channel_path_open(w, request->channel_path, err);
    return rc;
}

/* ---- writing ---- */

ssize_t local_write(struct node_worker *worker, enum worker_stream stream, struct str bytes)
{
    struct local_worker *w = local_of(worker);
    size_t done = 0;
    while (done < bytes.len) {
        ssize_t put = write(w->streams[stream].fd, bytes.at + done, bytes.len - done);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0 && errno == EAGAIN)
            break;
        if (put < 0)
            return -1;
        done += (size_t)put;
    }
    if (stream == STREAM_IN)
        w->input.n_bytes += done;
    int reads = stream == STREAM_CHANNEL ? UV_READABLE : 0;
    watch(w, stream, reads | (done < bytes.len ? UV_WRITABLE : 0));
    return (ssize_t)done;
}

void local_finish(struct node_worker *worker, enum worker_stream stream)
{
    struct local_worker *w = local_of(worker);
    if (stream == STREAM_CHANNEL && w->streams[stream].fd >= 0)
        shutdown(w->streams[stream].fd, SHUT_WR);
    else
        local_stream_close(w, stream);
}

void local_drop(struct node_worker *worker, enum worker_stream stream)
{
    local_stream_close(local_of(worker), stream);
}

bool local_is_open(const struct node_worker *worker, enum worker_stream stream)
{
    return ((const struct local_worker *)worker)->streams[stream].fd >= 0;
}

/* ---- reading ---- */

void local_pause(struct node_worker *worker, enum worker_stream stream, bool is_paused)
{
    struct local_worker *w = local_of(worker);
    struct local_stream *at = &w->streams[stream];
    at->is_paused = is_paused;
    if (at->is_polled && at->fd >= 0)
        poll_begin(w, stream);
}

/* Reads what is there. False if the stream has ended. */
static bool stream_read(struct local_worker *w, enum worker_stream stream, int reads_max)
{
    const struct local_opts *opts = &w->node->opts;
    for (int i = 0; i < reads_max && w->streams[stream].fd >= 0; i++) {
        ssize_t got = read(w->streams[stream].fd, opts->scratch, opts->scratch_bytes);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            return true;
        if (got <= 0)
            return false;
        if (stream != STREAM_ERR)
            w->input.last_output_ms = clock_now_ms();
        w->base.handlers->output(w->base.context, stream, (struct str){opts->scratch, (size_t)got});
    }
    return true;
}

void local_streams_drain(struct local_worker *w)
{
    static const enum worker_stream remaining[] = {STREAM_CHANNEL, STREAM_OUT, STREAM_ERR};
    for (size_t i = 0; i < countof(remaining); i++)
        if (!(remaining[i] == STREAM_CHANNEL && w->is_listening))
            stream_read(w, remaining[i], READS_AT_END);
}

static void closed_tell(struct local_worker *w, enum worker_stream stream)
{
    local_stream_close(w, stream);
    if (w->base.handlers->closed)
        w->base.handlers->closed(w->base.context, stream);
}

static bool is_shortage(int code)
{
    return code == EMFILE || code == ENFILE || code == ENOBUFS || code == ENOMEM;
}

static void accept_later(struct local_worker *w)
{
    cleanup_free char *text =
        xasprintf("its connection waits: %s; raise ulimit -n", errno_text(errno));
    bool is_news = !w->accept_waits;
    w->accept_waits = true;
    watch(w, STREAM_CHANNEL, 0);
    if (is_news)
        w->base.handlers->warned(w->base.context, text);
}

/* The connection takes over the listener's descriptor and poll handle, because a handle that libuv is still
 * closing could not be used again. */
static void channel_accept(struct local_worker *w)
{
    int listener = w->streams[STREAM_CHANNEL].fd;
    cleanup_fd int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && is_shortage(errno)) /* the listener stays readable: ask again at the next tick */
        accept_later(w);
    if (fd < 0)
        return;
    watch(w, STREAM_CHANNEL, 0);
    if (dup3(fd, listener, O_CLOEXEC) < 0) {
        /* This connection is lost; the worker may make another. */
        accept_later(w);
        return;
    }
    unlink(w->channel_path);
    w->is_listening = false;
    watch(w, STREAM_CHANNEL, UV_READABLE);
}

/* A worker that closes its input and lives on is noticed only by a pipe without a reader. */
static bool has_reader(int fd)
{
    struct pollfd end = {.fd = fd};
    return poll(&end, 1, 0) <= 0 || !(end.revents & POLLERR);
}

void local_streams_tick(struct local_worker *w)
{
    if (w->accept_waits && w->is_listening)
        watch(w, STREAM_CHANNEL, UV_READABLE);
    if (w->streams[STREAM_IN].fd >= 0 && !has_reader(w->streams[STREAM_IN].fd))
        closed_tell(w, STREAM_IN);
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
    struct local_worker *w = poll->data;
    unsigned stream = 0;
    while (&w->streams[stream].poll != poll)
        stream++;
    if (stream == STREAM_REPORT) {
        local_report_read(w);
        return;
    }
    if (stream == STREAM_CHANNEL && w->is_listening) {
        channel_accept(w);
        return;
    }
    if (events & UV_WRITABLE && w->base.handlers->writable)
        w->base.handlers->writable(w->base.context, stream);
    if (w->streams[stream].fd < 0 || !w->streams[stream].is_polled)
        return;
    if ((events & UV_READABLE || status < 0) &&
        !stream_read(w, stream, stream == STREAM_ERR ? 1 : READS_AT_ONCE)) {
        if (stream == STREAM_CHANNEL && !w->exit.has_exited)
            closed_tell(w, stream);
        else
            local_stream_close(w, stream);
    }
}
