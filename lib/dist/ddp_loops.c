/* SPDX-License-Identifier: Apache-2.0 */
#include "ddp_loops.h"

#include "half.h"
#include "loop.h"

/* ---- there and back ---- */

static bool pack_double(double *to, const double *from, size_t count, double factor)
{
    uint64_t bad = 0;
    EACH_ELEMENT (i, count) {
        double value = from[i] * factor;
        to[i] = value;
        bad |= !(value - value == 0); /* for NaN and infinity the difference is NaN */
    }
    return bad == 0;
}

static bool pack_float(float *to, const float *from, size_t count, float factor)
{
    uint32_t bad = 0;
    EACH_ELEMENT (i, count) {
        float value = from[i] * factor;
        to[i] = value;
        bad |= (md_bits_of(value) & 0x7f800000) == 0x7f800000;
    }
    return bad == 0;
}

#define PACK_HALF(name, from_type, widen, narrow, exponent)                           \
    static bool name(uint16_t *to, const from_type *from, size_t count, float factor) \
    {                                                                                 \
        uint32_t bad = 0;                                                             \
        EACH_ELEMENT (i, count) {                                                     \
            uint16_t value = narrow(widen(from[i]) * factor);                         \
            to[i] = value;                                                            \
            bad |= (value & (exponent)) == (exponent);                                \
        }                                                                             \
        return bad == 0;                                                              \
    }

PACK_HALF(pack_float_bfloat16, float, , md_to_bfloat16, 0x7f80)
PACK_HALF(pack_float_float16, float, , md_to_float16, 0x7c00)
PACK_HALF(pack_bfloat16, uint16_t, md_from_bfloat16, md_to_bfloat16, 0x7f80)
PACK_HALF(pack_float16, uint16_t, md_from_float16, md_to_float16, 0x7c00)

bool md_pack(void *to, enum muster_type wire, const void *from, enum muster_type type, size_t count,
             double factor)
{
    if (type == MUSTER_FLOAT64)
        return pack_double(to, from, count, factor);
    if (type == MUSTER_BFLOAT16)
        return pack_bfloat16(to, from, count, (float)factor);
    if (type == MUSTER_FLOAT16)
        return pack_float16(to, from, count, (float)factor);
    if (wire == MUSTER_BFLOAT16)
        return pack_float_bfloat16(to, from, count, (float)factor);
    if (wire == MUSTER_FLOAT16)
        return pack_float_float16(to, from, count, (float)factor);
    return pack_float(to, from, count, (float)factor);
}

#define ARE_FINITE(name, word, exponent)                 \
    static bool name(const word *bits, size_t count)     \
    {                                                    \
        word bad = 0;                                    \
        EACH_ELEMENT (i, count)                          \
            bad |= (bits[i] & (exponent)) == (exponent); \
        return bad == 0;                                 \
    }

ARE_FINITE(are_finite_32, uint32_t, 0x7f800000)
ARE_FINITE(are_finite_64, uint64_t, 0x7ff0000000000000)
ARE_FINITE(are_finite_bfloat16, uint16_t, 0x7f80)
ARE_FINITE(are_finite_float16, uint16_t, 0x7c00)

bool md_are_finite(const void *values, enum muster_type type, size_t count)
{
    if (type == MUSTER_FLOAT64)
        return are_finite_64(values, count);
    if (type == MUSTER_BFLOAT16)
        return are_finite_bfloat16(values, count);
    if (type == MUSTER_FLOAT16)
        return are_finite_float16(values, count);
    return are_finite_32(values, count);
}

void md_unpack(void *to, enum muster_type type, const void *from, enum muster_type wire,
               size_t count)
{
    float *floats = to;
    const uint16_t *halves = from;
    if (type == wire)
        memcpy(to, from, count * muster_type_bytes(type));
    else if (wire == MUSTER_BFLOAT16)
        EACH_ELEMENT (i, count)
            floats[i] = md_from_bfloat16(halves[i]);
    else
        EACH_ELEMENT (i, count)
            floats[i] = md_from_float16(halves[i]);
}

/* ---- arithmetic ---- */

void md_add(void *sums, const void *left, const void *right, enum muster_type type, size_t count)
{
    if (type == MUSTER_FLOAT64)
        EACH_ELEMENT (i, count)
            ((double *)sums)[i] = ((const double *)left)[i] + ((const double *)right)[i];
    else
        EACH_ELEMENT (i, count)
            ((float *)sums)[i] = ((const float *)left)[i] + ((const float *)right)[i];
}

void md_divide(void *values, enum muster_type type, size_t count, double divisor)
{
    float *floats = values, by = (float)divisor;
    double *doubles = values;
    if (type == MUSTER_FLOAT64)
        EACH_ELEMENT (i, count)
            doubles[i] /= divisor;
    else
        EACH_ELEMENT (i, count)
            floats[i] /= by;
}

static double value_at(const void *values, enum muster_type type, size_t i)
{
    if (type == MUSTER_FLOAT64)
        return ((const double *)values)[i];
    if (type == MUSTER_BFLOAT16)
        return (double)md_from_bfloat16(((const uint16_t *)values)[i]);
    if (type == MUSTER_FLOAT16)
        return (double)md_from_float16(((const uint16_t *)values)[i]);
    return (double)((const float *)values)[i];
}

/*
 * Eight partial sums, which may become vectors: the order of additions is fixed, whatever the
 * compiler does.
 */
double md_squares(const void *values, enum muster_type type, size_t count)
{
    double sums[8] = {0}, sum = 0;
    size_t whole = count / 8 * 8;
    const float *floats = values;
    if (type == MUSTER_FLOAT32)
        for (size_t i = 0; i < whole; i += 8)
            for (size_t k = 0; k < 8; k++)
                sums[k] += (double)floats[i + k] * (double)floats[i + k];
    else
        for (size_t i = 0; i < whole; i++)
            sums[i % 8] += value_at(values, type, i) * value_at(values, type, i);
    for (size_t i = whole; i < count; i++)
        sums[0] += value_at(values, type, i) * value_at(values, type, i);
    for (size_t k = 0; k < 8; k++)
        sum += sums[k];
    return sum;
}

void md_scale(void *values, enum muster_type type, size_t count, double factor)
{
    md_pack(values, type, values, type, count, factor);
}

/* ---- hash ---- */

/*
 * Multiplication and rotation in four lanes, as xxHash has them; for accidents, not against
 * attacks.
 */
uint64_t md_hash(const void *at, size_t bytes)
{
    const unsigned char *byte = at;
    uint64_t lanes[4] = {1, 2, 3, 4}, hash = bytes;
    size_t i = 0;
    for (; i + 32 <= bytes; i += 32)
        for (size_t k = 0; k < 4; k++) {
            uint64_t word;
            memcpy(&word, byte + i + 8 * k, sizeof(word));
            lanes[k] += word * 0xc2b2ae3d27d4eb4f;
            lanes[k] = (lanes[k] << 31 | lanes[k] >> 33) * 0x9e3779b185ebca87;
        }
    for (; i < bytes; i++)
        lanes[0] = (lanes[0] ^ byte[i]) * 0x100000001b3;
    for (size_t k = 0; k < 4; k++) {
        hash = (hash ^ lanes[k]) * 0x9e3779b185ebca87;
        hash ^= hash >> 29;
    }
    return hash;
}
