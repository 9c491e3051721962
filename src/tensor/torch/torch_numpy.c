/* SPDX-License-Identifier: Apache-2.0
 *
 * What numpy puts into a pickle: types of elements, and bytes. Source: numpy's __reduce__ of dtype, of
 * scalars and of arrays.
 */
#include "base/parse.h"
#include "tensor/torch/torch_mend.h"

enum {
    UCS4_BYTES = 4
};

/* Its state is (version, byte order, …), the order one of < > | =. */
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

/* Characters up to 255, each one byte. */
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
    if (strcmp(known->name, "bytes") == 0) /* b"" of protocol 2 */
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
