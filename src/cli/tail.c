/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tail.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/console_text.h"
#include "base/log_loss.h"
#include "base/ours.h"
#include "base/talk.h"
#include "base/xalloc.h"

enum {
    BLOCK = 65536,
    BLOCKS_MAX = 16,
    ROTATED_MAX = 9,
    LINE_MAX_BYTES = 1 << 20
};

void tail_init(struct tail *tail, const char *path, const char *prefix)
{
    *tail =
        (struct tail){.path = xstrdup(path), .prefix = prefix ? xstrdup(prefix) : NULL, .fd = -1};
}

void tail_release(struct tail *tail)
{
    fd_close(&tail->fd);
    free(tail->path);
    free(tail->prefix);
    buf_release(&tail->partial);
    *tail = (struct tail){.fd = -1};
}

/* Opens a log file. Anything other than a regular file is reported once, and not read. */
static void tail_open(struct tail *tail, const char *path)
{
    struct err err = {0};
    if (plain_file_open(path, &tail->fd, &err) == ERR_DATA && !tail->is_refused) {
        tail->is_refused = true;
        talk("%s", err.text);
    }
}

static struct str last_state(struct str line)
{
    while (line.len && line.at[line.len - 1] == '\r')
        line.len--;
    const char *bar = line.len ? memrchr(line.at, '\r', line.len) : NULL;
    return bar ? (struct str){bar + 1, (size_t)(line.at + line.len - bar - 1)} : line;
}

static void line_add(const struct tail *tail, struct str line, struct buf *out)
{
    if (tail->is_hidden && tail->is_hidden(tail->context, line))
        return;
    buf_add_text(out, tail->prefix);
    if (tail->is_shown)
        console_text_add(out, last_state(line), true);
    else
        buf_add_str(out, last_state(line));
    buf_add_char(out, '\n');
}

static void lines_add(struct tail *tail, struct buf *out)
{
    size_t begin = 0;
    for (const char *end;
         (end = memchr(tail->partial.at + begin, '\n', tail->partial.len - begin));) {
        size_t len = (size_t)(end - tail->partial.at) - begin;
        line_add(tail, (struct str){tail->partial.at + begin, len}, out);
        begin += len + 1;
    }
    buf_consume(&tail->partial, begin);
    if (tail->partial.len > LINE_MAX_BYTES)
        tail_finish(tail, out);
}

void tail_finish(struct tail *tail, struct buf *out)
{
    if (tail->partial.len)
        line_add(tail, buf_str(&tail->partial), out);
    buf_reset(&tail->partial);
}

/* Skips a hole in the file: it was never written, and may have terabytes. */
static void hole_skip(const struct tail *tail)
{
    off_t at = lseek(tail->fd, 0, SEEK_CUR), data = at < 0 ? -1 : lseek(tail->fd, at, SEEK_DATA);
    if (data < 0 && errno == ENXIO)
        data = lseek(tail->fd, 0, SEEK_END);
    if (data > at)
        talk("%s: skipped a hole of %ld bytes in the file", tail->path, (long)(data - at));
}

/* Returns true if bytes were read, so that there may be more. */
static bool block_read(struct tail *tail, struct buf *out)
{
    struct buf *into = tail->prefix ? &tail->partial : out;
    hole_skip(tail);
    buf_reserve(into, BLOCK);
    ssize_t got = read(tail->fd, into->at + into->len, BLOCK);
    if (got <= 0)
        return got < 0 && errno == EINTR;
    buf_extend(into, (size_t)got);
    if (tail->prefix)
        lines_add(tail, out);
    return true;
}

/*
 * For the end of a file that was renamed: continues with the new file of this name. The writer may
 * have added to the old one between our read and the renaming, so the old one is read once more.
 */
static bool reopen_rotated(struct tail *tail, struct buf *out)
{
    struct stat mine, current;
    if (stat(tail->path, &current) != 0 || fstat(tail->fd, &mine) != 0 ||
        (mine.st_ino == current.st_ino && mine.st_dev == current.st_dev))
        return false;
    while (block_read(tail, out))
        continue;
    fd_close(&tail->fd);
    return true;
}

bool tail_read(struct tail *tail, struct buf *out)
{
    for (int i = 0; i < BLOCKS_MAX; i++) {
        if (tail->fd < 0)
            tail_open(tail, tail->path);
        if (tail->fd < 0)
            return false;
        if (!block_read(tail, out) && !reopen_rotated(tail, out))
            return false;
    }
    return true;
}

/*
 * True if the file begins with the line which says that an older file was deleted; an empty line
 * may precede it.
 */
static bool begins_with_loss(struct tail *tail, const char *path)
{
    char begin[256] = "";
    tail_open(tail, path);
    ssize_t got = tail->fd >= 0 ? pread(tail->fd, begin, sizeof(begin) - 1, 0) : 0;
    fd_close(&tail->fd);
    char *line = begin + (got > 0 && begin[0] == '\n');
    line[strcspn(line, "\n")] = '\0';
    return str_starts_with(str_of(line), STR("==> ")) && strstr(line, LOG_LOSS);
}

/*
 * Adds the line about a deleted file. In the current file it is far below the first line that is
 * shown.
 */
static void loss_add(struct tail *tail, struct buf *out)
{
    if (tail->prefix && begins_with_loss(tail, tail->path))
        line_add(tail, STR("==>" LOG_LOSS), out);
}

void tail_add_rotated(struct tail *tail, struct buf *out)
{
    loss_add(tail, out);
    for (int i = ROTATED_MAX; i > 0; i--) {
        cleanup_free char *path = xasprintf("%s.%d", tail->path, i);
        tail_open(tail, path);
        while (tail->fd >= 0 && block_read(tail, out))
            continue;
        fd_close(&tail->fd);
    }
}
