/* SPDX-License-Identifier: Apache-2.0
 *
 * Rounding to 16 bits: every number of a format, every place between two of them.
 */
#include "unit/test.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "num/format.h"

static const struct layout {
    enum num_format format;
    int n_digits, bias; /* behind the point */
    uint16_t infinite;
    float largest;
} layouts[] = {{NUM_BF16, 7, 127, 0x7f80, 0x1.fep127f}, {NUM_FP16, 10, 15, 0x7c00, 65504}};

/* What a pattern of 16 bits stands for, by the definition. */
static float value_of(const struct layout *layout, unsigned pattern)
{
    unsigned power = (pattern & 0x7fff) >> layout->n_digits;
    unsigned digits = pattern & ((1u << layout->n_digits) - 1);
    double one = 1 << layout->n_digits;
    double value = power == 0 ? ldexp(digits / one, 1 - layout->bias)
                              : ldexp(1 + digits / one, (int)power - layout->bias);
    return (float)(pattern & 0x8000 ? -value : value);
}

static void rounds_to(const struct layout *layout, float x, unsigned pattern)
{
    float expected = pattern == layout->infinite ? (float)INFINITY : value_of(layout, pattern);
    for (int sign = 1; sign >= -1; sign -= 2) {
        float found = format_round(layout->format, (float)sign * x);
        uint16_t bits = format_encode(layout->format, found);
        unsigned wanted = pattern | (sign < 0 ? 0x8000u : 0);
        if (found != (float)sign * expected || bits != wanted)
            fail_msg("format %d: %a becomes %a (%#x), expected %a (%#x)", (int)layout->format,
                     (double)((float)sign * x), (double)found, bits,
                     (double)((float)sign * expected), wanted);
    }
}

static void every_number_of_a_format_stays_itself(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(layouts); i++)
        for (unsigned pattern = 0; pattern < layouts[i].infinite; pattern++)
            rounds_to(&layouts[i], value_of(&layouts[i], pattern), pattern);
}

/* Subnormals are among them, and the step to zero. */
static void what_lies_between_goes_to_the_nearest_and_ties_to_even(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(layouts); i++)
        for (unsigned low = 0; low + 1 < layouts[i].infinite; low++) {
            float below = value_of(&layouts[i], low), above = value_of(&layouts[i], low + 1);
            float middle = below + (above - below) / 2;
            rounds_to(&layouts[i], middle, low % 2 == 0 ? low : low + 1);
            rounds_to(&layouts[i], nextafterf(middle, 0), low);
            rounds_to(&layouts[i], nextafterf(middle, HUGE_VALF), low + 1);
            rounds_to(&layouts[i], nextafterf(below, HUGE_VALF), low);
            rounds_to(&layouts[i], nextafterf(above, 0), low + 1);
        }
}

static void what_is_too_large_becomes_infinite(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(layouts); i++) {
        const struct layout *layout = &layouts[i];
        float step = ldexpf(1, ilogbf(layout->largest) - layout->n_digits);
        float tie = layout->largest + step / 2; /* half a step above the largest */
        rounds_to(layout, nextafterf(tie, 0), layout->infinite - 1u);
        rounds_to(layout, tie, layout->infinite);
        rounds_to(layout, FLT_MAX, layout->infinite);
        rounds_to(layout, HUGE_VALF, layout->infinite);
    }
}

static void not_a_number_stays_none(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(layouts); i++) {
        unsigned digits = (1u << layouts[i].n_digits) - 1;
        const uint32_t patterns[] = {0x7fc00000, 0xffc00000, 0x7f800001, 0x7fffffff};
        for (size_t n = 0; n < countof(patterns); n++) {
            float found = format_round(layouts[i].format, format_float(patterns[n]));
            uint16_t bits = format_encode(layouts[i].format, found);
            assert_true(isnan(found));
            assert_true((bits & layouts[i].infinite) == layouts[i].infinite && bits & digits);
        }
    }
}

static void any_float_goes_to_the_nearest(void **state)
{
    (void)state;
    struct rng rng = {.state = 77};
    for (size_t i = 0; i < countof(layouts); i++)
        for (unsigned n = 0; n < 1000000; n++) {
            float x = format_float((uint32_t)rng_next(&rng) & 0x7fffffffu);
            if (!(x <= layouts[i].largest))
                continue;
            int place = MAX(ilogbf(x), 1 - layouts[i].bias) - layouts[i].n_digits;
            double expected = ldexp(rint(ldexp((double)x, -place)), place);
            float found = format_round(layouts[i].format, x);
            if ((double)found != expected)
                fail_msg("format %d: %a becomes %a", (int)i, (double)x, (double)found);
        }
}

/* ---- rows ---- */

enum {
    LEN = 400
};

/* Gradients of 1e-30 and features of 1e30 keep their eleven digits, and no row disturbs another. */
static void rows_of_any_size_keep_their_digits_in_fp16(void **state)
{
    (void)state;
    const int powers[] = {0, 100, -100, 126, -126, -140, 17, -24};
    struct num_backend ref;
    float x[countof(powers)][LEN], rounded[countof(powers)][LEN];
    struct rng rng = {.state = 5};
    assert_int_equal(num_open(&ref, "ref", NULL), 0);
    for (size_t i = 0; i < countof(powers); i++)
        for (size_t j = 0; j < LEN; j++)
            x[i][j] = ldexpf((float)rng_unit(&rng) + 1, powers[i]); /* all of one size */
    memcpy(rounded, x, sizeof(x));
    ref.round(&ref, &(struct num_round){NUM_FP16, countof(powers), LEN, rounded});
    for (size_t i = 0; i < countof(powers); i++)
        for (size_t j = 0; j < LEN; j++) {
            double error = fabs((double)rounded[i][j] / (double)x[i][j] - 1);
            if (!(error <= 0x1p-11))
                fail_msg("2^%d: %a becomes %a", powers[i], (double)x[i][j], (double)rounded[i][j]);
        }
    memcpy(x, rounded, sizeof(x));
    ref.round(&ref, &(struct num_round){NUM_FP16, countof(powers), LEN, rounded});
    assert_memory_equal(x, rounded, sizeof(x)); /* once is enough */
    num_close(&ref);
}

static void a_row_of_zeros_and_one_that_is_not_finite_stay(void **state)
{
    (void)state;
    struct num_backend ref;
    float x[2][3] = {{0, -0.0f, 0}, {1e9f, (float)INFINITY, (float)NAN}};
    assert_int_equal(num_open(&ref, "ref", NULL), 0);
    ref.round(&ref, &(struct num_round){NUM_FP16, 2, 3, x});
    assert_true(x[0][0] == 0 && signbit(x[0][1]) && x[0][2] == 0);
    assert_true(fabsf(x[1][0] / 1e9f - 1) <= 0x1p-11f);
    assert_true(isinf(x[1][1]) && isnan(x[1][2]));
    num_close(&ref);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_of_a_format_stays_itself),
        cmocka_unit_test(what_lies_between_goes_to_the_nearest_and_ties_to_even),
        cmocka_unit_test(what_is_too_large_becomes_infinite),
        cmocka_unit_test(not_a_number_stays_none),
        cmocka_unit_test(any_float_goes_to_the_nearest),
        cmocka_unit_test(rows_of_any_size_keep_their_digits_in_fp16),
        cmocka_unit_test(a_row_of_zeros_and_one_that_is_not_finite_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
