/* SPDX-License-Identifier: Apache-2.0 */
#include "node/wire.h"

#include <endian.h>

#include <xxhash.h>

static const struct frame_kind {
    const char *name;
    uint32_t body_max;
} kinds[] = {
#define X(name, body_max) {#name, body_max},
    FRAME_TYPES(X)
#undef X
};

static const struct str preamble = {WIRE_PREAMBLE, sizeof(WIRE_PREAMBLE) - 1};

enum {
    AT_LENGTH = 4,
    AT_WORKER = 8,
    AT_TYPE = 12,
    AT_STREAM = 13,
    AT_ZERO = 14
};

const char *frame_name(enum frame_type type)
{
    return kinds[type].name;
}

size_t wire_body_max(enum frame_type type)
{
    return kinds[type].body_max;
}

static void put_u32(char *at, uint32_t value)
{
    value = htole32(value);
    memcpy(at, &value, sizeof(value));
}

static uint32_t get_u32(const char *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof(value));
    return le32toh(value);
}

/* Header and body lie behind each other. */
static uint32_t checksum(const char *header, size_t body_len, uint64_t number)
{
    return (uint32_t)XXH3_64bits_withSeed(header + AT_LENGTH,
                                          WIRE_HEADER_BYTES - AT_LENGTH + body_len, number);
}

void wire_begin(struct wire_writer *writer, struct buf *out)
{
    writer->n_frames = 0;
    buf_add_str(out, preamble);
}

void wire_add(struct wire_writer *writer, struct buf *out, const struct frame *frame)
{
    ASSERT(frame->type < FRAME_TYPES_COUNT && frame->body.len <= kinds[frame->type].body_max);
    buf_reserve(out, WIRE_HEADER_BYTES + frame->body.len);
    char *header = out->at + out->len;
    put_u32(header + AT_LENGTH, (uint32_t)frame->body.len);
    put_u32(header + AT_WORKER, frame->worker);
    header[AT_TYPE] = (char)frame->type;
    header[AT_STREAM] = (char)frame->stream;
    header[AT_ZERO] = header[AT_ZERO + 1] = 0;
    if (frame->body.len > 0)
        memcpy(header + WIRE_HEADER_BYTES, frame->body.at, frame->body.len);
    put_u32(header, checksum(header, frame->body.len, writer->n_frames++));
    buf_extend(out, WIRE_HEADER_BYTES + frame->body.len);
}

void wire_feed(struct wire_reader *reader, struct str bytes)
{
    if (reader->is_broken)
        return;
    if (reader->begin > 0) {
        buf_consume(&reader->in, reader->begin);
        reader->begin = 0;
    }
    buf_add_str(&reader->in, bytes);
}

static struct str untaken(const struct wire_reader *reader)
{
    size_t len = reader->in.len - reader->begin;
    return len > 0 ? (struct str){reader->in.at + reader->begin, len} : STR("");
}

static enum wire_result broken(struct wire_reader *reader)
{
    reader->is_broken = true;
    return WIRE_BROKEN;
}

static void noise_take(struct wire_reader *reader, size_t len)
{
    size_t room = WIRE_NOISE_KEPT_BYTES - MIN(reader->noise.len, (size_t)WIRE_NOISE_KEPT_BYTES);
    buf_add(&reader->noise, untaken(reader).at, MIN(len, room));
    reader->n_noise_bytes += len;
    reader->begin += len;
}

/* Everything up to the preamble is noise; its last bytes may be the preamble's first. */
static enum wire_result preamble_find(struct wire_reader *reader, struct err *err)
{
    struct str bytes = untaken(reader);
    if (bytes.len == 0)
        return WIRE_MORE;
    if (reader->is_strict && memcmp(bytes.at, preamble.at, MIN(bytes.len, preamble.len)) != 0) {
        fail(err, ERR_DATA, "what came is not muster's");
        return broken(reader);
    }
    const char *found = memmem(bytes.at, bytes.len, preamble.at, preamble.len);
    size_t n_kept = MIN(bytes.len, preamble.len - 1);
    noise_take(reader, found ? (size_t)(found - bytes.at) : bytes.len - n_kept);
    if (reader->n_noise_bytes > WIRE_NOISE_MAX_BYTES) {
        fail(err, ERR_DATA, "more than %d bytes came that are not muster's", WIRE_NOISE_MAX_BYTES);
        return broken(reader);
    }
    if (!found)
        return WIRE_MORE;
    reader->begin += preamble.len;
    reader->has_begun = true;
    return WIRE_FRAME;
}

/* What is wrong with a header, before its body is waited for; NULL: nothing. */
static const char *header_flaw(const struct wire_reader *reader, const char *header)
{
    unsigned type = (unsigned char)header[AT_TYPE];
    uint32_t length = get_u32(header + AT_LENGTH);
    if (header[AT_ZERO] != 0 || header[AT_ZERO + 1] != 0)
        return "has bytes set that are zero in this protocol";
    if (type >= FRAME_TYPES_COUNT)
        return "is of an unknown type";
    if (reader->body_max > 0 && length > reader->body_max)
        return "is longer than this end allows yet";
    return length > kinds[type].body_max ? "is longer than its type allows" : NULL;
}

static enum wire_result frame_flawed(struct wire_reader *reader, const char *flaw, struct err *err)
{
    fail(err, ERR_DATA, "frame %lu %s; bytes were changed, lost or repeated on the way",
         reader->n_frames, flaw);
    return broken(reader);
}

enum wire_result wire_next(struct wire_reader *reader, struct frame *frame, struct err *err)
{
    if (reader->is_broken) {
        fail(err, ERR_DATA, "the stream is broken");
        return WIRE_BROKEN;
    }
    enum wire_result result = reader->has_begun ? WIRE_FRAME : preamble_find(reader, err);
    if (result != WIRE_FRAME)
        return result;
    struct str bytes = untaken(reader);
    if (bytes.len < WIRE_HEADER_BYTES)
        return WIRE_MORE;
    const char *flaw = header_flaw(reader, bytes.at);
    if (flaw)
        return frame_flawed(reader, flaw, err);
    size_t body_len = get_u32(bytes.at + AT_LENGTH);
    if (bytes.len < WIRE_HEADER_BYTES + body_len)
        return WIRE_MORE;
    if (get_u32(bytes.at) != checksum(bytes.at, body_len, reader->n_frames))
        return frame_flawed(reader, "has another checksum than it says", err);
    *frame = (struct frame){.type = (unsigned char)bytes.at[AT_TYPE],
                            .stream = (uint8_t)bytes.at[AT_STREAM],
                            .worker = get_u32(bytes.at + AT_WORKER),
                            .body = {bytes.at + WIRE_HEADER_BYTES, body_len}};
    reader->begin += WIRE_HEADER_BYTES + body_len;
    reader->n_frames++;
    return WIRE_FRAME;
}

void wire_noise_add(const struct wire_reader *reader, struct buf *out)
{
    buf_add_str(out, buf_str(&reader->noise));
    if (!reader->has_begun && reader->noise.len < WIRE_NOISE_KEPT_BYTES)
        buf_add_str(out, untaken(reader));
}

void wire_reader_release(struct wire_reader *reader)
{
    buf_release(&reader->in);
    buf_release(&reader->noise);
    *reader = (struct wire_reader){0};
}
