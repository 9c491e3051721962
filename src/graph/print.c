/* SPDX-License-Identifier: Apache-2.0
 *
 * The output of a command line's jobs is printed from their logs, job by job, when they have ended. A reader that
 * stops, such as a pager or a terminal after ^S, holds up nothing else: unread output stays in the logs.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "graph/graph_impl.h"

enum {
    PIECE_BYTES = PIPE_BUF, /* what a ready pipe takes without blocking */
    PIECES_AT_ONCE = 256
};

struct print {
    struct printed *at;
    size_t first, len, cap; /* those before `first` were printed */
    int log_fd;             /* of the log that is being printed; -1: not open */
    /*
     * Tells when the reader has room. The descriptor that is written is watched by an epoll of its own: libuv would
     * make it non-blocking, for all processes that share it.
     */
    int epoll_fd, watched_fd;
    uv_poll_t poll;
};

static void go(struct graph *graph);

static void on_room(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events;
    go(poll->data);
}

static void unwatch(struct print *print)
{
    if (print->watched_fd >= 0)
        (void)epoll_ctl(print->epoll_fd, EPOLL_CTL_DEL, print->watched_fd, NULL);
    print->watched_fd = -1;
}

/* False: it cannot be watched. A regular file cannot, and never blocks. */
static bool watch(struct print *print, int fd)
{
    struct epoll_event event = {.events = EPOLLOUT};
    if (print->watched_fd == fd)
        return true;
    unwatch(print);
    if (print->epoll_fd < 0 || epoll_ctl(print->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
        return false;
    print->watched_fd = fd;
    return true;
}

static struct print *print_of(struct graph *graph)
{
    if (graph->print)
        return graph->print;
    struct print *print = graph->print = xcalloc(1, sizeof(*print));
    *print =
        (struct print){.log_fd = -1, .watched_fd = -1, .epoll_fd = epoll_create1(EPOLL_CLOEXEC)};
    if (print->epoll_fd >= 0 &&
        uv_poll_init(shell_uv_loop(graph->shell), &print->poll, print->epoll_fd) != 0)
        fd_close(&print->epoll_fd);
    print->poll.data = graph;
    if (print->epoll_fd >= 0)
        uv_poll_start(&print->poll, UV_READABLE, on_room);
    return print;
}

static bool has_room(int fd)
{
    struct pollfd end = {.fd = fd, .events = POLLOUT};
    return poll(&end, 1, 0) != 0;
}

/* What jobs printed is their result: the run ends if it cannot be printed. */
static void abort_run(struct graph *graph, const struct err *err)
{
    if (shell_end(graph->shell)->err.code == 0)
        shell_abort(graph->shell, err);
}

/* The reader or the terminal has gone: that is no error, since the log has the output. */
static bool is_unread(int fd, int sys)
{
    struct stat st;
    return sys == EPIPE || (sys == EIO && fstat(fd, &st) == 0 && !S_ISREG(st.st_mode));
}

/* Writes a piece of the log at `path`. False: the reader has gone, or the piece could not be read or written. */
static bool piece_write(struct graph *graph, const char *path, uint64_t *from, uint64_t to, int fd)
{
    struct print *print = graph->print;
    char piece[PIECE_BYTES];
    struct err err = {0};
    if (print->log_fd < 0)
        print->log_fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = print->log_fd < 0
                      ? -1
                      : pread(print->log_fd, piece, MIN(sizeof(piece), to - *from), (off_t)*from);
    if (got < 0)
        fail_errno(&err, "read %s", path);
    else if (got == 0)
        fail(&err, ERR_DATA, "%s has become shorter", path);
    else if (write_all(fd, piece, (size_t)got, &err) != 0)
        wrap(&err, err.code, "std%s, which was to have %s", fd == STDOUT_FILENO ? "out" : "err",
             path);
    *from += (uint64_t)MAX(got, (ssize_t)0);
    if (err.code && !is_unread(fd, err.sys))
        abort_run(graph, &err);
    return err.code == 0;
}

/* False: the rest has to wait for the reader, or for other events of the loop. */
static bool stream_print(struct graph *graph, struct printed *printed, int stream, int *n_pieces)
{
    static const char *const names[] = {"stdout", "stderr"};
    static const int fds[] = {STDOUT_FILENO, STDERR_FILENO};
    struct print *print = graph->print;
    cleanup_free char *path = job_log_path_new(graph, printed->job, names[stream]);
    bool goes_on = printed->has[stream];
    while (goes_on && printed->from[stream] < printed->to[stream]) {
        if ((*n_pieces)++ >= PIECES_AT_ONCE || !has_room(fds[stream]))
            if (watch(print, fds[stream]))
                return false;
        goes_on =
            piece_write(graph, path, &printed->from[stream], printed->to[stream], fds[stream]);
    }
    printed->has[stream] = false;
    fd_close(&print->log_fd);
    return true;
}

static void go(struct graph *graph)
{
    struct print *print = graph->print;
    int n_pieces = 0;
    for (; print->first < print->len; print->first++)
        for (int stream = 0; stream < 2; stream++)
            if (!stream_print(graph, &print->at[print->first], stream, &n_pieces))
                return;
    unwatch(print);
    print->first = print->len = 0;
}

void print_add(struct graph *graph, struct printed printed)
{
    static const char *const names[] = {"stdout", "stderr"};
    struct print *print = print_of(graph);
    for (int stream = 0; stream < 2; stream++) {
        struct stat st = {0};
        struct err err = {0};
        cleanup_free char *path =
            printed.has[stream] ? job_log_path_new(graph, printed.job, names[stream]) : NULL;
        if (path && stat(path, &st) != 0) {
            fail_errno(&err, "read %s", path);
            abort_run(graph, &err);
        }
        printed.to[stream] = (uint64_t)st.st_size; /* a later attempt adds to it */
    }
    if (print->len == print->cap) {
        print->cap = MAX(2 * print->cap, (size_t)64);
        print->at = xrealloc(print->at, print->cap * sizeof(*print->at));
    }
    print->at[print->len++] = printed;
    if (print->watched_fd < 0)
        go(graph);
}

/* After a signal, the reader is not waited for. */
bool print_is_due(const struct graph *graph)
{
    return graph->print && graph->print->first < graph->print->len &&
           !shell_is_to_end(graph->shell);
}

void print_free(struct graph *graph)
{
    if (!graph->print)
        return;
    fd_close(&graph->print->log_fd);
    fd_close(&graph->print->epoll_fd);
    free(graph->print->at);
    free(steal_ptr(&graph->print));
}
