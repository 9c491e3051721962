/* SPDX-License-Identifier: Apache-2.0
 *
 * Dictionaries of a pickle: their pairs, whatever made them, and their keys by hash.
 */
#include <float.h>
#include <math.h>

#include "base/xalloc.h"
#include "tensor/torch/torch_merge_impl.h"

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

/* Its digits in two's complement, the lowest first, as LONG has them. */
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

static uint64_t mix(uint64_t hash, uint64_t value)
{
    return (hash ^ value) * 0x9e3779b97f4a7c15;
}

static uint64_t text_hash(struct str text)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t i = 0; i < text.len; i++) /* FNV-1a */
        hash = (hash ^ (unsigned char)text.at[i]) * 0x100000001b3;
    return hash;
}

uint64_t scalar_hash(const struct pickle *pickle, const struct pickle_node *key)
{
    int64_t integer;
    char room[WIDE_BYTES_MAX];
    struct str digits;
    if (key_to_integer(key, &integer))
        return mix(1, (uint64_t)integer);
    if (key_to_digits(pickle, key, room, &digits))
        return text_hash(digits);
    if (key->kind == PICKLE_FLOAT)
        return mix(2, (uint64_t)key->integer); /* its bits */
    if (key->kind != PICKLE_TEXT && key->kind != PICKLE_BYTES)
        return key->kind;
    return text_hash(pickle_bytes(pickle, key));
}

/* Equal keys have equal hashes. Of a tuple the scalars in it count, of what else it has the kind. */
static uint64_t key_hash(const struct pickle *pickle, const struct pickle_node *key)
{
    if (key->kind != PICKLE_TUPLE)
        return scalar_hash(pickle, key);
    uint64_t hash = 3;
    struct pickle_walk walk = pickle_items(key);
    for (pickle_id id; (id = pickle_next(pickle, &walk)) != 0;)
        hash = mix(hash, scalar_hash(pickle, pickle_node(pickle, id)));
    return hash;
}

bool keys_equal(const struct graft *graft, size_t part_a, pickle_id a, size_t part_b, pickle_id b)
{
    const struct pickle *pickle = graft_graph(graft, part_a), *other = graft_graph(graft, part_b);
    const struct pickle_node *one = pickle_node(pickle, a), *two = pickle_node(other, b);
    char room[WIDE_BYTES_MAX], other_room[WIDE_BYTES_MAX];
    struct str x, y;
    int64_t left, right;
    if (key_to_integer(one, &left) && key_to_integer(two, &right))
        return left == right;
    if (key_to_digits(pickle, one, room, &x) && key_to_digits(other, two, other_room, &y))
        return str_equal(x, y);
    return values_equal(graft, part_a, a, part_b, b, 0);
}

static int hash_order(const void *a, const void *b)
{
    const struct key_entry *left = a, *right = b;
    if (left->hash != right->hash)
        return left->hash < right->hash ? -1 : 1;
    return (left->index < right->index) - (left->index > right->index);
}

void keys_take(struct key_table *table, const struct pickle *pickle,
               const struct pickle_node *pairs)
{
    struct pickle_walk walk = pickle_items(pairs);
    table->len = 0;
    table->at = xcalloc(pairs->count, sizeof(*table->at));
    for (pickle_id key; (key = pickle_next(pickle, &walk)) != 0;) {
        pickle_id value = pairs->kind == PICKLE_DICT ? pickle_next(pickle, &walk) : key;
        uint64_t hash = key_hash(pickle, pickle_node(pickle, key));
        table->at[table->len] = (struct key_entry){hash, key, value, (uint32_t)table->len};
        table->len++;
    }
    if (table->len > 0)
        qsort(table->at, table->len, sizeof(*table->at), hash_order);
}

static size_t hash_find(const struct key_table *table, uint64_t hash)
{
    size_t low = 0, high = table->len;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (table->at[middle].hash < hash)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

pickle_id keys_find_text(const struct key_table *table, const struct pickle *pickle,
                         struct str name)
{
    uint64_t hash = text_hash(name);
    for (size_t i = hash_find(table, hash); i < table->len && table->at[i].hash == hash; i++) {
        const struct pickle_node *key = pickle_node(pickle, table->at[i].key);
        if (key->kind == PICKLE_TEXT && str_equal(pickle_bytes(pickle, key), name))
            return table->at[i].value;
    }
    return 0;
}

pickle_id keys_find(const struct graft *graft, const struct key_table *table, size_t part,
                    size_t key_part, pickle_id key)
{
    const struct pickle *graph = graft_graph(graft, key_part);
    uint64_t hash = key_hash(graph, pickle_node(graph, key));
    for (size_t low = hash_find(table, hash); low < table->len && table->at[low].hash == hash;
         low++)
        if (keys_equal(graft, part, table->at[low].key, key_part, key))
            return table->at[low].value;
    return 0;
}
