/* SPDX-License-Identifier: Apache-2.0 */
#include "node/file_flow.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "node/background.h"
#include "node/wire_body.h"

static XXH3_state_t *hash_new(void)
{
    XXH3_state_t *hash = XXH3_createState();
    ASSERT(hash && XXH3_64bits_reset(hash) == XXH_OK);
    return hash;
}

static void send_end(const struct file_flow_handlers *handlers, void *context,
                     struct wire_file_end *end)
{
    cleanup_buf struct buf out = BUF_INIT;
    struct wire_body body = wire_body_to(&out);
    wire_file_end(&body, end);
    handlers->send(context, FRAME_FILE_END, buf_str(&out));
}

/* ---- sender ---- */

struct file_sender {
    struct background beside;
    const struct file_flow_handlers *handlers;
    void *context;
    int fd;
    struct file_trace trace;
    uint64_t from; /* the receiver has the bytes before */
    uint64_t at;   /* bytes that were read so far */
    uint64_t may_send;
    XXH3_state_t *hash; /* of the bytes that were read */
    char *piece;
    size_t piece_len, piece_sent;
    bool is_reading, is_checked, has_ended;
    int rc;
    struct err err;
};

struct file_sender *file_sender_new(uv_loop_t *loop, int fd, const struct file_trace *trace,
                                    uint64_t from, const struct file_flow_handlers *handlers,
                                    void *context)
{
    struct file_sender *s = xcalloc(1, sizeof(*s));
    *s = (struct file_sender){.handlers = handlers,
                              .context = context,
                              .fd = fd,
                              .trace = *trace,
                              .from = from,
                              .may_send = FILE_WINDOW_BYTES,
                              .hash = hash_new(),
                              .piece = xmalloc(FILE_PIECE_BYTES)};
    s->trace.path = xstrdup(trace->path);
    background_open(&s->beside, loop, s);
    return s;
}

static int piece_fill(struct file_sender *s, size_t n_bytes)
{
    size_t n_done = 0;
    while (n_done < n_bytes) {
        ssize_t got = pread(s->fd, s->piece + n_done, n_bytes - n_done, (off_t)(s->at + n_done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_errno(&s->err, "read %s", s->trace.path);
        if (got == 0)
            return fail(&s->err, ERR_UNAVAILABLE, "%s became shorter", s->trace.path);
        n_done += (size_t)got;
    }
    return 0;
}

/* Reads until there are bytes to send; bytes that the receiver has are read for the hash. */
static void read_run(void *context)
{
    struct file_sender *s = context;
    s->rc = 0;
    s->piece_len = s->piece_sent = 0;
    while (s->rc == 0 && s->at < s->trace.bytes && s->piece_sent == s->piece_len) {
        size_t n_bytes = (size_t)MIN(s->trace.bytes - s->at, (uint64_t)FILE_PIECE_BYTES);
        s->rc = piece_fill(s, n_bytes);
        if (s->rc)
            return;
        XXH3_64bits_update(s->hash, s->piece, n_bytes);
        s->piece_len = n_bytes;
        s->piece_sent = (size_t)MIN(s->from - MIN(s->from, s->at), (uint64_t)n_bytes);
        s->at += n_bytes;
    }
    s->is_checked = s->at == s->trace.bytes;
    if (s->rc == 0 && s->is_checked)
        s->rc = left_file_unchanged(&s->trace, s->fd, &s->err);
}

static void sender_end(struct file_sender *s)
{
    s->has_ended = true;
    s->handlers->ended(s->context, &s->err);
}

static void on_read(void *context)
{
    struct file_sender *s = context;
    s->is_reading = false;
    if (s->rc)
        sender_end(s);
    else
        file_sender_pump(s);
}

void file_sender_pump(struct file_sender *s)
{
    if (s->is_reading || s->has_ended)
        return;
    while (s->piece_sent < s->piece_len && s->may_send > 0 && s->handlers->has_room(s->context)) {
        size_t n = MIN(s->piece_len - s->piece_sent,
                       MIN((size_t)s->may_send, (size_t)WIRE_DATA_MAX_BYTES));
        s->handlers->send(s->context, FRAME_FILE_DATA, (struct str){s->piece + s->piece_sent, n});
        s->piece_sent += n;
        s->may_send -= n;
    }
    if (s->piece_sent < s->piece_len)
        return;
    if (!s->is_checked) {
        s->is_reading = true;
        background_start(&s->beside, read_run, on_read);
        return;
    }
    send_end(s->handlers, s->context,
             &(struct wire_file_end){s->trace.bytes, XXH3_64bits_digest(s->hash)});
    sender_end(s);
}

bool file_sender_grant(struct file_sender *s, uint64_t n_bytes)
{
    if (n_bytes > FILE_WINDOW_BYTES - s->may_send)
        return false;
    s->may_send += n_bytes;
    file_sender_pump(s);
    return true;
}

static void sender_closed(uv_handle_t *handle)
{
    struct file_sender *s = handle->data;
    fd_close(&s->fd);
    XXH3_freeState(s->hash);
    free(s->trace.path);
    free(s->piece);
    free(s);
}

void file_sender_free(struct file_sender *s)
{
    if (s)
        background_close(&s->beside, sender_closed);
}

/* ---- receiver ---- */

struct file_receiver {
    struct background beside;
    const struct file_flow_handlers *handlers;
    void *context;
    char *path, *part; /* the file's name when it is whole, and before that */
    bool is_durable, is_placed;
    int fd;
    struct buf pending; /* to be written next */
    struct buf writing; /* being written by the thread */
    uint64_t n_bytes;   /* of the whole file, or FILE_ANY_BYTES */
    uint64_t may_come;
    uint64_t n_taken;
    uint64_t n_ungranted; /* of these, bytes of an earlier link, which get no credit */
    XXH3_state_t *hash;   /* of the written bytes */
    bool is_busy, is_whole, has_ended;
    uint64_t sent_hash;
    int rc;
    struct err err;
};

struct file_receiver *file_receiver_new(uv_loop_t *loop, const char *path, uint64_t n_bytes,
                                        bool is_durable, const struct file_flow_handlers *handlers,
                                        void *context)
{
    struct file_receiver *r = xcalloc(1, sizeof(*r));
    *r = (struct file_receiver){.handlers = handlers,
                                .context = context,
                                .path = xstrdup(path),
                                .part = xasprintf("%s.part", path),
                                .is_durable = is_durable,
                                .fd = -1,
                                .n_bytes = n_bytes,
                                .may_come = FILE_WINDOW_BYTES,
                                .hash = hash_new()};
    background_open(&r->beside, loop, r);
    return r;
}

static int part_open(struct file_receiver *r)
{
    if (r->fd >= 0)
        return 0;
    cleanup_free char *folder = path_dirname(r->path);
    int rc = mkdir_parents(folder, 0775, &r->err);
    if (rc)
        return rc;
    if (unlink(r->part) != 0 && errno != ENOENT)
        return fail_errno(&r->err, "remove %s", r->part);
    r->fd = open(r->part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0664);
    return r->fd >= 0 ? 0 : fail_errno(&r->err, "create %s", r->part);
}

static void write_run(void *context)
{
    struct file_receiver *r = context;
    r->rc = part_open(r);
    if (r->rc == 0 && (r->rc = write_all(r->fd, r->writing.at, r->writing.len, &r->err)) != 0)
        wrap(&r->err, r->rc, "%s", r->part);
    XXH3_64bits_update(r->hash, r->writing.at, r->writing.len);
}

/* All bytes are written: checks the file, and gives it its name. */
static void settle_run(void *context)
{
    struct file_receiver *r = context;
    r->rc = part_open(r);
    if (r->rc == 0 && XXH3_64bits_digest(r->hash) != r->sent_hash)
        r->rc = fail(&r->err, ERR_UNAVAILABLE, "%s did not arrive as it was sent", r->path);
    if (r->rc == 0 && r->is_durable && fsync(r->fd) != 0)
        r->rc = fail_errno(&r->err, "sync %s", r->part);
    if (r->rc == 0 && rename(r->part, r->path) != 0)
        r->rc = fail_errno(&r->err, "rename %s", r->part);
    r->is_placed = r->rc == 0;
    if (r->rc == 0 && r->is_durable)
        r->rc = fsync_parent(r->path, &r->err);
}

static void receiver_end(struct file_receiver *r)
{
    r->has_ended = true;
    r->handlers->ended(r->context, &r->err);
}

static void on_settled(void *context)
{
    receiver_end(context);
}

static void on_written(void *context);

/* Starts a write. Small pieces wait for more bytes, except for the last one. */
static void work_start(struct file_receiver *r)
{
    if (r->is_busy || r->has_ended)
        return;
    if (r->pending.len >= FILE_PIECE_BYTES || (r->is_whole && r->pending.len > 0)) {
        struct buf empty = r->writing;
        r->writing = r->pending;
        r->pending = empty;
        r->is_busy = true;
        background_start(&r->beside, write_run, on_written);
    } else if (r->is_whole) {
        r->is_busy = true;
        background_start(&r->beside, settle_run, on_settled);
    }
}

static void grant(struct file_receiver *r, uint64_t n_bytes)
{
    cleanup_buf struct buf out = BUF_INIT;
    struct wire_body body = wire_body_to(&out);
    uint64_t n_old = MIN(r->n_ungranted, n_bytes);
    r->n_ungranted -= n_old;
    n_bytes -= n_old;
    r->may_come += n_bytes;
    wire_u64(&body, &n_bytes);
    if (n_bytes > 0 && !r->is_whole)
        r->handlers->send(r->context, FRAME_FILE_CREDIT, buf_str(&out));
}

static void on_written(void *context)
{
    struct file_receiver *r = context;
    r->is_busy = false;
    if (r->rc) {
        receiver_end(r);
        return;
    }
    grant(r, r->writing.len);
    buf_reset(&r->writing);
    work_start(r);
}

bool file_receiver_take(struct file_receiver *r, struct str bytes)
{
    if (bytes.len > r->may_come || bytes.len > r->n_bytes - r->n_taken || r->is_whole)
        return false;
    r->may_come -= bytes.len;
    r->n_taken += bytes.len;
    buf_add_str(&r->pending, bytes);
    work_start(r);
    return true;
}

bool file_receiver_end(struct file_receiver *r, uint64_t n_bytes, uint64_t hash)
{
    bool is_right =
        n_bytes == r->n_taken && (r->n_bytes == FILE_ANY_BYTES || n_bytes == r->n_bytes);
    if (r->is_whole || !is_right)
        return false;
    r->is_whole = true;
    r->sent_hash = hash;
    work_start(r);
    return true;
}

bool file_receiver_is_whole(const struct file_receiver *r)
{
    return r->is_whole;
}

uint64_t file_receiver_resume(struct file_receiver *r)
{
    r->may_come = FILE_WINDOW_BYTES;
    r->n_ungranted = r->pending.len + r->writing.len;
    return r->n_taken;
}

static void receiver_closed(uv_handle_t *handle)
{
    struct file_receiver *r = handle->data;
    if (r->fd >= 0 && !r->is_placed)
        unlink(r->part);
    fd_close(&r->fd);
    XXH3_freeState(r->hash);
    buf_release(&r->pending);
    buf_release(&r->writing);
    free(r->path);
    free(r->part);
    free(r);
}

void file_receiver_free(struct file_receiver *r)
{
    if (r)
        background_close(&r->beside, receiver_closed);
}
