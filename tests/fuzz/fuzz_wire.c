/* SPDX-License-Identifier: Apache-2.0
 *
 * What a head and an agent read of each other, on any bytes: a stream cut anywhere gives the same frames, and
 * a body that is taken is written back as the same bytes.
 */
#include "fuzz.h"

#include "base/cleanup.h"
#include "node/wire.h"
#include "node/wire_body.h"

static void check_whole(const struct wire_body *in, const struct buf *again, struct str bytes)
{
    if (wire_body_is_whole(in) && !str_equal(buf_str(again), bytes))
        BUG("a body of %zu bytes is written back as %zu others", bytes.len, again->len);
}

/* Reads a message, and writes it again if it is whole. */
#define CHECK(type, function, release)               \
    static void check_##type(struct str bytes)       \
    {                                                \
        struct type message = {0};                   \
        cleanup_buf struct buf again = BUF_INIT;     \
        struct wire_body in = wire_body_of(bytes);   \
        struct wire_body out = wire_body_to(&again); \
        function(&in, &message);                     \
        if (wire_body_is_whole(&in))                 \
            function(&out, &message);                \
        check_whole(&in, &again, bytes);             \
        release(&message);                           \
    }

static void nothing(const void *message)
{
    (void)message;
}

static void fetch_release(const struct wire_fetch *fetch)
{
    free(fetch->trace.path);
}

CHECK(wire_hello, wire_hello, nothing)
CHECK(wire_take, wire_take, nothing)
CHECK(wire_taken, wire_taken, wire_taken_release)
CHECK(err, wire_error, nothing)
CHECK(wire_spawn, wire_spawn, wire_spawn_release)
CHECK(wire_started, wire_started, nothing)
CHECK(worker_exit, wire_exit, nothing)
CHECK(wire_ask, wire_ask, nothing)
CHECK(wire_input, wire_input, nothing)
CHECK(device_sample, wire_sample, nothing)
CHECK(wire_stage, wire_stage, nothing)
CHECK(wire_staged, wire_staged, nothing)
CHECK(wire_prepare, wire_prepare, wire_prepare_release)
CHECK(wire_found, wire_found, wire_found_release)
CHECK(wire_fetch, wire_fetch, fetch_release)
CHECK(wire_file_end, wire_file_end, nothing)

static void (*const bodies[])(struct str bytes) = {
    check_wire_hello,   check_wire_take,     check_wire_taken,  check_err,
    check_wire_spawn,   check_wire_started,  check_worker_exit, check_wire_ask,
    check_wire_input,   check_device_sample, check_wire_stage,  check_wire_staged,
    check_wire_prepare, check_wire_found,    check_wire_fetch,  check_wire_file_end};

/* Everything that comes of the bytes, fed in pieces of this length, as text. */
static void stream_read(struct str bytes, size_t piece, struct buf *seen)
{
    struct wire_reader reader = {0};
    enum wire_result result = WIRE_MORE;
    struct err err = {0};
    while (bytes.len > 0 && result != WIRE_BROKEN) {
        struct str part = {bytes.at, MIN(piece, bytes.len)};
        struct frame frame;
        wire_feed(&reader, part);
        bytes = (struct str){bytes.at + part.len, bytes.len - part.len};
        while ((result = wire_next(&reader, &frame, &err)) == WIRE_FRAME) {
            buf_addf(seen, "%s %u %u ", frame_name(frame.type), frame.stream, frame.worker);
            buf_add_str(seen, frame.body);
        }
    }
    buf_addf(seen, "%s", err.text);
    wire_reader_release(&reader);
}

/* The bytes as the rest of a stream whose beginning is right. */
static void check_stream(struct str text, size_t piece)
{
    cleanup_buf struct buf stream = BUF_INIT, whole = BUF_INIT, cut = BUF_INIT;
    struct wire_writer writer;
    wire_begin(&writer, &stream);
    wire_add(&writer, &stream,
             &(struct frame){FRAME_DATA, 1, 2, {text.at, MIN(text.len, (size_t)64)}});
    buf_add_str(&stream, text);
    stream_read(buf_str(&stream), SIZE_MAX, &whole);
    stream_read(buf_str(&stream), piece, &cut);
    ASSERT(str_equal(buf_str(&whole), buf_str(&cut)));
    buf_reset(&whole);
    stream_read(text, piece, &whole);
}

int fuzz_target(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, MIN(size, (size_t)65536)};
    unsigned choice = fuzz_choice(&text);
    if (text.len == 0)
        return 0;
    bodies[choice % countof(bodies)](text);
    check_stream(text, 1 + choice / countof(bodies));
    return 0;
}
