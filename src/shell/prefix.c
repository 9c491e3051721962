/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/prefix.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

enum {
    LINE_MAX_BYTES = 1 << 20,
    ALIVE_EVERY_MS = 200
};

/* Takes the first `len` bytes of the line, which end with a newline. */
static void lines_take(struct prefix *prefix, size_t len, struct buf *out)
{
    struct str rest = {prefix->line.at, len - 1}, line;
    if (!prefix->before)
        buf_add(out, prefix->line.at, len);
    while (prefix->before && str_next(&rest, '\n', &line)) {
        buf_add_text(out, prefix->before);
        buf_add_str(out, line);
        buf_add_char(out, '\n');
    }
    buf_consume(&prefix->line, len);
}

/*
 * Opens the terminal of `fd` anew, without blocking: a terminal that is ready for some bytes blocks on more, and
 * other processes share the flags of `fd`. -1: it is no terminal, or may not be opened.
 */
static int terminal_open(int fd)
{
    char path[32];
    if (!isatty(fd))
        return -1;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

/* Writes a piece to a descriptor that is ready. Returns its length, which may be 0; negative: the reader has gone. */
static ssize_t piece_put(int fd, struct str text, struct err *err)
{
    /* A pipe that is ready takes as much as this. */
    ssize_t len = write(fd, text.at, MIN(text.len, (size_t)PIPE_BUF));
    if (len < 0 && (errno == EINTR || errno == EAGAIN))
        return 0;
    return len < 0 ? fail_errno(err, "write") : len;
}

static struct str behind(struct str text, ssize_t len)
{
    return (struct str){text.at + len, text.len - (size_t)len};
}

/* Writes what can be written without waiting, and leaves the rest in *text. */
static int put_some(int fd, struct str *text, struct err *err)
{
    struct pollfd end = {.fd = fd, .events = POLLOUT};
    ssize_t len = 1;
    while (len > 0 && text->len > 0 && poll(&end, 1, 0) > 0) {
        len = piece_put(fd, *text, err);
        *text = behind(*text, MAX(len, (ssize_t)0));
    }
    return (int)MIN(len, (ssize_t)0);
}

/* Writes the rest, and waits for the reader, which may have stopped for hours, as a pager does. */
static int put_rest(struct shell *shell, int fd, struct str text, struct err *err)
{
    struct pollfd end = {.fd = fd, .events = POLLOUT};
    uint64_t said_ms = 0;
    while (text.len > 0) {
        uint64_t now_ms = clock_now_ms();
        if (now_ms - said_ms >= ALIVE_EVERY_MS) {
            shell_say_alive(shell);
            said_ms = now_ms;
        }
        if (poll(&end, 1, ALIVE_EVERY_MS) <= 0)
            continue;
        ssize_t len = piece_put(fd, text, err);
        if (len < 0)
            return (int)len;
        if (len == 0) /* a terminal with room for one byte does not take a newline */
            (void)poll(NULL, 0, ALIVE_EVERY_MS / 10);
        text = behind(text, len);
    }
    return 0;
}

static int put(struct shell *shell, int fd, struct str text, struct err *err)
{
    struct sigaction before[END_SIGNALS];
    cleanup_fd int terminal = text.len > 0 ? terminal_open(fd) : -1;
    fd = terminal >= 0 ? terminal : fd;
    int rc = put_some(fd, &text, err);
    if (rc || text.len == 0)
        return rc;
    shell_signals_end(shell, before);
    rc = put_rest(shell, fd, text, err);
    shell_signals_restore(shell, before);
    return rc;
}

void prefix_print(struct shell *shell, struct prefix *prefix, struct str bytes, bool is_end)
{
    cleanup_buf struct buf out = BUF_INIT;
    struct err err = {0};
    struct buf *line = &prefix->line;
    const char *last = bytes.len > 0 ? memrchr(bytes.at, '\n', bytes.len) : NULL;
    size_t whole = last ? line->len + (size_t)(last + 1 - bytes.at) : 0;
    buf_add_str(line, bytes);
    if (whole > 0)
        lines_take(prefix, whole, &out);
    if (line->len > (is_end ? 0 : LINE_MAX_BYTES)) {
        if (prefix->before)
            buf_add_char(line, '\n');
        lines_take(prefix, line->len, &out);
    }
    if (!shell_is_mute(shell) && put(shell, prefix->fd, buf_str(&out), &err) != 0)
        shell_output_lost(shell, &err);
}

void prefix_rest_print(struct shell *shell, struct prefix *prefix)
{
    if (!prefix->before && prefix->line.len > 0)
        prefix_print(shell, prefix, STR(""), true);
}

void prefix_release(struct prefix *prefix)
{
    buf_release(&prefix->line);
}

void prefix_end(struct shell *shell, struct prefix *prefix)
{
    prefix_print(shell, prefix, STR(""), true);
    prefix_release(prefix);
}
