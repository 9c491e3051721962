/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the content of an entry, stored or deflated.
 */
#include <zlib.h>

#include "base/xalloc.h"
#include "tensor/crc.h"
#include "tensor/pread.h"
#include "tensor/zip/zip.h"

enum {
    WINDOW_BYTES = 256 * 1024
};

static int entry_fail(const struct zip *zip, const struct zip_entry *entry, const char *what,
                      struct err *err)
{
    return fail(err, ERR_DATA, "%s: entry %.*s: %s", zip->path, (int)entry->name.len,
                entry->name.at, what);
}

struct unpacking {
    const struct zip *zip;
    const struct zip_entry *entry;
    z_stream stream;
    unsigned char *window;
    uint64_t at, end; /* in the file */
    int state;        /* zlib's */
};

static int window_fill(struct unpacking *u, struct err *err)
{
    size_t len = (size_t)MIN(u->end - u->at, (uint64_t)WINDOW_BYTES);
    int rc = pread_exact(u->zip->fd, u->window, len, u->at, u->zip->path, err);
    u->stream.next_in = u->window;
    u->stream.avail_in = (unsigned)len;
    u->at += len;
    return rc;
}

/* Unpacks at most `len` more bytes. */
static int unpack(struct unpacking *u, uint64_t len, struct buf *out, struct err *err)
{
    buf_reserve(out, len);
    int rc = 0;
    while (rc == 0 && u->state == Z_OK && len > 0) {
        unsigned step = (unsigned)MIN(len, (uint64_t)1 << 30);
        if (u->stream.avail_in == 0)
            rc = window_fill(u, err);
        u->stream.next_out = (unsigned char *)out->at + out->len;
        u->stream.avail_out = step;
        if (rc == 0)
            u->state = inflate(&u->stream, Z_NO_FLUSH);
        buf_extend(out, step - u->stream.avail_out);
        len -= step - u->stream.avail_out;
    }
    return rc;
}

/* deflate expands a byte to at most 1,032 bytes, so an entry that claims more is damaged. */
static bool can_unpack_to(const struct zip_entry *entry)
{
    return entry->bytes / 1032 <= entry->packed_bytes;
}

/*
 * For a whole entry this requests one byte more than the entry's size, so that a longer entry is
 * detected.
 */
static int inflate_head(const struct zip *zip, const struct zip_entry *entry, uint64_t data_at,
                        uint64_t len, struct buf *out, struct err *err)
{
    struct unpacking u = {.zip = zip, .entry = entry, .at = data_at, .end = data_at};
    size_t begin = out->len;
    bool is_whole = len == entry->bytes;
    u.end += entry->packed_bytes;
    if (!can_unpack_to(entry) || inflateInit2(&u.stream, -MAX_WBITS) != Z_OK)
        return entry_fail(zip, entry, "the packed data are damaged", err);
    u.window = xmalloc(WINDOW_BYTES);
    int rc = unpack(&u, len + is_whole, out, err);
    uint64_t got = out->len - begin;
    bool is_ended = u.state == Z_STREAM_END && u.stream.avail_in == 0 && u.at == u.end;
    inflateEnd(&u.stream);
    free(u.window);
    if (rc == 0 && (got != len || (is_whole && !is_ended)))
        rc = entry_fail(zip, entry, "the packed data are damaged", err);
    return rc;
}

int zip_entry_head(const struct zip *zip, const struct zip_entry *entry, uint64_t len,
                   struct buf *out, struct err *err)
{
    uint64_t data_at;
    int rc = zip_entry_locate(zip, entry, &data_at, err);
    if (rc)
        return rc;
    len = MIN(len, entry->bytes);
    if (entry->is_deflated)
        return inflate_head(zip, entry, data_at, len, out, err);
    buf_reserve(out, len);
    rc = pread_exact(zip->fd, out->at + out->len, len, data_at, zip->path, err);
    if (rc == 0)
        buf_extend(out, len);
    return rc;
}

int zip_entry_check(const struct zip *zip, const struct zip_entry *entry, uint32_t crc,
                    struct err *err)
{
    if (!zip->has_crcs || crc == entry->crc)
        return 0;
    return entry_fail(zip, entry, "its bytes are not those that were written (CRC-32)", err);
}

/* Reads a stored entry; the CRC of each piece is computed while it is still in the processor's
 * cache. */
static int stored_read(const struct zip *zip, const struct zip_entry *entry, struct buf *out,
                       uint32_t *crc, struct err *err)
{
    uint64_t data_at;
    int rc = zip_entry_locate(zip, entry, &data_at, err);
    if (rc == 0)
        buf_reserve(out, entry->bytes);
    for (uint64_t done = 0; rc == 0 && done < entry->bytes;) {
        struct str window = {out->at + out->len, (size_t)MIN(entry->bytes - done, WINDOW_BYTES)};
        rc = pread_exact(zip->fd, out->at + out->len, window.len, data_at + done, zip->path, err);
        if (rc)
            return rc;
        *crc = crc_of(*crc, window);
        buf_extend(out, window.len);
        done += window.len;
    }
    return rc;
}

int zip_entry_read(const struct zip *zip, const struct zip_entry *entry, uint64_t max_bytes,
                   struct buf *out, struct err *err)
{
    size_t begin = out->len;
    uint32_t crc = 0;
    if (entry->bytes > max_bytes)
        return fail(err, ERR_DATA, "%s: entry %.*s has %lu bytes, more than the %lu that are read",
                    zip->path, (int)entry->name.len, entry->name.at, entry->bytes, max_bytes);
    int rc = entry->is_deflated ? zip_entry_head(zip, entry, entry->bytes, out, err)
                                : stored_read(zip, entry, out, &crc, err);
    if (rc == 0 && entry->is_deflated)
        crc = crc_of(0, (struct str){out->at + begin, out->len - begin});
    return rc ? rc : zip_entry_check(zip, entry, crc, err);
}

/* ---- a window at a time ---- */

struct passing {
    const struct zip *zip;
    const struct zip_entry *entry;
    const struct zip_sink *sink;
    uint64_t data_at, n_bytes;
    uint32_t crc;
};

static int pass(struct passing *p, const struct buf *window, struct err *err)
{
    p->crc = crc_of(p->crc, buf_str(window));
    p->n_bytes += window->len;
    if (p->n_bytes > p->entry->bytes)
        return entry_fail(p->zip, p->entry, "the packed data are damaged", err);
    return p->sink->put(p->sink->context, buf_str(window), err);
}

static int stored_pass(struct passing *p, struct buf *window, struct err *err)
{
    int rc = 0;
    while (rc == 0 && p->n_bytes < p->entry->bytes) {
        size_t len = (size_t)MIN(p->entry->bytes - p->n_bytes, (uint64_t)WINDOW_BYTES);
        rc = pread_exact(p->zip->fd, window->at, len, p->data_at + p->n_bytes, p->zip->path, err);
        window->len = len;
        if (rc == 0)
            rc = pass(p, window, err);
    }
    return rc;
}

static int deflated_pass(struct passing *p, struct buf *window, struct err *err)
{
    struct unpacking u = {.zip = p->zip, .entry = p->entry, .at = p->data_at};
    u.end = u.at + p->entry->packed_bytes;
    if (!can_unpack_to(p->entry) || inflateInit2(&u.stream, -MAX_WBITS) != Z_OK)
        return entry_fail(p->zip, p->entry, "the packed data are damaged", err);
    u.window = xmalloc(WINDOW_BYTES);
    int rc = 0;
    while (rc == 0 && u.state == Z_OK) {
        buf_reset(window);
        rc = unpack(&u, WINDOW_BYTES, window, err);
        if (rc == 0)
            rc = pass(p, window, err);
    }
    bool is_ended = u.state == Z_STREAM_END && u.stream.avail_in == 0 && u.at == u.end;
    inflateEnd(&u.stream);
    free(u.window);
    if (rc == 0 && (!is_ended || p->n_bytes != p->entry->bytes))
        rc = entry_fail(p->zip, p->entry, "the packed data are damaged", err);
    return rc;
}

int zip_entry_pass(const struct zip *zip, const struct zip_entry *entry,
                   const struct zip_sink *sink, struct err *err)
{
    struct passing p = {zip, entry, sink, 0, 0, 0};
    struct buf window = BUF_INIT;
    int rc = zip_entry_locate(zip, entry, &p.data_at, err);
    if (rc)
        return rc;
    buf_reserve(&window, WINDOW_BYTES);
    rc = (entry->is_deflated ? deflated_pass : stored_pass)(&p, &window, err);
    buf_release(&window);
    return rc ? rc : zip_entry_check(zip, entry, p.crc, err);
}
