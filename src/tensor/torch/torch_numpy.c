/* SPDX-License-Identifier: Apache-2.0
 *
 * The objects that numpy puts into a pickle: types of elements, bytes, scalars. Source: numpy's
 * __reduce__ of dtype, of scalars and of arrays.
 */
#include <math.h>

#include "base/cleanup.h"
#include "base/parse.h"
#include "tensor/bytes.h"
#include "tensor/pickle/pickle_impl.h"
#include "tensor/torch/torch_normalise.h"

enum {
    UCS4_BYTES = 4
};

/* Is the dtype big-endian? Its state is (version, byte order, …); the order is one of < > | =. */
static bool is_swapped(const struct pickle *pickle, const struct pickle_node *call)
{
    struct pickle_walk states = pickle_items(&pickle_later(pickle, call)->states);
    const struct pickle_node *state = pickle_node(pickle, pickle_next(pickle, &states));
    if (state->kind != PICKLE_TUPLE)
        return false;
    const struct pickle_node *order = pickle_node(pickle, pickle_item(pickle, state, 1));
    return order->kind == PICKLE_TEXT && str_equal(pickle_bytes(pickle, order), STR(">"));
}

bool numpy_dtype_take(const struct pickle *pickle, pickle_id id, struct numpy_dtype *out)
{
    const struct pickle_node *call = pickle_node(pickle, id);
    const struct pickle_callable *known = call_known(pickle, call);
    if (!known || strcmp(known->name, "dtype") != 0)
        return false;
    const struct pickle_node *args = pickle_node(pickle, call->call.args);
    const struct pickle_node *name = pickle_node(pickle, pickle_item(pickle, args, 0));
    struct str text = name->kind == PICKLE_TEXT ? pickle_bytes(pickle, name) : (struct str){"", 0};
    if (text.len < 2 || text.at[0] == '\0' || !strchr("fiubcUS", text.at[0]) ||
        u64_parse((struct str){text.at + 1, text.len - 1}, 0, INT32_MAX / UCS4_BYTES, &out->n_bytes,
                  NULL) != 0)
        return false;
    out->kind = text.at[0];
    out->is_big_endian = is_swapped(pickle, call);
    if (out->kind == 'U')
        out->n_bytes *= UCS4_BYTES;
    return true;
}

/* Adds a text in Latin-1: one byte for each character, which must be at most 255. */
static bool latin1_add(struct str text, struct buf *out)
{
    buf_reserve(out, text.len);
    for (size_t i = 0; i < text.len; i++) {
        unsigned char byte = (unsigned char)text.at[i];
        if (byte >= 0xc4 || (byte >= 0x80 && i + 1 == text.len))
            return false;
        if (byte >= 0x80)
            byte = (unsigned char)(byte << 6 | ((unsigned char)text.at[++i] & 0x3f));
        buf_add_char(out, (char)byte);
    }
    return true;
}

bool pickled_bytes_take(const struct pickle *pickle, pickle_id id, struct buf *out)
{
    const struct pickle_node *node = pickle_node(pickle, id);
    const struct pickle_callable *known = call_known(pickle, node);
    buf_reset(out);
    if (node->kind == PICKLE_BYTES || node->kind == PICKLE_BYTEARRAY) {
        buf_add_str(out, pickle_bytes(pickle, node));
        return true;
    }
    if (!known || node->count > 0)
        return false;
    const struct pickle_node *args = pickle_node(pickle, node->call.args);
    if (strcmp(known->name, "bytes") == 0) /* protocol 2 writes b"" as bytes() */
        return args->count == 0;
    const struct pickle_node *text = pickle_node(pickle, pickle_item(pickle, args, 0));
    const struct pickle_node *codec = pickle_node(pickle, pickle_item(pickle, args, 1));
    return known->result == RESULT_TEXT_AS_BYTES && text->kind == PICKLE_TEXT &&
           codec->kind == PICKLE_TEXT && str_equal(pickle_bytes(pickle, codec), STR("latin1")) &&
           latin1_add(pickle_bytes(pickle, text), out);
}

static bool buffer_take(const struct pickle *pickle, const struct pickle_node *call,
                        struct numpy_array *out)
{
    const struct pickle_node *args = pickle_node(pickle, call->call.args);
    const struct pickle_node *order = pickle_node(pickle, pickle_item(pickle, args, 3));
    if (args->count != 4 || call->count > 0 || order->kind != PICKLE_TEXT)
        return false;
    *out = (struct numpy_array){.bytes = pickle_item(pickle, args, 0),
                                .dtype = pickle_item(pickle, args, 1),
                                .shape = pickle_item(pickle, args, 2),
                                .is_fortran = str_equal(pickle_bytes(pickle, order), STR("F"))};
    return out->is_fortran || str_equal(pickle_bytes(pickle, order), STR("C"));
}

static bool state_take(const struct pickle *pickle, const struct pickle_node *call,
                       struct numpy_array *out)
{
    const struct pickle_node *class =
        pickle_node(pickle, pickle_item(pickle, pickle_node(pickle, call->call.args), 0));
    const struct pickle_later *later = pickle_later(pickle, call);
    struct pickle_walk states = pickle_items(&later->states);
    const struct pickle_node *state = pickle_node(pickle, pickle_next(pickle, &states));
    if (class->kind != PICKLE_GLOBAL ||
        !str_equal(pickle->globals[class->global].name, STR("ndarray")) || later->items.count > 0 ||
        later->pairs.count > 0 || later->states.count != 1 || state->kind != PICKLE_TUPLE ||
        state->count != 5)
        return false;
    const struct pickle_node *order = pickle_node(pickle, pickle_item(pickle, state, 3));
    *out = (struct numpy_array){.shape = pickle_item(pickle, state, 1),
                                .dtype = pickle_item(pickle, state, 2),
                                .bytes = pickle_item(pickle, state, 4),
                                .is_fortran = order->kind == PICKLE_BOOL ? order->truth
                                                                         : order->integer != 0};
    return order->kind == PICKLE_BOOL || order->kind == PICKLE_INT;
}

bool numpy_array_take(const struct pickle *pickle, const struct pickle_node *call,
                      struct numpy_array *out)
{
    const struct pickle_callable *known = call_known(pickle, call);
    if (!known || known->result != RESULT_NUMPY_ARRAY)
        return false;
    return (strcmp(known->name, "_frombuffer") == 0 ? buffer_take : state_take)(pickle, call, out);
}

/* ---- scalars ---- */

/* Source: IEEE 754-2019, binary16. */
static double half_to_double(uint64_t bits)
{
    int exponent = (int)(bits >> 10 & 31), mantissa = (int)(bits & 1023);
    double size = exponent == 0    ? ldexp(mantissa, -24)
                  : exponent == 31 ? (mantissa ? (double)NAN : (double)INFINITY)
                                   : ldexp(mantissa | 1024, exponent - 25);
    return bits >> 15 ? -size : size;
}

static bool real_of(uint64_t bits, uint64_t n_bytes, double *out)
{
    if (n_bytes == sizeof(double)) {
        memcpy(out, &bits, sizeof(*out));
    } else if (n_bytes == sizeof(float)) {
        uint32_t low = (uint32_t)bits;
        float real;
        memcpy(&real, &low, sizeof(real));
        *out = (double)real;
    } else if (n_bytes == 2) {
        *out = half_to_double(bits);
    } else {
        return false;
    }
    return true;
}

/* A text of numpy: UCS-4, filled up with zeros. */
static bool text_of(const struct numpy_dtype *dtype, struct str bytes, struct buf *room,
                    struct numpy_scalar *out)
{
    cleanup_buf struct buf text = BUF_INIT;
    while (bytes.len > 0 && le_get(bytes.at + bytes.len - UCS4_BYTES, UCS4_BYTES) == 0)
        bytes.len -= UCS4_BYTES;
    for (size_t i = 0; i < bytes.len; i += UCS4_BYTES) {
        uint32_t point = (uint32_t)le_get(bytes.at + i, UCS4_BYTES);
        point = dtype->is_big_endian ? __builtin_bswap32(point) : point;
        if (point > 0x10ffff)
            return false;
        text_point_add(&text, point);
    }
    buf_reset(room);
    buf_add_str(room, buf_str(&text));
    *out = (struct numpy_scalar){.kind = PICKLE_TEXT, .bytes = buf_str(room)};
    return true;
}

static void whole_of(uint64_t bits, uint64_t n_bytes, bool is_signed, struct buf *room,
                     struct numpy_scalar *out)
{
    unsigned unused = 64 - 8 * (unsigned)n_bytes;
    char digits[9] = {0}; /* two's complement: a zero in front keeps it positive */
    int64_t integer = is_signed ? (int64_t)(bits << unused) >> unused : (int64_t)bits;
    out->number = (struct pickle_node){.kind = PICKLE_INT, .integer = integer};
    if (is_signed || bits <= INT64_MAX)
        return;
    le_put(digits, bits, 8);
    buf_reset(room);
    buf_add(room, digits, sizeof(digits));
    *out = (struct numpy_scalar){.kind = PICKLE_LONG, .bytes = buf_str(room)};
}

static bool number_of(const struct numpy_dtype *dtype, struct str bytes, struct buf *room,
                      struct numpy_scalar *out)
{
    if (bytes.len == 0 || bytes.len > 8)
        return false;
    uint64_t bits = le_get(bytes.at, bytes.len);
    if (dtype->is_big_endian)
        bits = __builtin_bswap64(bits) >> (64 - 8 * bytes.len);
    if (dtype->kind == 'i' || dtype->kind == 'u') {
        whole_of(bits, bytes.len, dtype->kind == 'i', room, out);
        return true;
    }
    out->number = (struct pickle_node){.kind = PICKLE_BOOL, .truth = bits != 0};
    if (dtype->kind == 'b')
        return true;
    out->number = (struct pickle_node){.kind = PICKLE_FLOAT};
    return dtype->kind == 'f' && real_of(bits, bytes.len, &out->number.real);
}

bool numpy_scalar_take(const struct pickle *pickle, pickle_id id, struct buf *room,
                       struct numpy_scalar *out)
{
    const struct pickle_node *call = pickle_node(pickle, id);
    const struct pickle_callable *known = call_known(pickle, call);
    struct numpy_dtype dtype;
    if (!known || known->result != RESULT_NUMPY_SCALAR || call->count > 0)
        return false;
    const struct pickle_node *args = pickle_node(pickle, call->call.args);
    if (args->count != 2 || !numpy_dtype_take(pickle, pickle_item(pickle, args, 0), &dtype) ||
        !pickled_bytes_take(pickle, pickle_item(pickle, args, 1), room) ||
        room->len != dtype.n_bytes)
        return false;
    struct str bytes = buf_str(room);
    *out = (struct numpy_scalar){.kind = PICKLE_NONE};
    if (dtype.kind == 'U')
        return text_of(&dtype, bytes, room, out);
    if (dtype.kind != 'S')
        return number_of(&dtype, bytes, room, out);
    while (bytes.len > 0 && bytes.at[bytes.len - 1] == '\0')
        bytes.len--;
    *out = (struct numpy_scalar){.kind = PICKLE_BYTES, .bytes = bytes};
    return true;
}
