/* SPDX-License-Identifier: Apache-2.0 */
#include "data/part_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/ours.h"
#include "base/xalloc.h"

static void part_reader_close(struct part_reader *part)
{
    if (!part->path)
        return;
    fd_close(&part->fd);
    free(steal_ptr(&part->path));
    buf_release(&part->window);
}

void part_cache_release(struct part_cache *cache)
{
    for (size_t i = 0; i < N_PARTS_OPEN; i++)
        part_reader_close(&cache->open[i]);
}

int part_cache_get(struct part_cache *cache, const char *path, struct part_reader **out,
                   struct err *err)
{
    struct part_reader *oldest = &cache->open[0];
    for (struct part_reader *part = cache->open; part < cache->open + N_PARTS_OPEN; part++) {
        if (part->path && strcmp(part->path, path) == 0) {
            part->used_at = ++cache->n_uses;
            *out = part;
            return 0;
        }
        if (part->used_at < oldest->used_at)
            oldest = part;
    }
    part_reader_close(oldest);
    int fd = -1, rc = plain_file_open(path, &fd, err);
    if (rc) {
        struct err ignored = {0}, *why = err ? err : &ignored;
        why->code = why->sys && why->sys != ENOENT ? ERR_SYS : ERR_DATA;
        return why->code;
    }
    *oldest = (struct part_reader){.path = xstrdup(path), .fd = fd, .used_at = ++cache->n_uses};
    *out = oldest;
    return 0;
}

static int window_read(struct part_reader *part, uint64_t end, size_t len, struct err *err)
{
    struct buf *window = &part->window;
    while (window->len < len) {
        ssize_t got = pread(part->fd, window->at + window->len, len - window->len,
                            (off_t)(part->base + window->len));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_errno(err, "read %s", part->path);
        if (got == 0 && part->base + window->len < end)
            return fail(err, ERR_DATA, "%s holds %lu bytes, its rows say at least %lu", part->path,
                        part->base + window->len, end);
        if (got == 0)
            return 0;
        buf_extend(window, (size_t)got);
    }
    return 0;
}

enum {
    HOLE_BYTES_MAX =
        64 << 20 /* a smaller hole may be zeros of a result that the file system did not store */
};

/*
 * A part whose results were all written has no hole. A file that was only extended (truncate) could
 * take hours to read. Each check starts where the last one ended, so all checks together pass over
 * the part once.
 */
static int written_check(struct part_reader *part, uint64_t end, struct err *err)
{
    while (part->hole < end) {
        off_t hole = lseek(part->fd, (off_t)part->hole, SEEK_HOLE);
        off_t data = hole < 0 ? -1 : lseek(part->fd, hole, SEEK_DATA);
        if (hole < 0) {
            part->hole = UINT64_MAX; /* no holes are reported; a read says what is missing */
        } else if ((uint64_t)hole >= end) {
            part->hole = (uint64_t)hole;
        } else {
            part->hole = data < 0 ? end : (uint64_t)data;
            if (MIN(part->hole, end) - (uint64_t)hole > HOLE_BYTES_MAX)
                return fail(err, ERR_DATA,
                            "%s has a hole at byte %lu, where run.db says that there are results",
                            part->path, (uint64_t)hole);
        }
    }
    return 0;
}

int part_reader_view(struct part_reader *part, uint64_t offset, uint64_t end, size_t want,
                     struct str *out, struct err *err)
{
    struct buf *window = &part->window;
    int written = part->hole < end ? written_check(part, end, err) : 0;
    if (written)
        return written;
    bool is_inside = offset >= part->base && offset <= part->base + window->len;
    uint64_t have = is_inside ? part->base + window->len - offset : 0;
    if (have < want) {
        size_t skip = is_inside ? (size_t)(offset - part->base) : window->len;
        buf_consume(window, skip);
        part->base = offset;
        size_t len = MAX(want, (size_t)PART_WINDOW_BYTES);
        buf_reserve(window, len - MIN(len, window->len));
        int rc = window_read(part, MIN(end, offset + len), len, err);
        if (rc)
            return rc;
        have = window->len;
    }
    *out = (struct str){window->at + (offset - part->base), (size_t)MIN(have, end - offset)};
    return 0;
}
