/* SPDX-License-Identifier: Apache-2.0
 *
 * The pairs of a pickle's dictionaries, in whichever way they were made, and keys that are scalars:
 * numbers, texts and the like.
 */
#include <float.h>
#include <math.h>
#include <xxhash.h>

#include "tensor/torch/torch_normalise.h"

const struct pickle_callable *call_known(const struct pickle *pickle,
                                         const struct pickle_node *node)
{
    if (node->kind != PICKLE_CALL)
        return NULL;
    return pickle->globals[pickle_node(pickle, node->call.callee)->global].known;
}

/* An OrderedDict gets its pairs after the call, a Counter is called with a dictionary. */
const struct pickle_node *dict_pairs(const struct pickle *pickle, pickle_id id)
{
    const struct pickle_node *node = pickle_node(pickle, id);
    const struct pickle_callable *known = call_known(pickle, node);
    if (id && node->kind == PICKLE_DICT)
        return node;
    if (!known || known->result != RESULT_DICT)
        return NULL;
    const struct pickle_node *args = pickle_node(pickle, node->call.args);
    const struct pickle_later *later = pickle_later(pickle, node);
    if (args->count == 0)
        return &later->pairs;
    const struct pickle_node *first = pickle_node(pickle, pickle_item(pickle, args, 0));
    return args->count == 1 && first->kind == PICKLE_DICT && later->pairs.count == 0 ? first : NULL;
}

bool is_tensor(const struct pickle *pickle, pickle_id id)
{
    const struct pickle_callable *known = call_known(pickle, pickle_node(pickle, id));
    return known && known->result == RESULT_TENSOR;
}

static const double WHOLE_END = 9223372036854775808.0; /* 2^63 */

bool key_to_integer(const struct pickle_node *key, int64_t *out)
{
    bool is_whole = key->kind == PICKLE_FLOAT && key->real >= -WHOLE_END && key->real < WHOLE_END &&
                    (double)(int64_t)key->real == key->real;
    if (key->kind == PICKLE_INT)
        *out = key->integer;
    else if (key->kind == PICKLE_BOOL)
        *out = key->truth;
    else if (is_whole)
        *out = (int64_t)key->real;
    return key->kind == PICKLE_INT || key->kind == PICKLE_BOOL || is_whole;
}

/* The digits of a float in two's complement, the lowest first, as in a LONG. */
static struct str float_digits(double real, char room[WIDE_BYTES_MAX])
{
    int exponent;
    uint64_t mantissa = (uint64_t)(int64_t)ldexp(frexp(fabs(real), &exponent), DBL_MANT_DIG);
    size_t shift = (size_t)(exponent - DBL_MANT_DIG), at = shift / 8;
    __extension__ unsigned __int128 bits = (unsigned __int128)mantissa << (shift % 8);
    unsigned carry = real < 0; /* -x is ~x + 1 */
    memset(room, 0, WIDE_BYTES_MAX);
    for (; bits > 0; bits >>= 8)
        room[at++] = (char)(bits & 0xff);
    for (size_t i = 0; real < 0 && i < WIDE_BYTES_MAX; i++) {
        carry += (unsigned char)~room[i];
        room[i] = (char)(carry & 0xff);
        carry >>= 8;
    }
    return (struct str){room, WIDE_BYTES_MAX};
}

bool key_to_digits(const struct pickle *pickle, const struct pickle_node *key,
                   char room[WIDE_BYTES_MAX], struct str *out)
{
    if (key->kind == PICKLE_LONG)
        *out = pickle_bytes(pickle, key);
    else if (key->kind == PICKLE_FLOAT && isfinite(key->real) &&
             (key->real >= WHOLE_END || key->real < -WHOLE_END))
        *out = float_digits(key->real, room);
    else
        return false;
    while (out->len > 1) { /* digits that only repeat the sign */
        unsigned char last = (unsigned char)out->at[out->len - 1];
        bool is_below = (out->at[out->len - 2] & 0x80) != 0;
        if (last != (is_below ? 0xff : 0))
            break;
        out->len--;
    }
    return true;
}

/* ---- scalars ---- */

static void number_take(const struct pickle *pickle, const struct pickle_node *node,
                        struct key_room *room, struct key_scalar *out)
{
    if (key_to_integer(node, &out->integer)) {
        out->kind = KEY_INTEGER;
    } else if (key_to_digits(pickle, node, room->digits, &out->bytes)) {
        out->kind = KEY_DIGITS;
    } else {
        out->kind = isnan(node->real) ? KEY_ITSELF : KEY_REAL;
        out->real = node->real;
    }
}

/* complex(re, 0.0) is the same key as re. */
static bool complex_take(const struct pickle *pickle, const struct pickle_node *call,
                         struct key_room *room, struct key_scalar *out)
{
    const struct pickle_node *args = pickle_node(pickle, call->call.args);
    const struct pickle_node *real = pickle_node(pickle, pickle_item(pickle, args, 0));
    const struct pickle_node *imaginary = pickle_node(pickle, pickle_item(pickle, args, 1));
    if (args->count != 2 || real->kind != PICKLE_FLOAT || imaginary->kind != PICKLE_FLOAT)
        return false;
    if (isnan(real->real) || isnan(imaginary->real))
        out->kind = KEY_ITSELF;
    else if (imaginary->real == 0)
        number_take(pickle, real, room, out);
    return out->kind != KEY_COMPOUND;
}

static bool numpy_take(const struct pickle *pickle, pickle_id id, struct key_room *room,
                       struct key_scalar *out)
{
    struct numpy_scalar scalar;
    if (!numpy_scalar_take(pickle, id, &room->bytes, &scalar))
        return false;
    if (scalar.kind == PICKLE_TEXT || scalar.kind == PICKLE_BYTES) {
        out->kind = scalar.kind == PICKLE_TEXT ? KEY_TEXT : KEY_BYTES;
        out->bytes = scalar.bytes;
    } else if (scalar.kind == PICKLE_LONG) {
        out->kind = KEY_DIGITS;
        out->bytes = scalar.bytes;
    } else {
        number_take(pickle, &scalar.number, room, out);
    }
    return true;
}

/* Takes a call whose result is a number or bytes, or is known to equal only itself. */
static void call_take(const struct pickle *pickle, pickle_id id, struct key_room *room,
                      struct key_scalar *out)
{
    const struct pickle_node *call = pickle_node(pickle, id);
    const struct pickle_callable *known = call_known(pickle, call);
    out->kind = KEY_COMPOUND;
    if (!known)
        return;
    if (known->result == RESULT_TENSOR || known->result == RESULT_PARAMETER ||
        known->result == RESULT_NUMPY_ARRAY || strncmp(known->name, "_rebuild", 8) == 0) {
        out->kind = KEY_ITSELF;
    } else if (known->result == RESULT_NUMPY_SCALAR) {
        (void)numpy_take(pickle, id, room, out);
    } else if (strcmp(known->name, "complex") == 0) {
        (void)complex_take(pickle, call, room, out);
    } else if (pickled_bytes_take(pickle, id, &room->bytes)) {
        out->kind = KEY_BYTES;
        out->bytes = buf_str(&room->bytes);
    }
}

void key_scalar_take(const struct pickle *pickle, pickle_id id, struct key_room *room,
                     struct key_scalar *out)
{
    const struct pickle_node *node = pickle_node(pickle, id);
    *out = (struct key_scalar){.kind = KEY_COMPOUND};
    switch ((enum pickle_kind)node->kind) {
    case PICKLE_NONE:
        out->kind = KEY_NONE;
        return;
    case PICKLE_BOOL:
    case PICKLE_INT:
    case PICKLE_LONG:
    case PICKLE_FLOAT:
        number_take(pickle, node, room, out);
        return;
    case PICKLE_TEXT:
    case PICKLE_BYTES:
        out->kind = node->kind == PICKLE_TEXT ? KEY_TEXT : KEY_BYTES;
        out->bytes = pickle_bytes(pickle, node);
        return;
    case PICKLE_GLOBAL:
        out->kind = KEY_GLOBAL;
        out->bytes = pickle->globals[node->global].name;
        out->module = pickle->globals[node->global].module;
        return;
    case PICKLE_CALL:
        call_take(pickle, id, room, out);
        return;
    case PICKLE_BYTEARRAY:
    case PICKLE_STORAGE:
    case PICKLE_SPLICE:
        out->kind = KEY_ITSELF;
        return;
    case PICKLE_TUPLE:
    case PICKLE_LIST:
    case PICKLE_DICT:
    case PICKLE_SET:
    case PICKLE_FROZENSET:
    case PICKLE_NEW:
    case PICKLE_OF:
        return;
    }
}

uint64_t key_scalar_hash(const struct key_scalar *key, uint64_t seed)
{
    seed += (uint64_t)key->kind;
    if (key->kind == KEY_INTEGER)
        return XXH3_64bits_withSeed(&key->integer, sizeof(key->integer), seed);
    if (key->kind == KEY_REAL)
        return XXH3_64bits_withSeed(&key->real, sizeof(key->real), seed);
    return XXH3_64bits_withSeed(key->bytes.at, key->bytes.len, seed);
}

bool key_scalars_equal(const struct key_scalar *a, const struct key_scalar *b)
{
    if (a->kind != b->kind)
        return false;
    if (a->kind == KEY_INTEGER)
        return a->integer == b->integer;
    if (a->kind == KEY_REAL)
        return a->real == b->real;
    return str_equal(a->bytes, b->bytes) && str_equal(a->module, b->module);
}
