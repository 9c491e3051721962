/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include <math.h>
#include <string.h>

#include "base/attr.h"
#include "base/rng.h"
#include "core/contest.h"

static struct contest *contest_of(uint32_t n_variants, uint32_t rounds_max)
{
    struct contest *c = contest_new(
        &(struct contest_wish){.n_variants = n_variants, .rounds_max = rounds_max, .near = 0.02});
    assert_non_null(c);
    return c;
}

static void took(struct contest *c, double seconds)
{
    contest_took(
        c, &(struct contest_run){.seconds = seconds, .figure = {1 / seconds, 1 / (seconds / 2)}});
}

/* Runs to the end; seconds of a run of each variant by the number of runs before it. */
struct machine {
    double seconds[8];
    double drift;        /* added to every run's factor for each run before it */
    double noise;        /* largest share by which a run differs */
    double round_factor; /* of every second round */
    struct rng rng;
};

static enum contest_end play(struct contest *c, struct machine *machine, uint32_t n_variants)
{
    for (uint32_t n = 0;; n++) {
        struct contest_step step = contest_next(c, 0);
        if (step.end != CONTEST_GOES_ON)
            return step.end;
        double factor = 1 + machine->drift * n;
        factor *= 1 + machine->noise * (2 * rng_unit(&machine->rng) - 1);
        if (machine->round_factor > 0 && n / n_variants % 2 == 1)
            factor *= machine->round_factor;
        took(c, machine->seconds[step.variant] * factor);
    }
}

static void every_variant_runs_once_a_round_and_two_rounds_mirror_each_other(void **state)
{
    (void)state;
    enum {
        VARIANTS = 5,
        ROUNDS = 8
    };
    struct contest *c = contest_of(VARIANTS, ROUNDS);
    uint32_t order[ROUNDS][VARIANTS];
    bool any_differs = false;
    for (uint32_t r = 0; r < ROUNDS; r++) {
        uint32_t seen = 0;
        for (uint32_t i = 0; i < VARIANTS; i++) {
            struct contest_step step = contest_next(c, 0);
            assert_int_equal(step.end, CONTEST_GOES_ON);
            assert_int_equal(contest_next(c, 0).variant, step.variant);
            order[r][i] = step.variant;
            seen |= 1u << step.variant;
            /* Too noisy to be settled. */
            took(c, 1 + 3 * ((r + step.variant) % 2));
        }
        assert_int_equal(seen, (1 << VARIANTS) - 1);
        assert_int_equal(contest_n_rounds(c), r);
    }
    for (uint32_t i = 0; i < VARIANTS; i++)
        assert_int_equal(order[0][i], i);
    for (uint32_t r = 0; r < ROUNDS; r += 2)
        for (uint32_t i = 0; i < VARIANTS; i++)
            assert_int_equal(order[r][i], order[r + 1][VARIANTS - 1 - i]);
    for (uint32_t r = 2; r < ROUNDS; r += 2)
        any_differs = any_differs || memcmp(order[r], order[0], sizeof(order[0])) != 0;
    assert_true(any_differs);
    assert_int_equal(contest_next(c, 0).end, CONTEST_ROUNDS);
    assert_int_equal(contest_next(c, 0).end, CONTEST_ROUNDS);
    assert_int_equal(contest_n_rounds(c), ROUNDS);
    contest_free(c);
}

static void clear_differences_end_it_after_three_rounds(void **state)
{
    (void)state;
    struct machine machine = {.seconds = {4, 2.02, 1.1}, .noise = 0.01};
    struct contest *c = contest_of(3, 20);
    uint32_t best = 9;
    assert_int_equal(play(c, &machine, 3), CONTEST_CLEAR);
    assert_int_equal(contest_n_rounds(c), 3);
    assert_int_equal(contest_compare(c, 1, 0, CONTEST_WHOLE), CONTEST_FASTER);
    assert_int_equal(contest_compare(c, 0, 2, CONTEST_LOADED), CONTEST_SLOWER);
    assert_true(contest_best(c, &best));
    assert_int_equal(best, 2);
    struct contest_ratio ratio = contest_ratio(c, 2, 0, CONTEST_WHOLE);
    assert_int_equal(ratio.spread.n, 3);
    assert_true(fabs(ratio.spread.median - 4 / 1.1) < 0.1);
    assert_true(ratio.low < ratio.spread.median && ratio.high > ratio.spread.median);
    contest_free(c);
}

static void a_round_that_went_wrong_does_not_hide_what_is_clear(void **state)
{
    (void)state;
    struct contest *c = contest_of(2, 20);
    for (uint32_t n = 0;; n++) {
        struct contest_step step = contest_next(c, 0);
        if (step.end != CONTEST_GOES_ON) {
            assert_int_equal(step.end, CONTEST_CLEAR);
            break;
        }
        /* In the second round the first variant stands still for a minute. */
        took(c, step.variant == 0 ? (n / 2 == 1 ? 60 : 2) : 1);
    }
    assert_int_equal(contest_n_rounds(c), 8);
    assert_int_equal(contest_compare(c, 1, 0, CONTEST_WHOLE), CONTEST_FASTER);
    contest_free(c);
}

static void variants_that_are_alike_end_it_when_that_is_certain(void **state)
{
    (void)state;
    struct machine machine = {.seconds = {1, 1.001}, .noise = 0.005};
    struct contest *c = contest_of(2, 50);
    assert_int_equal(play(c, &machine, 2), CONTEST_CLEAR);
    assert_true(contest_n_rounds(c) < 12);
    assert_int_equal(contest_compare(c, 1, 0, CONTEST_LOADED), CONTEST_ALIKE);
    contest_free(c);
}

static void one_variant_needs_three_rounds_for_its_spread(void **state)
{
    (void)state;
    struct machine machine = {.seconds = {1}, .noise = 0.2};
    struct contest *c = contest_of(1, 20);
    assert_int_equal(play(c, &machine, 1), CONTEST_CLEAR);
    assert_int_equal(contest_n_rounds(c), 3);
    contest_free(c);
}

static void all_rounds_are_run_if_that_is_wished(void **state)
{
    (void)state;
    struct machine machine = {.seconds = {4, 1}};
    struct contest *c = contest_new(
        &(struct contest_wish){.n_variants = 2, .rounds_max = 9, .near = 0.02, .runs_all = true});
    assert_int_equal(play(c, &machine, 2), CONTEST_ROUNDS);
    assert_int_equal(contest_n_runs(c, 0), 9);
    contest_free(c);
}

static void what_slows_a_whole_round_is_not_in_the_ratio(void **state)
{
    (void)state;
    struct machine machine = {.seconds = {2, 1}, .round_factor = 3};
    struct contest *c = contest_of(2, 10);
    assert_int_equal(play(c, &machine, 2), CONTEST_CLEAR);
    struct contest_ratio ratio = contest_ratio(c, 1, 0, CONTEST_WHOLE);
    assert_true(fabs(ratio.spread.min - 2) < 1e-9 && fabs(ratio.spread.max - 2) < 1e-9);
    assert_true(contest_seconds(c, 0).max > 2.9 * contest_seconds(c, 0).min);
    contest_free(c);
}

static void a_drift_favours_nobody(void **state)
{
    (void)state;
    struct machine machine = {.seconds = {1, 1}, .drift = 0.01};
    struct contest *c = contest_of(2, 40);
    play(c, &machine, 2);
    struct contest_ratio ratio = contest_ratio(c, 1, 0, CONTEST_WHOLE);
    assert_true(fabs(ratio.spread.median - 1) < 0.002);
    contest_free(c);
}

/*
 * How often it says that one of two equal variants is faster by more than nothing, over drawn
 * noise.
 */
static void equal_variants_are_rarely_told_apart(void **state)
{
    (void)state;
    enum {
        GAMES = 2000
    };
    uint32_t n_wrong = 0;
    for (uint64_t seed = 1; seed <= GAMES; seed++) {
        struct machine machine = {.seconds = {1, 1}, .noise = 0.08, .rng = {.state = seed * 7919}};
        struct contest *c = contest_of(2, 10);
        play(c, &machine, 2);
        enum contest_verdict verdict = contest_compare(c, 1, 0, CONTEST_WHOLE);
        n_wrong += verdict == CONTEST_FASTER || verdict == CONTEST_SLOWER;
        contest_free(c);
    }
    /* 1 % for each of eight looks, which depend on each other. */
    if (n_wrong > GAMES * 6 / 100)
        fail_msg("%u of %d", n_wrong, GAMES);
}

static void a_difference_of_a_tenth_is_found_in_that_noise(void **state)
{
    (void)state;
    enum {
        GAMES = 500
    };
    uint32_t n_found = 0;
    for (uint64_t seed = 1; seed <= GAMES; seed++) {
        struct machine machine = {
            .seconds = {1.1, 1}, .noise = 0.08, .rng = {.state = seed * 104729}};
        struct contest *c = contest_of(2, 20);
        play(c, &machine, 2);
        n_found += contest_compare(c, 1, 0, CONTEST_WHOLE) == CONTEST_FASTER;
        contest_free(c);
    }
    if (n_found < GAMES * 9 / 10)
        fail_msg("%u of %d", n_found, GAMES);
}

static void a_variant_that_fails_is_out_and_has_no_ratio(void **state)
{
    (void)state;
    struct contest *c = contest_of(3, 4);
    uint32_t n_of_variant[3] = {0};
    for (;;) {
        struct contest_step step = contest_next(c, 0);
        if (step.end != CONTEST_GOES_ON)
            break;
        n_of_variant[step.variant]++;
        if (step.variant == 1 && n_of_variant[1] == 2)
            contest_took(c, &(struct contest_run){.outcome = CONTEST_OOM, .seconds = 1});
        else
            took(c, step.variant == 0 ? 2 + n_of_variant[0] % 2 : 1);
    }
    assert_int_equal(n_of_variant[1], 2);
    assert_int_equal(n_of_variant[2], 4);
    assert_int_equal(contest_outcome(c, 1), CONTEST_OOM);
    assert_int_equal(contest_n_runs(c, 1), 1);
    assert_int_equal(contest_ratio(c, 1, 0, CONTEST_WHOLE).spread.n, 0);
    assert_int_equal(contest_ratio(c, 0, 1, CONTEST_WHOLE).spread.n, 0);
    assert_int_equal(contest_ratio(c, 2, 0, CONTEST_WHOLE).spread.n, 4);
    assert_int_equal(contest_compare(c, 1, 0, CONTEST_WHOLE), CONTEST_OPEN);
    contest_free(c);
}

static void others_are_settled_without_the_first_variant(void **state)
{
    (void)state;
    struct machine machine = {.seconds = {1, 4, 1}};
    struct contest *c = contest_of(3, 20);
    uint32_t best = 9;
    assert_int_equal(contest_next(c, 0).variant, 0);
    contest_took(c, &(struct contest_run){.outcome = CONTEST_FAILED});
    assert_int_equal(play(c, &machine, 3), CONTEST_CLEAR);
    assert_true(contest_best(c, &best));
    assert_int_equal(best, 2);
    contest_free(c);
}

/* The best is not the first: that two others differ from the first does not tell which of them is faster. */
static void what_is_alike_to_the_first_is_compared_with_the_best(void **state)
{
    (void)state;
    struct machine machine = {.seconds = {4, 1, 1.05}, .noise = 0.2};
    struct contest *c = contest_of(3, 6);
    assert_int_equal(play(c, &machine, 3), CONTEST_ROUNDS);
    assert_int_equal(contest_compare(c, 1, 0, CONTEST_WHOLE), CONTEST_FASTER);
    assert_int_equal(contest_compare(c, 2, 0, CONTEST_WHOLE), CONTEST_FASTER);
    assert_int_equal(contest_compare(c, 2, 1, CONTEST_WHOLE), CONTEST_OPEN);
    contest_free(c);
}

static void a_variant_without_figures_is_not_the_best(void **state)
{
    (void)state;
    const double figures[] = {0, (double)INFINITY, (double)NAN};
    struct contest *c = contest_of(1, 4);
    uint32_t variant;
    assert_int_equal(contest_deciding(c), CONTEST_WHOLE); /* nothing has run */
    for (uint32_t i = 0; i < countof(figures); i++) {
        assert_int_equal(contest_next(c, 0).end, CONTEST_GOES_ON);
        contest_took(c, &(struct contest_run){.seconds = 1, .figure = {figures[i], figures[i]}});
    }
    assert_int_equal(contest_next(c, 0).end, CONTEST_CLEAR);
    assert_int_equal(contest_figure(c, 0, CONTEST_WHOLE).n, 0);
    assert_false(contest_best(c, &variant));
    contest_free(c);
    contest_free(NULL);
}

static void when_all_are_out_nothing_is_left(void **state)
{
    (void)state;
    struct contest *c = contest_of(2, 4);
    uint32_t variant;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(contest_next(c, 0).end, CONTEST_GOES_ON);
        contest_took(c, &(struct contest_run){.outcome = CONTEST_FAILED});
    }
    assert_int_equal(contest_next(c, 0).end, CONTEST_NOTHING);
    assert_false(contest_best(c, &variant));
    assert_int_equal(contest_n_rounds(c), 0);
    contest_free(c);
}

static void a_ratio_is_of_the_rounds_in_which_both_ran(void **state)
{
    (void)state;
    struct contest *c = contest_of(2, 4);
    const double seconds[] = {2, 1, 0.5, 7}; /* 0 1 | 1 0 */
    for (int i = 0; i < 3; i++) {
        contest_next(c, 0);
        took(c, seconds[i]);
    }
    /* Interrupted here: variant 1 ran twice, variant 0 once. */
    assert_int_equal(contest_n_runs(c, 1), 2);
    struct contest_ratio ratio = contest_ratio(c, 1, 0, CONTEST_WHOLE);
    assert_int_equal(ratio.spread.n, 1);
    assert_true(fabs(ratio.spread.median - 2) < 1e-9);
    assert_true(isinf(ratio.high));
    assert_int_equal(contest_ratio(c, 0, 1, CONTEST_WHOLE).spread.n, 1);
    contest_free(c);
}

static void runs_of_other_work_are_not_compared(void **state)
{
    (void)state;
    struct contest *c = contest_of(3, 4);
    const uint64_t n_items[] = {100, 99, 0}; /* the last one does not tell */
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(contest_next(c, 0).variant, i);
        contest_took(c,
                     &(struct contest_run){.seconds = 1, .figure = {1, 0}, .n_items = n_items[i]});
    }
    assert_int_equal(contest_outcome(c, 0), CONTEST_OK);
    assert_int_equal(contest_outcome(c, 1), CONTEST_OTHER_WORK);
    assert_int_equal(contest_outcome(c, 2), CONTEST_OK);
    contest_free(c);
}

static void rates_of_items_and_of_runs_are_not_compared(void **state)
{
    (void)state;
    for (int is_piece_first = 0; is_piece_first < 2; is_piece_first++) {
        struct contest *c = contest_of(2, 4);
        for (int i = 0; i < 2; i++) {
            bool is_piece = (i == 0) == (is_piece_first == 1);
            contest_next(c, 0);
            contest_took(c, &(struct contest_run){.seconds = 1,
                                                  .figure = {1, 0},
                                                  .n_items = is_piece ? 0 : 100,
                                                  .is_piece = is_piece});
        }
        assert_int_equal(contest_outcome(c, 0), CONTEST_OK);
        assert_int_equal(contest_outcome(c, 1), CONTEST_OTHER_WORK);
        assert_int_equal(contest_n_items(c), is_piece_first ? 0 : 100);
        contest_free(c);
    }
}

static void the_loaded_rate_decides_where_all_have_one(void **state)
{
    (void)state;
    struct contest *c = contest_of(2, 4);
    for (int i = 0; i < 2; i++) {
        contest_next(c, 0);
        contest_took(c, &(struct contest_run){.seconds = 1, .figure = {1, 2}});
    }
    assert_int_equal(contest_deciding(c), CONTEST_LOADED);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(contest_deciding(c), CONTEST_LOADED);
        contest_next(c, 0);
        contest_took(c, &(struct contest_run){.seconds = 1, .figure = {1, (double)NAN}});
    }
    assert_int_equal(contest_deciding(c), CONTEST_WHOLE); /* one of three */
    contest_free(c);
}

static void no_run_begins_that_would_end_too_late(void **state)
{
    (void)state;
    struct contest *c = contest_new(
        &(struct contest_wish){.n_variants = 2, .rounds_max = 9, .near = 0.02, .seconds_max = 10});
    assert_int_equal(contest_next(c, 0).end, CONTEST_GOES_ON);
    took(c, 4);
    /* Nothing is known of the second variant, so it is tried. */
    assert_int_equal(contest_next(c, 9).end, CONTEST_GOES_ON);
    assert_int_equal(contest_next(c, 10).end, CONTEST_TIME);
    took(c, 1);
    assert_int_equal(contest_next(c, 8.9).end, CONTEST_GOES_ON);
    took(c, 1);
    assert_int_equal(contest_next(c, 5).end, CONTEST_GOES_ON);
    assert_int_equal(contest_next(c, 6.1).end, CONTEST_TIME);
    contest_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_variant_runs_once_a_round_and_two_rounds_mirror_each_other),
        cmocka_unit_test(clear_differences_end_it_after_three_rounds),
        cmocka_unit_test(a_round_that_went_wrong_does_not_hide_what_is_clear),
        cmocka_unit_test(variants_that_are_alike_end_it_when_that_is_certain),
        cmocka_unit_test(one_variant_needs_three_rounds_for_its_spread),
        cmocka_unit_test(all_rounds_are_run_if_that_is_wished),
        cmocka_unit_test(what_slows_a_whole_round_is_not_in_the_ratio),
        cmocka_unit_test(a_drift_favours_nobody),
        cmocka_unit_test(equal_variants_are_rarely_told_apart),
        cmocka_unit_test(a_difference_of_a_tenth_is_found_in_that_noise),
        cmocka_unit_test(a_variant_that_fails_is_out_and_has_no_ratio),
        cmocka_unit_test(others_are_settled_without_the_first_variant),
        cmocka_unit_test(what_is_alike_to_the_first_is_compared_with_the_best),
        cmocka_unit_test(a_variant_without_figures_is_not_the_best),
        cmocka_unit_test(when_all_are_out_nothing_is_left),
        cmocka_unit_test(a_ratio_is_of_the_rounds_in_which_both_ran),
        cmocka_unit_test(runs_of_other_work_are_not_compared),
        cmocka_unit_test(rates_of_items_and_of_runs_are_not_compared),
        cmocka_unit_test(the_loaded_rate_decides_where_all_have_one),
        cmocka_unit_test(no_run_begins_that_would_end_too_late),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
