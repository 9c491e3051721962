/* SPDX-License-Identifier: Apache-2.0
 *
 * 16-bit floats to float32 and back, rounding to nearest even. Without branches and without subnormal
 * float32 values, so that loops over them become vector instructions and the processor's mode for
 * subnormals (-ffast-math sets it) does not matter. After F. Giesen, "Half to float done quick" (2012).
 */
#pragma once

#include <stdint.h>
#include <string.h>

static inline uint32_t md_bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static inline float md_float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static inline float md_from_bfloat16(uint16_t half)
{
    return md_float_of((uint32_t)half << 16);
}

/* A NaN stays a NaN, whatever bits are cut off: its quiet bit is set. */
static inline uint16_t md_to_bfloat16(float value)
{
    uint32_t bits = md_bits_of(value);
    uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    uint32_t cut = bits >> 16 | 0x40;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? cut : rounded);
}

static inline float md_from_float16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t exponent = (uint32_t)(half & 0x7c00) << 13;
    uint32_t bits = ((uint32_t)(half & 0x7fff) << 13) + (112u << 23);
    /* A subnormal is treated as if it had a leading one, which is then subtracted. */
    uint32_t subnormal = md_bits_of(md_float_of(bits + (1u << 23)) - md_float_of(113u << 23));
    bits = exponent == 0x7c00u << 13 ? bits + (112u << 23) : bits;
    return md_float_of((exponent == 0 ? subnormal : bits) | sign);
}

static inline uint16_t md_to_float16(float value)
{
    uint32_t bits = md_bits_of(value) & 0x7fffffff;
    uint32_t sign = md_bits_of(value) >> 16 & 0x8000;
    uint32_t not_finite = bits > 255u << 23 ? 0x7e00 : 0x7c00;
    /* Adding one half puts the last bit of a subnormal result at the last bit of the float32. */
    uint32_t subnormal = md_bits_of(md_float_of(bits) + 0.5f) - md_bits_of(0.5f);
    uint32_t normal = (bits - (112u << 23) + 0xfff + ((bits >> 13) & 1)) >> 13;
    uint32_t finite = bits < 113u << 23 ? subnormal : normal;
    return (uint16_t)((bits >= 143u << 23 ? not_finite : finite) | sign);
}
