/* SPDX-License-Identifier: Apache-2.0
 *
 * A head that means ill, or has gone mad: frames of real sessions in a drawn order, with drawn changes and right
 * checksums. Whatever comes, the agent writes frames, keeps a bounded amount, ends when its stream does, and leaves no
 * worker.
 */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "node/wire.h"
#include "sim/protocol/protocol.h"

enum {
    FRAMES_MAX = 60,
    IDS = 6,
    GAP_MS = 40,               /* between two frames, at most */
    HEAP_MAX_BYTES = 64 << 20, /* credit for all streams of all workers is 7 MiB */
    WILD_LIMIT_MS = 200000     /* an agent waits a minute for a hello */
};

static struct {
    struct frame *at;
    size_t len;
} kept;

static struct {
    struct node_worker *transport;
    struct wire_writer writer;
    struct wire_reader reader;
    struct buf out;
    unsigned n_left;
    unsigned wildness; /* so many thousandths of the frames are changed */
    bool is_gone;
} wild;

/* ---- frames of real sessions ---- */

void wild_keep(struct str sent)
{
    struct wire_reader reader = {0};
    struct frame frame;
    struct err err = {0};
    wire_feed(&reader, sent);
    while (wire_next(&reader, &frame, &err) == WIRE_FRAME) {
        char *body = xmalloc(frame.body.len + 1);
        memcpy(body, frame.body.at, frame.body.len);
        frame.body.at = body;
        kept.at = xrealloc(kept.at, (kept.len + 1) * sizeof(*kept.at));
        kept.at[kept.len++] = frame;
    }
    wire_reader_release(&reader);
}

void wild_forget(void)
{
    for (size_t i = 0; i < kept.len; i++)
        free((char *)(uintptr_t)kept.at[i].body.at);
    free(kept.at);
    memset(&kept, 0, sizeof(kept));
}

static const struct frame *kept_of(enum frame_type type, uint32_t worker)
{
    for (size_t i = 0; i < kept.len; i++)
        if (kept.at[i].type == type && kept.at[i].worker == worker)
            return &kept.at[i];
    broken("no %s in a real session", frame_name(type));
}

/* ---- changes ---- */

static void body_change(struct buf *body, size_t len_max)
{
    size_t len = body->len;
    if (chance(300) && len > 0)
        body->len = below(len);
    for (unsigned n = (unsigned)below(4); n > 0 && body->len > 0; n--)
        body->at[below(body->len)] = chance(500) ? (char)below(256) : (char)0xff;
    for (unsigned n = chance(200) ? (unsigned)below(20) : 0; n > 0 && body->len < len_max; n--)
        buf_add_char(body, (char)below(256));
}

/* What concerns files names folders of this machine, and is played elsewhere. */
static enum frame_type type_draw(void)
{
    enum frame_type type;
    do
        type = (enum frame_type)below(FRAME_TYPES_COUNT);
    while (frame_is_of_files(type));
    return type;
}

static void frame_change(struct frame *frame, struct buf *body)
{
    if (chance(300))
        frame->worker = chance(100) ? WIRE_NO_WORKER : chance(50) ? 65535 : (uint32_t)below(IDS);
    if (chance(150))
        frame->stream = (uint8_t)(chance(100) ? below(256) : below(WORKER_STREAMS));
    if (chance(80))
        frame->type = type_draw();
    if (chance(150))
        body_change(body, wire_body_max(frame->type));
    body->len = MIN(body->len, wire_body_max(frame->type));
}

/* ---- the stream ---- */

static void out_flush(void)
{
    if (wild.is_gone || wild.out.len == 0)
        return;
    ssize_t put = node_write(wild.transport, STREAM_IN, buf_str(&wild.out));
    if (put > 0)
        buf_consume(&wild.out, (size_t)put);
}

static void frame_put(const struct frame *like, bool may_change)
{
    struct frame frame = *like;
    struct buf body = BUF_INIT;
    buf_add_str(&body, like->body);
    if (may_change)
        frame_change(&frame, &body);
    frame.body = buf_str(&body);
    trace("%s of %zu bytes, worker %u, stream %u", frame_name(frame.type), body.len, frame.worker,
          frame.stream);
    wire_add(&wild.writer, &wild.out, &frame);
    buf_release(&body);
    out_flush();
}

/* Those that break most sessions are drawn rarely, so that something comes behind the others. */
static const struct frame *frame_draw(void)
{
    static const bool is_rare[FRAME_TYPES_COUNT] = {[FRAME_HELLO] = true,
                                                    [FRAME_SPAWN] = true,
                                                    [FRAME_CREDIT] = true,
                                                    [FRAME_EXPLAINED] = true,
                                                    [FRAME_RELEASE] = true};
    const struct frame *frame;
    do
        frame = &kept.at[below(kept.len)];
    while (is_rare[frame->type] && !chance(50));
    return frame;
}

static void go_on(void *context, uint64_t argument)
{
    (void)context, (void)argument;
    if (wild.is_gone)
        return;
    const struct mallinfo2 heap = mallinfo2();
    if (heap.uordblks + heap.hblkhd > HEAP_MAX_BYTES)
        broken("the agent keeps %zu bytes", heap.uordblks + heap.hblkhd);
    if (wild.n_left-- == 0) {
        node_finish(wild.transport, STREAM_IN);
        return;
    }
    frame_put(frame_draw(), chance(wild.wildness));
    after_ms(chance(500) ? 0 : below(GAP_MS), go_on, NULL, 0);
}

static void on_output(void *context, enum worker_stream stream, struct str bytes)
{
    struct frame frame;
    struct err err = {0};
    enum wire_result result;
    (void)context, (void)stream;
    wire_feed(&wild.reader, bytes);
    while ((result = wire_next(&wild.reader, &frame, &err)) == WIRE_FRAME)
        trace("from the agent: %s", frame_name(frame.type));
    if (result == WIRE_BROKEN)
        broken("the agent writes what is no frame: %s", err.text);
}

static void on_writable(void *context, enum worker_stream stream)
{
    (void)context, (void)stream;
    out_flush();
}

static void on_gone(void *context, const struct worker_exit *exit)
{
    (void)context, (void)exit;
    wild.is_gone = true;
}

void wild_play(void)
{
    static const struct worker_handlers handlers = {
        .output = on_output, .writable = on_writable, .gone = on_gone};
    static const unsigned wildness[] = {0, 30, 150, 500};
    const struct spawn_request request = {.handlers = &handlers};
    struct err err = {0};
    memset(&wild, 0, sizeof(wild));
    if (node_spawn(stream_open(), &request, &wild.transport, &err) != 0)
        broken("no transport: %s", err.text);
    wild.n_left = 1 + (unsigned)below(FRAMES_MAX);
    wild.wildness = wildness[below(countof(wildness))];
    wire_begin(&wild.writer, &wild.out);
    frame_put(kept_of(FRAME_HELLO, WIRE_NO_WORKER), chance(20));
    frame_put(kept_of(FRAME_TAKE, WIRE_NO_WORKER), chance(50));
    for (uint32_t n = (uint32_t)below(SCRIPTS + 1); n > 0; n--)
        frame_put(kept_of(FRAME_SPAWN, n - 1), chance(wild.wildness));
    after_ms(below(GAP_MS), go_on, NULL, 0);
    while (!wild.is_gone && world_ms() < WILD_LIMIT_MS && future_next_ns() != UINT64_MAX) {
        world.now_ns = MAX(world.now_ns, future_next_ns());
        futures_run();
    }
    agents_await_end();
    buf_release(&wild.out);
    wire_reader_release(&wild.reader);
}
