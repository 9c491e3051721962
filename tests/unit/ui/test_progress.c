/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include "ui/progress.h"

static void the_time_left_goes_by_the_recent_speed(void **state)
{
    (void)state;
    struct progress_total total = {
        .done = 50, .known = 100, .input_is_final = true, .elapsed_ms = 10000, .n_workers = 1};
    assert_int_equal(progress_eta_ms(&total, 10), 5000);
}

static void nothing_is_said_before_the_input_is_known_or_anything_is_done(void **state)
{
    (void)state;
    struct progress_total total = {.done = 50, .known = 100, .elapsed_ms = 10000};
    assert_true(progress_eta_ms(&total, 10) == UINT64_MAX);
    total = (struct progress_total){.known = 100, .input_is_final = true};
    assert_true(progress_eta_ms(&total, 10) == UINT64_MAX);
}

static void a_hung_last_item_does_not_make_the_time_left_absurd(void **state)
{
    (void)state;
    struct progress_total total = {.done = 59,
                                   .known = 60,
                                   .input_is_final = true,
                                   .in_flight = 1,
                                   .elapsed_ms = 300000,
                                   .oldest_ms = 298000,
                                   .n_workers = 2};
    assert_in_range(progress_eta_ms(&total, 1e-12), 1, 600000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_time_left_goes_by_the_recent_speed),
        cmocka_unit_test(nothing_is_said_before_the_input_is_known_or_anything_is_done),
        cmocka_unit_test(a_hung_last_item_does_not_make_the_time_left_absurd),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
