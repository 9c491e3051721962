/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ui/progress.h"

static void the_time_left_goes_by_the_recent_speed(void **state)
{
    (void)state;
    struct progress_total total = {.done = 50,
                                   .known = 100,
                                   .input_is_final = true,
                                   .elapsed_ms = 10000,
                                   .items_per_s = 10,
                                   .n_workers = 1};
    assert_int_equal(progress_eta_ms(&total), 5000);
    /* Of a run that goes on, most was done before. */
    total.done = 98;
    total.items_per_s = 0.1;
    assert_int_equal(progress_eta_ms(&total), 20000);
}

static void nothing_is_said_before_the_input_is_known_or_anything_is_done(void **state)
{
    (void)state;
    struct progress_total total = {.done = 50, .known = 100, .items_per_s = 10, .n_workers = 1};
    assert_true(progress_eta_ms(&total) == UINT64_MAX);
    total = (struct progress_total){.known = 100, .input_is_final = true};
    assert_true(progress_eta_ms(&total) == UINT64_MAX);
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
                                   .items_per_s = 0.2,
                                   .n_workers = 2};
    assert_in_range(progress_eta_ms(&total), 200000, 600000);
    total.items_per_s = 1e-300;
    assert_in_range(progress_eta_ms(&total), 1, 100ull * 366 * 86400 * 1000);
}

/* The line of a display without a terminal. */
static void line_take(const struct progress_total *total, char out[256])
{
    int ends[2];
    struct progress *progress = progress_new(&(struct progress_opts){.plain_every_ms = 1000});
    assert_int_equal(pipe(ends), 0);
    int was = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    progress_show(progress, total, 1, false);
    progress_show(progress, total, 60000, false);
    dup2(was, STDERR_FILENO);
    close(was);
    close(ends[1]);
    ssize_t n = read(ends[0], out, 255);
    out[n > 0 ? n : 0] = '\0';
    close(ends[0]);
    progress_free(progress);
}

static void the_count_and_the_percentage_speak_of_the_same(void **state)
{
    (void)state;
    char line[256];
    struct progress_total total = {
        .done = 1, .aside = 4, .known = 6, .input_is_final = true, .retries = 1, .n_workers = 1};
    line_take(&total, line);
    assert_non_null(strstr(line, "muster: 5 of 6 (83.3 %), "));
    assert_non_null(strstr(line, ", 4 failed, 1 retry\n"));
    total.retries = 2;
    line_take(&total, line);
    assert_non_null(strstr(line, ", 4 failed, 2 retries\n"));
}

static void an_accuracy_is_shown_with_its_fractions_and_only_if_it_is_known(void **state)
{
    (void)state;
    char line[256];
    struct progress_total total = {.done = 1, .known = 6, .n_workers = 1};
    line_take(&total, line);
    assert_null(strstr(line, "accuracy"));
    total.correct = 1.5;
    total.seen = 2;
    line_take(&total, line);
    assert_non_null(strstr(line, ", accuracy 0.7500\n"));
    total.correct = 1e308; /* not 309 digits */
    line_take(&total, line);
    assert_non_null(strstr(line, ", accuracy 5e+307\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_time_left_goes_by_the_recent_speed),
        cmocka_unit_test(nothing_is_said_before_the_input_is_known_or_anything_is_done),
        cmocka_unit_test(a_hung_last_item_does_not_make_the_time_left_absurd),
        cmocka_unit_test(the_count_and_the_percentage_speak_of_the_same),
        cmocka_unit_test(an_accuracy_is_shown_with_its_fractions_and_only_if_it_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
