/* SPDX-License-Identifier: Apache-2.0 */
#include "data/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/xalloc.h"

static void part_close(struct part *part)
{
    if (!part->path)
        return;
    fd_close(&part->fd);
    free(steal_ptr(&part->path));
    buf_release(&part->window);
}

void parts_release(struct parts *parts)
{
    for (size_t i = 0; i < N_PARTS_OPEN; i++)
        part_close(&parts->open[i]);
}

int parts_get(struct parts *parts, const char *path, struct part **out, struct err *err)
{
    struct part *oldest = &parts->open[0];
    for (struct part *part = parts->open; part < parts->open + N_PARTS_OPEN; part++) {
        if (part->path && strcmp(part->path, path) == 0) {
            part->used_at = ++parts->n_uses;
            *out = part;
            return 0;
        }
        if (part->used_at < oldest->used_at)
            oldest = part;
    }
    part_close(oldest);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fail_errno_as(err, errno == ENOENT ? ERR_DATA : ERR_SYS, "open %s", path);
    *oldest = (struct part){.path = xstrdup(path), .fd = fd, .used_at = ++parts->n_uses};
    *out = oldest;
    return 0;
}

static int window_read(struct part *part, uint64_t end, size_t len, struct err *err)
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
        window->len += (size_t)got;
    }
    return 0;
}

int part_view(struct part *part, uint64_t offset, uint64_t end, size_t want, struct str *out,
              struct err *err)
{
    struct buf *window = &part->window;
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
