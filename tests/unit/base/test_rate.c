/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "base/parse.h"
#include "base/rate.h"

static void assert_about(double found, double expected, double percent)
{
    if (found < expected * (1 - percent / 100) || found > expected * (1 + percent / 100))
        fail_msg("%g is not within %g %% of %g", found, percent, expected);
}

/* `each` items come together every `every_ms`, but for `spread_ms` in which they trickle in; looked at ten times a second. */
static void come(struct rate *rate, uint64_t from_ms, uint64_t to_ms, uint64_t each,
                 uint64_t every_ms, uint64_t spread_ms)
{
    for (uint64_t now = from_ms; now <= to_ms; now += 100) {
        uint64_t n_whole = now / every_ms, into_ms = now % every_ms;
        uint64_t part = into_ms + spread_ms >= every_ms
                            ? each * (into_ms + spread_ms - every_ms) / spread_ms
                            : 0;
        rate_note(rate, n_whole * each + (spread_ms > 0 ? part : 0), now);
    }
}

static void a_steady_count_has_its_rate(void **state)
{
    (void)state;
    struct rate rate = {0};
    assert_true(rate_per_s(&rate, 0) == 0);
    rate_begin(&rate, 0, 0);
    assert_true(rate_per_s(&rate, 100) == 0);
    for (uint64_t now = 100; now <= 60000; now += 100) {
        rate_note(&rate, now * 250, now);
        assert_about(rate_per_s(&rate, now), 250000, 1);
    }
}

static void answers_that_come_together_are_one_step(void **state)
{
    (void)state;
    static const struct {
        uint64_t each, every_ms, spread_ms;
    } cases[] = {{20, 1000, 0}, {20, 1000, 200}, {8, 800, 300},
                 {1, 7000, 0},  {2, 7000, 300},  {64, 30000, 2000}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rate rate = {0};
        uint64_t every_ms = cases[i].every_ms;
        double true_per_s = (double)cases[i].each * 1000.0 / (double)every_ms;
        rate_begin(&rate, 0, 0);
        for (uint64_t n = 1; n < 40; n++) {
            come(&rate, (n - 1) * every_ms + 100, n * every_ms, cases[i].each, every_ms,
                 cases[i].spread_ms);
            assert_about(rate_per_s(&rate, n * every_ms), true_per_s, 12);
            assert_about(rate_per_s(&rate, n * every_ms + every_ms / 2), true_per_s, 12);
        }
    }
}

static void it_follows_a_change_and_falls_while_nothing_comes(void **state)
{
    (void)state;
    struct rate rate = {0};
    rate_begin(&rate, 0, 0);
    for (uint64_t now = 100; now <= 20000; now += 100)
        rate_note(&rate, now, now);
    for (uint64_t now = 20100; now <= 40000; now += 100)
        rate_note(&rate, 20000 + (now - 20000) / 10, now);
    assert_about(rate_per_s(&rate, 40000), 100, 5);
    assert_about(rate_per_s(&rate, 100000), 550.0 / 65, 5);
    assert_about(rate_per_s(&rate, 400000), 550.0 / 365, 5);
}

static void a_long_pause_is_soon_forgotten(void **state)
{
    (void)state;
    struct rate rate = {0};
    uint64_t count = 0;
    rate_begin(&rate, 0, 0);
    for (uint64_t now = 600000; now <= 630000; now += 100) /* the first item took ten minutes */
        rate_note(&rate, ++count, now);
    assert_about(rate_per_s(&rate, 630000), 10, 5);
    for (uint64_t now = 930000; now <= 960000; now += 100) /* and a new load five */
        rate_note(&rate, ++count, now);
    assert_about(rate_per_s(&rate, 960000), 10, 5);
}

static void a_smaller_count_and_a_clock_that_is_behind_do_no_harm(void **state)
{
    (void)state;
    struct rate rate = {0};
    rate_begin(&rate, 0, 1000);
    rate_note(&rate, 5, 900);
    assert_true(rate_per_s(&rate, 900) > 0);
    rate_note(&rate, 2, 3000);
    assert_true(rate_per_s(&rate, 3000) == 0);
    rate_note(&rate, 4, 5000);
    assert_about(rate_per_s(&rate, 5000), 1, 1);
}

static void rates_and_percentages_as_text(void **state)
{
    (void)state;
    char text[24];
    static const struct {
        double per_s;
        const char *text;
    } cases[] = {{0, "0"}, {0.0833, "0.0833"}, {19.64, "19.6"}, {2, "2"}, {1234.6, "1235"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        figures_format(text, cases[i].per_s);
        assert_string_equal(text, cases[i].text);
    }
    assert_true(percent_of(1999, 2000) == 99.9);
    assert_true(percent_of(UINT64_MAX - 1, UINT64_MAX) == 99.9);
    assert_true(percent_of(2000, 2000) == 100);
    assert_true(percent_of(5, 6) == 83.3);
    assert_true(percent_of(0, 6) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_steady_count_has_its_rate),
        cmocka_unit_test(answers_that_come_together_are_one_step),
        cmocka_unit_test(it_follows_a_change_and_falls_while_nothing_comes),
        cmocka_unit_test(a_long_pause_is_soon_forgotten),
        cmocka_unit_test(a_smaller_count_and_a_clock_that_is_behind_do_no_harm),
        cmocka_unit_test(rates_and_percentages_as_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
