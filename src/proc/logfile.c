/* SPDX-License-Identifier: Apache-2.0
 *
 * Each call writes straight to the file, without a buffer, so that `tail -f` shows every byte and a
 * crash of muster loses none. Rotation splits at the end of a line where there is one. The tail is
 * kept in memory, because the text that explains a worker's death must not depend on a disk that
 * may be full.
 */
#include "proc/logfile.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log_loss.h"
#include "base/ours.h"
#include "base/xalloc.h"

enum {
    TAIL_BYTES = 1 << 16
};

static const uint64_t CAP_DEFAULT_BYTES = 64ull << 20;

struct logfile {
    char *path;
    int fd;              /* -1 while it could not be opened again after a rotation */
    uint64_t size_bytes; /* of the current file */
    uint64_t cap_bytes;
    unsigned keep;
    int first_errno;
    uint64_t passed_bytes; /* all bytes added so far, without headlines */
    bool in_line;          /* the file's last byte is not a newline */
    /* A ring, allocated for the first byte; the next byte goes to passed_bytes % TAIL_BYTES. */
    char *tail;
};

static void remember(struct logfile *file, int sys)
{
    if (file->first_errno == 0)
        file->first_errno = sys;
}

static char *rotated_path_new(const struct logfile *file, unsigned number)
{
    return number == 0 ? xstrdup(file->path) : xasprintf("%s.%u", file->path, number);
}

static int open_current(struct logfile *file, struct err *err)
{
    struct stat st;
    int rc = ours_open(file->path, O_RDWR | O_CREAT | O_APPEND, &file->fd, err);
    if (rc)
        return rc;
    char last = '\n';
    file->size_bytes = fstat(file->fd, &st) == 0 ? (uint64_t)st.st_size : 0;
    if (file->size_bytes > 0 && pread(file->fd, &last, 1, (off_t)file->size_bytes - 1) != 1)
        last = '\n';
    file->in_line = last != '\n';
    return 0;
}

/*
 * Renames name.log.1 to name.log.2 and so on, and deletes the last. Returns true if one was
 * deleted.
 */
static bool rotate(struct logfile *file)
{
    cleanup_free char *last = rotated_path_new(file, file->keep);
    bool loses = access(last, F_OK) == 0;
    fd_close(&file->fd);
    for (unsigned number = file->keep; number > 0; number--) {
        cleanup_free char *source = rotated_path_new(file, number - 1);
        cleanup_free char *target = rotated_path_new(file, number);
        if (rename(source, target) != 0 && errno != ENOENT)
            remember(file, errno);
    }
    struct err err = {0};
    if (open_current(file, &err) != 0)
        remember(file, err.sys ? err.sys : EACCES);
    return loses;
}

static bool write_bytes(struct logfile *file, struct str bytes)
{
    while (bytes.len > 0) {
        ssize_t put = write(file->fd, bytes.at, bytes.len);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0) {
            remember(file, errno);
            return false;
        }
        file->size_bytes += (uint64_t)put;
        file->in_line = bytes.at[put - 1] != '\n';
        bytes.at += put;
        bytes.len -= (size_t)put;
    }
    return true;
}

/*
 * How many of `bytes` still belong into the current file: those up to the last line end that fits.
 */
static size_t share_of_current(const struct logfile *file, struct str bytes)
{
    uint64_t room = file->cap_bytes > file->size_bytes ? file->cap_bytes - file->size_bytes : 0;
    if (bytes.len <= room)
        return bytes.len;
    const char *end = room > 0 ? memrchr(bytes.at, '\n', (size_t)room) : NULL;
    if (end)
        return (size_t)(end - bytes.at) + 1;
    /* The file ends between two lines, or is full: the next file begins here. */
    if (file->size_bytes > 0 && (!file->in_line || room == 0))
        return 0;
    return (size_t)room;
}

/*
 * Writes the first line of a file for which the oldest one was deleted. The line does not count for
 * the cap, which may be smaller than the line.
 */
static void write_loss(struct logfile *file, bool was_in_line)
{
    char now[40];
    clock_rfc3339(now, clock_wall_ms());
    cleanup_free char *line = xasprintf("%s==> %s" LOG_LOSS "\n", was_in_line ? "\n" : "", now);
    if (write_bytes(file, str_of(line)))
        file->size_bytes = 0;
}

static void write_capped(struct logfile *file, struct str bytes)
{
    if (file->fd < 0 && open_current(file, NULL) != 0)
        return;
    while (bytes.len > 0) {
        size_t share = share_of_current(file, bytes);
        /* A full disk does not start a rotation, which would delete a log that is still there. */
        if (!write_bytes(file, (struct str){bytes.at, share}))
            return;
        bytes.at += share;
        bytes.len -= share;
        if (bytes.len == 0)
            return;
        bool was_in_line = file->in_line, loses = rotate(file);
        /* The rotation failed: the cap still holds, so the file does not get these bytes. */
        if (file->fd < 0 || file->size_bytes > 0)
            return;
        if (loses)
            write_loss(file, was_in_line);
    }
}

static void write_headline(struct logfile *file, const char *headline)
{
    char now[40];
    clock_rfc3339(now, clock_wall_ms());
    cleanup_free char *line =
        xasprintf("%s==> %s %s <==\n", file->in_line ? "\n" : "", now, headline);
    write_capped(file, str_of(line));
}

int logfile_open(struct logfile **out, const struct logfile_opts *opts, struct err *err)
{
    struct logfile *file = xcalloc(1, sizeof(*file));
    file->path = xstrdup(opts->path);
    file->fd = -1;
    file->cap_bytes = opts->cap_bytes ? opts->cap_bytes : CAP_DEFAULT_BYTES;
    file->keep = opts->keep ? opts->keep : 1;
    int rc = open_current(file, err);
    if (rc) {
        logfile_close(file);
        return rc;
    }
    if (opts->headline)
        write_headline(file, opts->headline);
    *out = file;
    return 0;
}

static void tail_add(struct logfile *file, struct str bytes)
{
    struct str kept = bytes;
    if (!file->tail)
        file->tail = xmalloc(TAIL_BYTES); /* not before: most logs never get a byte */
    if (kept.len > TAIL_BYTES)
        kept = (struct str){bytes.at + (bytes.len - TAIL_BYTES), TAIL_BYTES};
    file->passed_bytes += bytes.len;
    size_t end = file->passed_bytes % TAIL_BYTES;
    /*
     * Copied backwards from the new end: what fits below it, and the rest to the top of the ring.
     */
    size_t low = MIN(kept.len, end), high = kept.len - low;
    memcpy(file->tail + end - low, kept.at + high, low);
    memcpy(file->tail + TAIL_BYTES - high, kept.at, high);
}

void logfile_add(struct logfile *file, struct str bytes)
{
    if (bytes.len == 0)
        return;
    tail_add(file, bytes);
    write_capped(file, bytes);
}

void logfile_tail(const struct logfile *file, size_t max, struct buf *out)
{
    size_t held = (size_t)MIN(file->passed_bytes, (uint64_t)TAIL_BYTES);
    size_t len = MIN(held, max);
    if (len == 0)
        return;
    size_t end = file->passed_bytes % TAIL_BYTES;
    size_t low = MIN(len, end), high = len - low;
    size_t begin = out->len;
    /* The byte before the cut tells whether the cut is at the start of a line. */
    bool at_start = len == file->passed_bytes;
    if (!at_start && len < held)
        at_start = file->tail[(end + TAIL_BYTES - len - 1) % TAIL_BYTES] == '\n';
    buf_add(out, file->tail + TAIL_BYTES - high, high);
    buf_add(out, file->tail + end - low, low);
    char *newline = at_start ? NULL : memchr(out->at + begin, '\n', len);
    /* A single line longer than max is shown from its middle: better than nothing. */
    if (!newline || newline + 1 == out->at + out->len)
        return;
    size_t cut = (size_t)(newline + 1 - (out->at + begin));
    memmove(out->at + begin, newline + 1, len - cut + 1);
    out->len -= cut;
}

int logfile_error(const struct logfile *file)
{
    return file->first_errno;
}

uint64_t logfile_bytes(const struct logfile *file)
{
    return file->passed_bytes;
}

void logfile_close(struct logfile *file)
{
    if (!file)
        return;
    fd_close(&file->fd);
    free(file->path);
    free(file->tail);
    free(file);
}
