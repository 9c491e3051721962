/* SPDX-License-Identifier: Apache-2.0
 *
 * Forecasts whose answer can be worked out by hand.
 */
#include "unit/test.h"

#include "base/attr.h"
#include "sim/forecast.h"

static const struct forecast_opts plain = {
    .config = {.feed = {.retries = 2},
               .n_items = 1000,
               .seed = 1,
               .service = {.kind = DIST_CONSTANT, .mean_ms = 100},
               .load = {.kind = DIST_CONSTANT, .mean_ms = 5000}},
    .n_runs = 5,
};

static struct forecast_row forecast(const struct forecast_opts *opts, uint32_t n_devices)
{
    struct forecast_row row;
    assert_int_equal(forecast_run(opts, n_devices, &row), 0);
    return row;
}

static void constant_times_leave_nothing_to_luck(void **state)
{
    (void)state;
    struct forecast_row row = forecast(&plain, 4);
    assert_int_equal(row.wall_us, 5000000 + 25000000);
    assert_int_equal(row.wall_low_us, row.wall_high_us);
    assert_int_equal(row.static_us, row.wall_us);
    assert_true(row.speedup > 3.33 && row.speedup < 3.34);
    assert_true(row.efficiency > 0.833 && row.efficiency < 0.834);
    assert_true(row.device_hours * 3600 > 119.9 && row.device_hours * 3600 < 120.1);
    assert_int_equal(row.worst_end, SIM_DONE);
}

static void a_slow_device_holds_up_a_split_and_not_a_feed(void **state)
{
    (void)state;
    struct forecast_opts opts = plain;
    opts.slow = (struct forecast_slow){.n_devices = 1, .factor = 3};
    struct forecast_row row = forecast(&opts, 4);
    assert_int_equal(row.static_us, 5000000 + 75000000);
    /* 3 1/3 devices' worth of work: 30 s, and at most an item of the slow one more */
    assert_in_range(row.wall_us, 35000000, 35300000);
}

static void a_filter_has_one_item_in_work_whatever_the_concurrency(void **state)
{
    (void)state;
    struct forecast_opts opts = plain;
    opts.config.kind = SIM_FILTER;
    struct forecast_row alone = forecast(&opts, 4);
    opts.config.concurrency = 10;
    struct forecast_row row = forecast(&opts, 4);
    assert_int_equal(row.static_us, 5000000 + 25000000);
    assert_int_equal(row.wall_us, alone.wall_us);
    assert_true(row.efficiency > 0.8);
    opts.config.kind = SIM_CHANNEL;
    row = forecast(&opts, 4);
    assert_int_equal(row.static_us, 5000000 + 2500000);
}

static void spread_times_spread_the_answer(void **state)
{
    (void)state;
    struct forecast_opts opts = plain;
    opts.config.service = (struct dist){.kind = DIST_LOG_NORMAL, .mean_ms = 100, .spread = 1.5};
    opts.n_runs = 20;
    struct forecast_row row = forecast(&opts, 4);
    assert_true(row.wall_low_us < row.wall_us && row.wall_us < row.wall_high_us);
    assert_true(row.static_us > row.wall_us);
}

static void a_death_costs_a_load_and_half_an_item(void **state)
{
    (void)state;
    struct forecast_opts opts = plain;
    opts.n_runs = 40;
    double cost_us = forecast_death_us(&opts, 4);
    /* a little less on the mean: who dies near the end is not started again */
    assert_true(cost_us > 4700000 && cost_us < 5150000);
}

static void a_run_that_cannot_end_says_so(void **state)
{
    (void)state;
    struct forecast_opts opts = plain;
    opts.config.faults.start_fail = 1;
    struct forecast_row row = forecast(&opts, 2);
    assert_int_equal(row.worst_end, SIM_HALTED);
    assert_int_equal(row.halt, HALT_NO_RESULT);
    assert_true(row.speedup == 0);
}

static void the_best_row_is_the_largest_that_is_used_well(void **state)
{
    (void)state;
    const struct forecast_row rows[] = {
        {.n_devices = 1, .efficiency = 0.99, .wall_high_us = 900},
        {.n_devices = 8, .efficiency = 0.60, .wall_high_us = 200},
        {.n_devices = 4, .efficiency = 0.85, .wall_high_us = 300},
        {.n_devices = 2, .efficiency = 0.97, .wall_high_us = 500},
    };
    assert_int_equal(forecast_best(rows, 4, 0.8, 0), 2);
    assert_int_equal(forecast_best(rows, 4, 0.999, 0), 0);
    assert_int_equal(forecast_best(rows, 4, 0.8, 500), 3);
    assert_int_equal(forecast_best(rows, 4, 0.8, 100), 4);
    struct forecast_row halted = rows[0];
    halted.worst_end = SIM_HALTED;
    assert_int_equal(forecast_best(&halted, 1, 0.8, 0), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constant_times_leave_nothing_to_luck),
        cmocka_unit_test(a_slow_device_holds_up_a_split_and_not_a_feed),
        cmocka_unit_test(a_filter_has_one_item_in_work_whatever_the_concurrency),
        cmocka_unit_test(spread_times_spread_the_answer),
        cmocka_unit_test(a_death_costs_a_load_and_half_an_item),
        cmocka_unit_test(a_run_that_cannot_end_says_so),
        cmocka_unit_test(the_best_row_is_the_largest_that_is_used_well),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
