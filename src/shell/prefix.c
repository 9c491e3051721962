/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/prefix.h"

#include <limits.h>
#include <poll.h>

#include "base/clock.h"
#include "base/fs.h"

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

/* Writes what can be written without waiting, and returns its length; negative: the reader is gone. */
static ssize_t put_some(int fd, struct str text, struct err *err)
{
    struct pollfd end = {.fd = fd, .events = POLLOUT};
    size_t done = 0;
    while (done < text.len && poll(&end, 1, 0) > 0) {
        size_t piece =
            MIN(text.len - done, (size_t)PIPE_BUF); /* a pipe that is ready takes as much as this */
        int rc = write_all(fd, text.at + done, piece, err);
        if (rc)
            return rc;
        done += piece;
    }
    return (ssize_t)done;
}

/* The reader may have stopped for hours, as a pager does. */
static int put_rest(struct shell *shell, int fd, struct str text, struct err *err)
{
    struct pollfd end = {.fd = fd, .events = POLLOUT};
    uint64_t said_ms = 0;
    int rc = 0;
    while (rc == 0 && text.len > 0) {
        uint64_t now_ms = clock_now_ms();
        if (now_ms - said_ms >= ALIVE_EVERY_MS) {
            shell_say_alive(shell);
            said_ms = now_ms;
        }
        if (poll(&end, 1, ALIVE_EVERY_MS) <= 0)
            continue;
        size_t piece = MIN(text.len, (size_t)PIPE_BUF);
        rc = write_all(fd, text.at, piece, err);
        text = (struct str){text.at + piece, text.len - piece};
    }
    return rc;
}

static int put(struct shell *shell, int fd, struct str text, struct err *err)
{
    struct sigaction before[END_SIGNALS];
    ssize_t done = put_some(fd, text, err);
    if (done < 0 || (size_t)done == text.len)
        return (int)MIN(done, (ssize_t)0);
    shell_signals_end(shell, before);
    int rc = put_rest(shell, fd, (struct str){text.at + done, text.len - (size_t)done}, err);
    shell_signals_restore(shell, before);
    return rc;
}

int prefix_print(struct shell *shell, struct prefix *prefix, struct str bytes, bool is_end,
                 struct err *err)
{
    cleanup_buf struct buf out = BUF_INIT;
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
    return put(shell, prefix->fd, buf_str(&out), err);
}

int prefix_rest_print(struct shell *shell, struct prefix *prefix, struct err *err)
{
    bool is_raw = !prefix->before && prefix->line.len > 0;
    return is_raw ? prefix_print(shell, prefix, STR(""), true, err) : 0;
}

void prefix_release(struct prefix *prefix)
{
    buf_release(&prefix->line);
}
