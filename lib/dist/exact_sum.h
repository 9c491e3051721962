/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of products of doubles without any rounding: fixed-point integers that are wide enough for
 * every finite double (a superaccumulator; Kulisch and Miranker, SIAM Review 28, 1986). Adding is
 * exact, so the sum does not depend on the order of its terms. A sum of products of k factors is a
 * two's complement integer in units of 2^(-1074 k), in 64-bit limbs, the lowest first, with 64 bits
 * for carries of up to 2^64 terms. All zero is the empty sum.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MW_EXACT_FACTORS_MAX = 3,
    MW_EXACT_UNIT = -1074,
    /* 2098 bits for each factor, 64 for carries, and the sign */
    MW_EXACT_LIMBS_1 = 34,
    MW_EXACT_LIMBS_2 = 67,
    MW_EXACT_LIMBS_3 = 100,
};

/* A product of finite doubles: digits * 2^(shift + unit * number of factors). */
struct mw_exact_product {
    uint64_t digits[MW_EXACT_FACTORS_MAX];
    unsigned shift;
    bool is_negative;
};

/* A rounded sum: 0, or fraction * 2^exponent with 0.5 <= |fraction| <= 1. */
struct mw_exact_value {
    double fraction;
    int exponent;
};

struct mw_exact_product mw_exact_one(void);
void mw_exact_times(struct mw_exact_product *product, double factor);

void mw_exact_add(uint64_t *limbs, size_t n_limbs, const struct mw_exact_product *product);
void mw_exact_merge(uint64_t *limbs, const uint64_t *other, size_t n_limbs);

/* To nearest, ties to even. unit: the exponent of the lowest bit. At most 134 limbs. */
struct mw_exact_value mw_exact_round(const uint64_t *limbs, size_t n_limbs, int unit);

/* out (n_left + n_right limbs) = left * right, both as numbers without sign. */
void mw_exact_multiply(uint64_t *out, const uint64_t *left, size_t n_left, const uint64_t *right,
                       size_t n_right);
/* Sign and absolute value: negates a negative number, and says whether it did. */
bool mw_exact_make_positive(uint64_t *limbs, size_t n_limbs);
void mw_exact_subtract(uint64_t *limbs, const uint64_t *other, size_t n_limbs);
