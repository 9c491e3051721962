/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include <math.h>
#include <string.h>

#include "base/attr.h"
#include "base/rng.h"
#include "core/fit.h"

#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

/* A device and a program, in numbers. */
struct world {
    uint64_t device_bytes, fixed_bytes, item_bytes,
        step_bytes; /* peaks are rounded up to step_bytes */
    double rate_max,
        half;     /* items per second: rate_max * batch / (batch + half); rate_max 0: not known */
    double noise; /* runs are slower by up to this share */
    bool has_no_peaks;
    uint64_t fails_from, slow_from; /* sizes; 0: never */
    struct rng rng;
    uint32_t n_trials;
};

static uint64_t world_peak(const struct world *w, uint64_t batch)
{
    uint64_t bytes = w->fixed_bytes + w->item_bytes * batch, step = MAX(w->step_bytes, (uint64_t)1);
    return (bytes + step - 1) / step * step;
}

static double world_rate(const struct world *w, uint64_t batch)
{
    return w->rate_max * (double)batch / ((double)batch + w->half);
}

static struct fit_trial world_try(struct world *w, uint64_t batch)
{
    struct fit_trial trial = {.batch = batch};
    uint64_t peak_bytes = world_peak(w, batch);
    w->n_trials++;
    if (peak_bytes > w->device_bytes)
        trial.outcome = FIT_OOM;
    else if (w->fails_from > 0 && batch >= w->fails_from)
        trial.outcome = FIT_FAILED;
    else if (w->slow_from > 0 && batch >= w->slow_from)
        trial.outcome = FIT_TIMEOUT;
    trial.peak_bytes = w->has_no_peaks ? 0 : peak_bytes;
    trial.rate = world_rate(w, batch) * (1 - w->noise * rng_unit(&w->rng));
    return trial;
}

/* Runs the search to its end, and checks each step. */
static struct fit_result search(struct fit *fit, struct world *w, const struct fit_wish *wish)
{
    struct fit_result result;
    uint64_t out = UINT64_MAX, multiple = MAX(wish->multiple, (uint64_t)1);
    fit_begin(fit, wish);
    for (struct fit_step step; (step = fit_next(fit)).kind == FIT_TRY;) {
        struct fit_trial trial = world_try(w, step.batch);
        assert_true(step.batch > 0 && step.batch % multiple == 0);
        assert_true(step.batch <= MAX(wish->max, multiple));
        if (step.batch >= out)
            fail_msg("%lu is tried, though %lu is out", step.batch, out);
        if (trial.outcome != FIT_OK)
            out = step.batch;
        fit_took(fit, &trial);
        assert_true(w->n_trials < 200);
    }
    fit_result(fit, &result);
    return result;
}

static const struct fit_wish usual = {.start = 1, .max = 65536, .n_repeats = 2, .near = 0.03};

static struct fit_wish usual_below(uint64_t limit_bytes)
{
    struct fit_wish wish = usual;
    wish.limit_bytes = limit_bytes;
    return wish;
}

static void memory_bounds_a_program_whose_rate_grows_with_the_batch(void **state)
{
    (void)state;
    struct fit fit;
    struct world w = {.device_bytes = 80 * GIB,
                      .fixed_bytes = 15 * GIB,
                      .item_bytes = 500 * MIB,
                      .rate_max = 1000,
                      .half = 1e6};
    struct fit_wish wish = usual_below(76 * GIB);
    struct fit_result result = search(&fit, &w, &wish);
    assert_int_equal(result.bound, FIT_BOUND_MEMORY);
    assert_true(result.batch >= 117 && result.batch <= 124); /* 124.9 items fit into 61 GiB */
    assert_true(result.peak_bytes <= 76 * GIB);
    assert_true(result.line.is_known);
    assert_true(fabs(result.line.fixed_bytes - (double)(15 * GIB)) < 1e3);
    assert_true(fabs(result.line.item_bytes - (double)(500 * MIB)) < 1e3);
    assert_true(w.n_trials <= 12);
    for (size_t i = 0; i < fit.n_sizes; i++) /* the line is believed: nothing runs out of memory */
        assert_int_equal(fit.sizes[i].outcome, FIT_OK);
}

static void without_peaks_running_out_of_memory_bounds_the_size(void **state)
{
    (void)state;
    struct fit fit;
    struct world w = {.device_bytes = 1000, .item_bytes = 10, .has_no_peaks = true};
    struct fit_wish wish = usual_below(950);
    struct fit_result result = search(&fit, &w, &wish);
    assert_int_equal(result.bound, FIT_BOUND_MEMORY);
    assert_true(result.batch >= 94 && result.batch <= 100);
    assert_false(result.line.is_known);
    assert_int_equal(result.peak_bytes, 0);
}

static void the_smallest_size_that_is_as_fast_is_the_best(void **state)
{
    (void)state;
    struct fit fit;
    struct world w = {.device_bytes = 80 * GIB,
                      .fixed_bytes = GIB,
                      .item_bytes = MIB,
                      .rate_max = 100,
                      .half = 4};
    struct fit_wish wish = usual_below(76 * GIB);
    struct fit_result result = search(&fit, &w, &wish);
    /* 128/132 = 0.970, and 512/516 = 0.992 is 2.3 % more by two doublings. */
    assert_int_equal(result.bound, FIT_BOUND_RATE);
    assert_int_equal(result.batch, 128);
    assert_int_equal(fit.sizes[fit.n_sizes - 1].batch, 512);
    assert_int_equal(fit.sizes[fit.n_sizes - 1].n_runs, 2);
    assert_int_equal(fit.sizes[fit.n_sizes - 2].n_runs, 2);
}

static void sizes_are_multiples_and_within_their_limits(void **state)
{
    (void)state;
    struct fit fit;
    struct world w = {.device_bytes = GIB, .item_bytes = 1, .rate_max = 1, .half = 1e9};
    struct fit_wish wish = usual;
    wish.start = 3, wish.multiple = 8, wish.max = 100;
    struct fit_result result = search(&fit, &w, &wish);
    assert_int_equal(fit.sizes[0].batch, 8);
    assert_int_equal(result.batch, 96);
    assert_int_equal(result.bound, FIT_BOUND_MAX);
    wish.max = 3;
    w.n_trials = 0;
    result = search(&fit, &w, &wish);
    assert_int_equal(result.batch, 8);
    assert_int_equal(fit.n_sizes, 1);
}

static void a_first_size_that_does_not_fit_is_halved(void **state)
{
    (void)state;
    struct fit fit;
    struct world w = {.device_bytes = 100, .item_bytes = 9};
    struct fit_wish wish = usual_below(95);
    wish.start = 64;
    struct fit_result result = search(&fit, &w, &wish);
    assert_int_equal(result.batch, 10);
    w = (struct world){.device_bytes = 100, .fixed_bytes = 99, .item_bytes = 9};
    result = search(&fit, &w, &wish);
    assert_int_equal(result.batch, 0);
    assert_int_equal(result.bound, FIT_BOUND_NONE);
    assert_int_equal(fit.sizes[0].batch, 1); /* nothing is said of a size that was not tried */
    w = (struct world){.device_bytes = 100, .fixed_bytes = 96, .item_bytes = 1};
    result = search(&fit, &w, &wish);
    assert_int_equal(result.batch, 0); /* it runs, and not below the limit */
    assert_int_equal(fit.sizes[0].outcome, FIT_OK);
}

static void a_first_size_that_fails_is_refused_and_a_later_one_bounds(void **state)
{
    (void)state;
    struct fit fit;
    struct world w = {.device_bytes = 1000, .item_bytes = 1, .fails_from = 1};
    struct fit_wish wish = usual_below(950);
    (void)search(&fit, &w, &wish);
    assert_int_equal(fit_next(&fit).kind, FIT_REFUSED);
    w = (struct world){.device_bytes = 1000, .item_bytes = 1, .fails_from = 100};
    struct fit_result result = search(&fit, &w, &wish);
    assert_int_equal(result.bound, FIT_BOUND_FAILURE);
    assert_true(result.batch >= 93 && result.batch < 100);
    w = (struct world){.device_bytes = 1000, .item_bytes = 1, .slow_from = 100};
    result = search(&fit, &w, &wish);
    assert_int_equal(result.bound, FIT_BOUND_TIME);
    assert_int_equal(result.batch, 64); /* what takes too long is tried once */
    assert_int_equal(w.n_trials, 8);
    w = (struct world){.device_bytes = 1000, .item_bytes = 1, .slow_from = 1};
    (void)search(&fit, &w, &wish);
    assert_int_equal(fit_next(&fit).kind, FIT_REFUSED);
}

static void there_is_an_end_however_large_the_sizes(void **state)
{
    (void)state;
    struct fit fit;
    struct world w = {.device_bytes = UINT64_MAX, .fixed_bytes = 1, .has_no_peaks = true};
    struct fit_wish wish = usual;
    wish.max = UINT64_MAX;
    struct fit_result result = search(&fit, &w, &wish);
    assert_int_equal(fit.n_sizes, FIT_SIZES_MAX);
    assert_int_equal(result.batch, (uint64_t)1 << 63);
    wish.limit_bytes = UINT64_MAX; /* the line says more than a number holds */
    fit_begin(&fit, &wish);
    fit_took(&fit, &(struct fit_trial){.batch = 1, .peak_bytes = 100});
    fit_took(&fit, &(struct fit_trial){.batch = 2, .peak_bytes = 101});
    assert_int_equal(fit_next(&fit).batch, 4);
}

static void a_peak_that_falls_is_told_and_makes_no_line(void **state)
{
    (void)state;
    struct fit fit;
    struct fit_result result;
    static const uint64_t peaks[] = {100, 200, 150, 800};
    fit_begin(&fit, &usual);
    for (size_t i = 0; i < countof(peaks); i++)
        fit_took(&fit, &(struct fit_trial){.batch = 1ul << i, .peak_bytes = peaks[i]});
    fit_result(&fit, &result);
    assert_true(result.peak_falls);
    assert_false(result.line.is_known);
    assert_int_equal(result.batch, 8);
}

static void odd_peaks_do_not_tilt_the_line(void **state)
{
    (void)state;
    struct fit fit;
    fit_begin(&fit, &usual);
    for (uint64_t i = 0; i < 7; i++)
        fit_took(&fit,
                 &(struct fit_trial){.batch = 1ul << i,
                                     .peak_bytes = 1000 + 10 * (1ul << i) + (i == 2 ? 900 : 0)});
    assert_false(fit_line_of(&fit).is_known); /* 1940, then 1080 */
    fit.sizes[2].peak_bytes = 1085;           /* a little too much at 4 */
    struct fit_line line = fit_line_of(&fit);
    assert_true(line.is_known);
    assert_true(fabs(line.item_bytes - 10) < 0.01 && fabs(line.fixed_bytes - 1000) < 0.5);
}

/* Sizes 1, 2 and 4 with these rates. */
static void three_sizes(struct fit *fit, double first, double second, double third)
{
    fit_begin(fit, &usual);
    fit_took(fit, &(struct fit_trial){.batch = 1, .rate = first});
    assert_int_equal(fit_next(fit).batch, 2);
    fit_took(fit, &(struct fit_trial){.batch = 2, .rate = second});
    assert_int_equal(fit_next(fit).batch, 4);
    fit_took(fit, &(struct fit_trial){.batch = 4, .rate = third});
}

static void a_size_that_ends_well_once_and_not_again_is_out(void **state)
{
    (void)state;
    struct fit fit;
    struct fit_result result;
    three_sizes(&fit, 10, 10, 10);
    assert_int_equal(fit_next(&fit).batch, 4); /* no faster: once more */
    fit_took(&fit, &(struct fit_trial){.batch = 4, .outcome = FIT_OOM});
    assert_true(fit.is_unsteady);
    assert_int_equal(fit_next(&fit).batch, 3);
    fit_took(&fit, &(struct fit_trial){.batch = 3, .outcome = FIT_OOM});
    for (uint64_t batch = 1; batch <= 2; batch++) { /* which of both is faster is not sure yet */
        assert_int_equal(fit_next(&fit).batch, batch);
        fit_took(&fit, &(struct fit_trial){.batch = batch, .rate = 9 + (double)batch});
    }
    assert_int_equal(fit_next(&fit).kind, FIT_END);
    fit_result(&fit, &result);
    assert_int_equal(result.batch, 2);
    assert_int_equal(result.bound, FIT_BOUND_MEMORY);
}

static void a_single_size_is_not_repeated(void **state)
{
    (void)state;
    struct fit fit;
    fit_begin(&fit, &usual);
    fit_took(&fit, &(struct fit_trial){.batch = 1, .rate = 10});
    fit_took(&fit, &(struct fit_trial){.batch = 2, .outcome = FIT_OOM});
    assert_int_equal(fit_next(&fit).kind, FIT_END);
}

static void one_slow_size_does_not_end_the_search(void **state)
{
    (void)state;
    struct fit fit;
    three_sizes(&fit, 10, 12, 8);
    assert_int_equal(fit_next(&fit).batch, 8);
    fit_took(&fit, &(struct fit_trial){.batch = 8, .rate = 20});
    assert_int_equal(fit_next(&fit).batch, 16);
}

static void the_fastest_of_the_runs_of_a_size_counts(void **state)
{
    (void)state;
    struct fit fit;
    three_sizes(&fit, 10, 10, 10);
    assert_int_equal(fit_next(&fit).batch, 4);
    fit_took(&fit, &(struct fit_trial){.batch = 4, .rate = 8});
    assert_int_equal(fit_next(&fit).batch, 2);
    fit_took(&fit, &(struct fit_trial){.batch = 2, .rate = 20});
    assert_int_equal(fit_next(&fit).batch, 8);
}

/* A buffer that the first size does not need looks like memory for each item. */
static void a_line_through_two_sizes_does_not_end_the_search(void **state)
{
    (void)state;
    struct fit fit;
    struct fit_wish wish = usual_below(100);
    fit_begin(&fit, &wish);
    fit_took(&fit, &(struct fit_trial){.batch = 1, .peak_bytes = 10});
    fit_took(&fit, &(struct fit_trial){.batch = 2, .peak_bytes = 60});
    assert_int_equal(fit_next(&fit).batch, 3);
    fit_took(&fit, &(struct fit_trial){.batch = 3, .peak_bytes = 61});
    assert_int_equal(fit_next(&fit).kind, FIT_TRY);
    wish.limit_bytes = 59; /* the same, with a size that is out */
    fit_begin(&fit, &wish);
    fit_took(&fit, &(struct fit_trial){.batch = 4, .peak_bytes = 10});
    fit_took(&fit, &(struct fit_trial){.batch = 8, .peak_bytes = 60});
    assert_int_equal(fit_next(&fit).batch, 7);
    fit_begin(&fit, &wish);
    fit_took(&fit, &(struct fit_trial){.batch = 1, .peak_bytes = 10});
    fit_took(&fit, &(struct fit_trial){.batch = 3, .peak_bytes = 120});
    assert_int_equal(fit_next(&fit).batch, 2); /* by the line, 1 is the largest */
}

static void nonsense_is_no_rate(void **state)
{
    (void)state;
    static const double rates[] = {NAN, INFINITY, -1, 0, 1e300, 1e-300};
    for (size_t i = 0; i < countof(rates); i++) {
        struct fit fit;
        fit_begin(&fit, &usual);
        fit_took(&fit, &(struct fit_trial){.batch = 1, .rate = rates[i]});
        assert_true(fit.sizes[0].rate == 0);
        assert_int_equal(fit_next(&fit).batch, 2);
    }
}

/* ---- drawn devices and programs ---- */

static double drawn_log(struct rng *rng, double low, double high)
{
    return exp(log(low) + rng_unit(rng) * (log(high) - log(low)));
}

static struct world world_draw(struct rng *rng)
{
    struct world w = {.device_bytes = (uint64_t)drawn_log(rng, (double)GIB, 200.0 * (double)GIB)};
    w.fixed_bytes = (uint64_t)(rng_unit(rng) * (double)w.device_bytes);
    w.item_bytes = (uint64_t)drawn_log(rng, 1e4, (double)w.device_bytes);
    w.step_bytes = rng_below(rng, 2) ? 2 * MIB : 1;
    w.rate_max = rng_below(rng, 4) ? drawn_log(rng, 1e-3, 1e6) : 0;
    w.half = drawn_log(rng, 0.1, 1e5);
    w.noise = (const double[]){0, 0.01, 0.5}[rng_below(rng, 3)] * rng_unit(rng);
    w.has_no_peaks = rng_below(rng, 5) == 0;
    w.rng = (struct rng){rng_next(rng)};
    return w;
}

/* The largest multiple that surely fits below the limit, or on the device where peaks are not
 * known. The line between peaks that are rounded up is uncertain by a step or two. */
static uint64_t largest_of(const struct world *w, const struct fit_wish *wish)
{
    uint64_t low = 0, high = wish->max / wish->multiple + 1;
    uint64_t limit = w->has_no_peaks ? w->device_bytes : wish->limit_bytes - 2 * w->step_bytes;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        *(world_peak(w, middle * wish->multiple) <= limit ? &low : &high) = middle;
    }
    return low * wish->multiple;
}

static void world_check(uint64_t seed)
{
    struct rng rng = {seed};
    struct fit fit;
    struct world w = world_draw(&rng);
    struct fit_wish wish = {.start = 1 + rng_below(&rng, 100),
                            .max = 1 + rng_below(&rng, 100000),
                            .multiple = 1 + rng_below(&rng, 3) * 7,
                            .n_repeats = 1 + (uint32_t)rng_below(&rng, 3),
                            .near = 0.03,
                            .limit_bytes = w.device_bytes - w.device_bytes / 20};
    wish.max = MAX(wish.max, wish.multiple);
    struct fit_result result = search(&fit, &w, &wish);
    uint64_t largest = largest_of(&w, &wish),
             limit = w.has_no_peaks ? w.device_bytes : wish.limit_bytes;
    double enough = w.rate_max > 0 ? 0.84 * world_rate(&w, largest) : 0;
    if (result.batch > 0 && world_peak(&w, result.batch) > limit)
        fail_msg("seed %lu: %lu does not fit", seed, result.batch);
    if (largest > 0 && result.batch == 0)
        fail_msg("seed %lu: %lu fits and nothing was found", seed, largest);
    if (result.batch > 0 && w.noise <= 0.01 && world_rate(&w, result.batch) < enough)
        fail_msg("seed %lu: %lu is slow; %lu fits", seed, result.batch, largest);
    if (w.rate_max <= 0 && (double)result.batch < 0.84 * (double)largest - (double)wish.multiple)
        fail_msg("seed %lu: %lu is found; %lu fits", seed, result.batch, largest);
    if (w.n_trials > 45)
        fail_msg("seed %lu: %u trials", seed, w.n_trials);
}

static void drawn_programs_get_a_size_that_fits_and_is_fast(void **state)
{
    (void)state;
    uint64_t n = getenv("UNDER_VALGRIND") ? 300 : UNDER_ASAN ? 5000 : 100000;
    for (uint64_t seed = 1; seed <= n; seed++)
        world_check(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_bounds_a_program_whose_rate_grows_with_the_batch),
        cmocka_unit_test(without_peaks_running_out_of_memory_bounds_the_size),
        cmocka_unit_test(the_smallest_size_that_is_as_fast_is_the_best),
        cmocka_unit_test(sizes_are_multiples_and_within_their_limits),
        cmocka_unit_test(a_first_size_that_does_not_fit_is_halved),
        cmocka_unit_test(a_first_size_that_fails_is_refused_and_a_later_one_bounds),
        cmocka_unit_test(there_is_an_end_however_large_the_sizes),
        cmocka_unit_test(a_peak_that_falls_is_told_and_makes_no_line),
        cmocka_unit_test(odd_peaks_do_not_tilt_the_line),
        cmocka_unit_test(a_size_that_ends_well_once_and_not_again_is_out),
        cmocka_unit_test(a_single_size_is_not_repeated),
        cmocka_unit_test(one_slow_size_does_not_end_the_search),
        cmocka_unit_test(the_fastest_of_the_runs_of_a_size_counts),
        cmocka_unit_test(a_line_through_two_sizes_does_not_end_the_search),
        cmocka_unit_test(nonsense_is_no_rate),
        cmocka_unit_test(drawn_programs_get_a_size_that_fits_and_is_fast),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
