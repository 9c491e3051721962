/* SPDX-License-Identifier: Apache-2.0 */
#include "exact_sum.h"

#include <string.h>

__extension__ typedef unsigned __int128 u128;

struct mw_exact_product mw_exact_one(void)
{
    return (struct mw_exact_product){.digits = {1}};
}

/* |factor| is mantissa * 2^(shift - 1074): subnormals have the exponent of the smallest normals. */
void mw_exact_times(struct mw_exact_product *product, double factor)
{
    uint64_t bits;
    memcpy(&bits, &factor, sizeof(bits));
    unsigned exponent = (unsigned)(bits >> 52) & 0x7ff;
    uint64_t mantissa = bits & ((UINT64_C(1) << 52) - 1);
    mantissa |= exponent > 0 ? UINT64_C(1) << 52 : 0;
    product->shift += exponent > 0 ? exponent - 1 : 0;
    product->is_negative ^= bits >> 63;
    u128 carry = 0;
    for (size_t i = 0; i < MW_EXACT_FACTORS_MAX; i++) {
        carry += (u128)product->digits[i] * mantissa;
        product->digits[i] = (uint64_t)carry;
        carry >>= 64;
    }
}

static unsigned add_carry(uint64_t *limb, uint64_t value, unsigned carry)
{
    u128 sum = (u128)*limb + value + carry;
    *limb = (uint64_t)sum;
    return (unsigned)(sum >> 64);
}

static unsigned subtract_borrow(uint64_t *limb, uint64_t value, unsigned borrow)
{
    u128 difference = (u128)*limb - value - borrow;
    *limb = (uint64_t)difference;
    return (unsigned)(difference >> 64) & 1;
}

void mw_exact_add(uint64_t *limbs, size_t n_limbs, const struct mw_exact_product *product)
{
    size_t at = product->shift / 64;
    unsigned bit = product->shift % 64, carry = 0;
    uint64_t below = 0;
    for (size_t i = 0; i <= MW_EXACT_FACTORS_MAX && at < n_limbs; i++, at++) {
        uint64_t digit = i < MW_EXACT_FACTORS_MAX ? product->digits[i] : 0;
        uint64_t value = digit << bit | (bit > 0 ? below >> (64 - bit) : 0);
        carry = product->is_negative ? subtract_borrow(&limbs[at], value, carry)
                                     : add_carry(&limbs[at], value, carry);
        below = digit;
    }
    for (; carry && at < n_limbs; at++)
        carry = product->is_negative ? subtract_borrow(&limbs[at], 0, carry)
                                     : add_carry(&limbs[at], 0, carry);
}

void mw_exact_merge(uint64_t *limbs, const uint64_t *other, size_t n_limbs)
{
    unsigned carry = 0;
    for (size_t i = 0; i < n_limbs; i++)
        carry = add_carry(&limbs[i], other[i], carry);
}

void mw_exact_subtract(uint64_t *limbs, const uint64_t *other, size_t n_limbs)
{
    unsigned borrow = 0;
    for (size_t i = 0; i < n_limbs; i++)
        borrow = subtract_borrow(&limbs[i], other[i], borrow);
}

bool mw_exact_make_positive(uint64_t *limbs, size_t n_limbs)
{
    if (!(limbs[n_limbs - 1] >> 63))
        return false;
    unsigned carry = 1;
    for (size_t i = 0; i < n_limbs; i++) {
        limbs[i] = ~limbs[i];
        carry = add_carry(&limbs[i], 0, carry);
    }
    return true;
}

/* Returns the 64 bits from `bit` on; those beyond the last limb are 0. */
static uint64_t bits_from(const uint64_t *limbs, size_t n_limbs, size_t bit)
{
    size_t at = bit / 64;
    unsigned shift = bit % 64;
    uint64_t above = shift > 0 && at + 1 < n_limbs ? limbs[at + 1] << (64 - shift) : 0;
    return limbs[at] >> shift | above;
}

static bool has_bits_below(const uint64_t *limbs, size_t bit)
{
    for (size_t i = 0; i < bit / 64; i++)
        if (limbs[i] != 0)
            return true;
    return (limbs[bit / 64] & ((UINT64_C(1) << bit % 64) - 1)) != 0;
}

struct mw_exact_value mw_exact_round(const uint64_t *limbs, size_t n_limbs, int unit)
{
    uint64_t copy[MW_EXACT_LIMBS_1 + MW_EXACT_LIMBS_3];
    memcpy(copy, limbs, n_limbs * sizeof(*copy));
    bool is_negative = mw_exact_make_positive(copy, n_limbs);
    size_t top = n_limbs;
    while (top > 0 && copy[top - 1] == 0)
        top--;
    if (top == 0)
        return (struct mw_exact_value){0};
    size_t n_bits = top * 64 - (unsigned)__builtin_clzll(copy[top - 1]);
    size_t low = n_bits > 53 ? n_bits - 53 : 0;
    uint64_t mantissa = bits_from(copy, n_limbs, low);
    if (low > 0) {
        bool half = copy[(low - 1) / 64] >> (low - 1) % 64 & 1;
        mantissa += half && (has_bits_below(copy, low - 1) || (mantissa & 1));
    }
    /* An integer of at most 2^53, scaled by a power of two: both exact. */
    double fraction = (double)mantissa / (double)(UINT64_C(1) << (n_bits - low));
    return (struct mw_exact_value){is_negative ? -fraction : fraction, (int)n_bits + unit};
}

void mw_exact_multiply(uint64_t *out, const uint64_t *left, size_t n_left, const uint64_t *right,
                       size_t n_right)
{
    memset(out, 0, (n_left + n_right) * sizeof(*out));
    for (size_t i = 0; i < n_left; i++) {
        u128 carry = 0;
        if (left[i] == 0)
            continue;
        for (size_t k = 0; k < n_right; k++) {
            carry += (u128)left[i] * right[k] + out[i + k];
            out[i + k] = (uint64_t)carry;
            carry >>= 64;
        }
        out[i + n_right] = (uint64_t)carry;
    }
}
