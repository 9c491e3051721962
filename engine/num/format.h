/* SPDX-License-Identifier: Apache-2.0
 *
 * Rounding to the 16-bit formats, on the host and on devices: to the nearest, ties to even, as in
 * IEEE 754. bfloat16 is the upper half of a float32; fp16 has 11 significant bits, is subnormal
 * below 2^-14 and ends at 65504.
 */
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "num/backend.h"

#ifdef __CUDACC__
#define FORMAT_FUNCTION static __host__ __device__ inline
#else
#define FORMAT_FUNCTION static inline
#endif

FORMAT_FUNCTION uint32_t format_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

FORMAT_FUNCTION float format_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

FORMAT_FUNCTION float format_bf16(float x)
{
    uint32_t bits = format_bits(x);
    bool is_finite = (bits & 0x7f800000u) != 0x7f800000u;
    return format_float(is_finite ? (bits + 0x7fffu + (bits >> 16 & 1)) & 0xffff0000u : bits);
}

/*
 * Adding 2^13 times x's power of two, and subtracting it again, leaves the 11 bits: the last place
 * of the sum is that of the format. There are no branches, so that a compiler may use vectors.
 */
FORMAT_FUNCTION float format_fp16(float x)
{
    const int32_t smallest = (127 - 14) << 23, largest = (127 + 16) << 23, infinite = 0x7f800000;
    int32_t size = (int32_t)(format_bits(x) & 0x7fffffffu), power = size & infinite;
    int32_t clamped = power > smallest ? power : smallest;
    clamped = clamped < largest ? clamped : largest;
    float place = format_float((uint32_t)(clamped + (13 << 23)));
    float rounded = format_float((uint32_t)size) + place;
    rounded -= place;
    int32_t out = rounded > 65504.0f ? infinite : (int32_t)format_bits(rounded);
    out = power == infinite ? size : out; /* NaN stays NaN */
    return format_float((format_bits(x) & 0x80000000u) | (uint32_t)out);
}

FORMAT_FUNCTION float format_round(enum num_format format, float x)
{
    return format == NUM_BF16 ? format_bf16(x) : format == NUM_FP16 ? format_fp16(x) : x;
}

/* Returns the 16-bit encoding of a number that format_round() returned. */
FORMAT_FUNCTION uint16_t format_encode(enum num_format format, float x)
{
    uint32_t bits = format_bits(x), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
    if (format == NUM_BF16)
        return (uint16_t)(rest > 0x7f800000u ? sign | 0x7fc0u : bits >> 16);
    if (rest >= 0x7f800000u)
        return (uint16_t)(sign | (rest > 0x7f800000u ? 0x7e00u : 0x7c00u));
    if (rest < (uint32_t)(127 - 14) << 23)
        return (uint16_t)(sign | (uint32_t)(format_float(rest) * 16777216.0f));
    return (uint16_t)(sign | ((rest >> 13) - (112u << 10)));
}

/*
 * fp16 has a small range of exponents, gradients have a large one. So each row is multiplied by
 * 2^shift before it is rounded, which brings its largest number to [2^top, 2^(top + 1)). bfloat16
 * needs no shift.
 */
FORMAT_FUNCTION int format_shift(enum num_format format, float largest, int top)
{
    if (format != NUM_FP16 || !(largest > 0))
        return 0;
    int shift = top - ilogbf(largest);
    return shift > 127 ? 127 : shift; /* 2^shift is a float32 */
}

enum {
    FORMAT_TOP = 14,       /* a number that is rounded up stays below 65504 */
    FORMAT_TOP_PACKED = 15 /* for rows that were rounded before: 11 bits below 2^16 */
};
