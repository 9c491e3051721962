/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include <string.h>

#include "core/memory.h"

enum {
    GIB = 1 << 10, /* in units of MiB, which the module does not know */
    TOTAL = 80 * GIB
};

static void backs_are(struct memory *m, uint64_t now_ms, const char *expected)
{
    char got[80] = "";
    uint32_t seat;
    bool is_overdue;
    while (memory_back(m, now_ms, &seat, &is_overdue)) {
        size_t len = strlen(got);
        snprintf(got + len, sizeof(got) - len, "%s%u%s", len > 0 ? " " : "", seat,
                 is_overdue ? "!" : "");
    }
    assert_string_equal(got, expected);
}

static struct memory *one_each(uint32_t n)
{
    struct memory *m = memory_new(n, n);
    for (uint32_t i = 0; i < n; i++)
        memory_seat_uses(m, i, i);
    return m;
}

static void test_samples_are_asked_for_while_a_worker_has_ended_of_late(void **state)
{
    (void)state;
    struct memory *m = one_each(2);
    memory_idle(m, 1, 0, TOTAL);
    memory_taken(m, 1, 0);
    assert_false(memory_is_awaited(m, 0));
    memory_left(m, 1, 1500);
    assert_true(memory_is_awaited(m, 1500));
    assert_false(memory_is_awaited(m, 1501));
    memory_away(m, 1, true, 1500);
    assert_false(memory_is_awaited(m, 0));
    memory_away(m, 1, false, 1600);
    assert_true(memory_is_awaited(m, 1600));
    memory_sampled(m, 1, 0, TOTAL, 1700);
    backs_are(m, 1700, "1");
    assert_false(memory_is_awaited(m, 0));
    memory_free(m);
}

static void test_where_nothing_is_known_it_is_back_at_once(void **state)
{
    (void)state;
    struct memory *m = one_each(2);
    memory_taken(m, 1, 0);
    backs_are(m, 0, "");
    memory_left(m, 1, 5);
    backs_are(m, 5, "1");
    backs_are(m, 6, "");
    memory_free(m);
}

static void test_a_seat_waits_until_its_device_holds_what_others_held_before(void **state)
{
    (void)state;
    struct memory *m = one_each(1);
    memory_idle(m, 0, 10 * GIB, TOTAL);
    memory_taken(m, 0, 0);
    memory_sampled(m, 0, 50 * GIB, TOTAL, 1000);
    memory_left(m, 0, 1500);
    backs_are(m, 1600, "");
    memory_sampled(m, 0, 13 * GIB, TOTAL, 2000);
    backs_are(m, 2000, "");
    memory_sampled(m, 0, 11 * GIB, TOTAL, 3000);
    backs_are(m, 3000, "0");
    memory_free(m);
}

/* The first sample comes when the first life is over already: what it shows is that life's, not others'. */
static void test_the_first_sample_is_no_baseline_while_a_worker_is_there(void **state)
{
    (void)state;
    struct memory *m = one_each(1);
    memory_idle(m, 0, 0, TOTAL);
    memory_taken(m, 0, 0);
    memory_sampled(m, 0, 40 * GIB, TOTAL, 100);
    memory_left(m, 0, 150);
    memory_sampled(m, 0, 40 * GIB, TOTAL, 1100);
    backs_are(m, 1100, "");
    memory_free(m);
}

static void test_what_others_take_between_two_lives_is_theirs(void **state)
{
    (void)state;
    struct memory *m = one_each(1);
    memory_sampled(m, 0, 0, TOTAL, 0);
    memory_sampled(m, 0, 30 * GIB, TOTAL, 500);
    memory_taken(m, 0, 0);
    memory_left(m, 0, 900);
    memory_sampled(m, 0, 30 * GIB, TOTAL, 1000);
    backs_are(m, 1000, "0");
    memory_free(m);
}

/* It came and went between two samples: the last one shows the device without it. */
static void test_a_sample_from_before_a_life_says_nothing_of_what_it_leaves(void **state)
{
    (void)state;
    struct memory *m = one_each(1);
    memory_sampled(m, 0, 0, TOTAL, 1000);
    memory_taken(m, 0, 0);
    memory_left(m, 0, 1900);
    backs_are(m, 1900, "");
    memory_sampled(m, 0, 40 * GIB, TOTAL, 2000);
    backs_are(m, 2000, "");
    memory_sampled(m, 0, 0, TOTAL, 3000);
    backs_are(m, 3000, "0");
    memory_free(m);
}

/* A command that fails at once is found out without a wait for samples. */
static void test_who_lived_too_short_for_a_context_is_not_waited_for(void **state)
{
    (void)state;
    struct memory *m = one_each(1);
    memory_idle(m, 0, 0, TOTAL);
    memory_taken(m, 0, 100);
    memory_left(m, 0, 149);
    backs_are(m, 149, "0");
    memory_left(m, 0, 2000); /* it was not even started */
    backs_are(m, 2000, "0");
    memory_taken(m, 0, 2200);
    memory_left(m, 0, 2250);
    backs_are(m, 2250, "");
    memory_sampled(m, 0, 0, TOTAL, 3000);
    backs_are(m, 3000, "0");
    memory_free(m);
}

/* What the connection's loss cuts short says nothing of the worker's life: it goes on until its agent notices. */
static void test_the_worker_of_a_lost_host_is_waited_for_when_the_host_is_back(void **state)
{
    (void)state;
    struct memory *m = one_each(1);
    memory_idle(m, 0, 0, TOTAL);
    memory_taken(m, 0, 100);
    memory_sampled(m, 0, 10 * GIB, TOTAL, 110);
    memory_away(m, 0, true, 120);
    memory_left(m, 0, 120);
    backs_are(m, 120, "");
    backs_are(m, 120 + 2 * MEMORY_PATIENCE_MS, "");
    memory_away(m, 0, false, 500000);
    backs_are(m, 500000, "");
    memory_sampled(m, 0, 20 * GIB, TOTAL, 501000);
    backs_are(m, 501000, "");
    memory_sampled(m, 0, 0, TOTAL, 502000);
    backs_are(m, 502000, "0");
    memory_free(m);
}

/* Nor do such lives show that workers use no memory. */
static void test_lives_that_the_loss_of_a_host_cut_short_tell_nothing(void **state)
{
    (void)state;
    struct memory *m = one_each(1);
    memory_idle(m, 0, 0, TOTAL);
    for (uint64_t begin_ms = 1000; begin_ms < 9000; begin_ms += 2000) {
        memory_taken(m, 0, begin_ms);
        memory_away(m, 0, true, begin_ms + 10);
        memory_left(m, 0, begin_ms + 10);
        memory_away(m, 0, false, begin_ms + 500);
        memory_sampled(m, 0, 0, TOTAL, begin_ms + 1000);
        backs_are(m, begin_ms + 1000, "0");
    }
    memory_taken(m, 0, 9000);
    memory_left(m, 0, 9900);
    backs_are(m, 9900, "");
    memory_sampled(m, 0, 10 * GIB, TOTAL, 10000);
    backs_are(m, 10000, "");
    memory_sampled(m, 0, 0, TOTAL, 11000);
    backs_are(m, 11000, "0");
    memory_free(m);
}

/* A shard's file may be looked at for long: that is no part of its worker's life, and no wait is owed for it. */
static void test_what_comes_behind_the_end_of_the_process_is_no_life(void **state)
{
    (void)state;
    struct memory *m = one_each(1);
    memory_idle(m, 0, 0, TOTAL);
    for (uint64_t begin_ms = 1000; begin_ms < 9000; begin_ms += 2000) {
        memory_taken(m, 0, begin_ms);
        memory_ended(m, 0, begin_ms + 100);
        backs_are(m, begin_ms + 200, "");
        memory_left(m, 0, begin_ms + 900);
        backs_are(m, begin_ms + 900, "");
        memory_sampled(m, 0, 0, TOTAL, begin_ms + 1000);
        backs_are(m, begin_ms + 1000, "0");
    }
    memory_taken(m, 0, 9100);
    memory_ended(m, 0, 9200);
    memory_sampled(m, 0, 0, TOTAL, 9500);
    memory_left(m, 0, 9900);
    backs_are(m, 9900, "0");
    memory_free(m);
}

/* Short lives of a filter that computes on the processor do not wait for the next sample each. */
static void test_workers_that_use_no_memory_are_not_waited_for(void **state)
{
    (void)state;
    struct memory *m = one_each(1);
    memory_idle(m, 0, 1, TOTAL);
    for (uint64_t end_ms = 1100; end_ms <= 2100; end_ms += 1000) {
        memory_taken(m, 0, end_ms - 600);
        memory_left(m, 0, end_ms);
        backs_are(m, end_ms, "");
        memory_sampled(m, 0, 1, TOTAL, end_ms + 900);
        backs_are(m, end_ms + 900, "0");
    }
    memory_taken(m, 0, 3000);
    memory_left(m, 0, 3200);
    backs_are(m, 3200, "0");
    memory_taken(m, 0, 3200);
    memory_sampled(m, 0, 30 * GIB, TOTAL, 4000);
    memory_left(m, 0, 4100);
    memory_sampled(m, 0, 1, TOTAL, 5000);
    backs_are(m, 5000, "0");
    memory_taken(m, 0, 5000);
    memory_left(m, 0, 5100);
    backs_are(m, 5100, "");
    memory_free(m);
}

static void test_beside_a_neighbour_a_sample_of_after_the_death_must_do(void **state)
{
    (void)state;
    struct memory *m = memory_new(2, 1);
    memory_seat_uses(m, 0, 0);
    memory_seat_uses(m, 1, 0);
    memory_taken(m, 0, 0);
    memory_taken(m, 1, 0);
    memory_sampled(m, 0, 60 * GIB, TOTAL, 1000);
    memory_left(m, 0, 1000);
    backs_are(m, 1500, "");
    memory_sampled(m, 0, 60 * GIB, TOTAL, 2000);
    backs_are(m, 2000, "0");
    memory_free(m);
}

static void test_a_set_waits_for_all_of_its_devices(void **state)
{
    (void)state;
    struct memory *m = memory_new(1, 2);
    memory_seat_uses(m, 0, 0);
    memory_seat_uses(m, 0, 1);
    memory_taken(m, 0, 0);
    memory_sampled(m, 0, 9 * GIB, TOTAL, 1000);
    memory_sampled(m, 1, 9 * GIB, TOTAL, 1000);
    memory_left(m, 0, 1200);
    memory_sampled(m, 0, 0, TOTAL, 2000);
    backs_are(m, 2000, "");
    memory_sampled(m, 1, 0, TOTAL, 2000);
    backs_are(m, 2000, "0");
    memory_free(m);
}

static void test_patience_ends_and_the_next_death_does_not_wait_again(void **state)
{
    (void)state;
    struct memory *m = one_each(1);
    memory_taken(m, 0, 0);
    memory_sampled(m, 0, 40 * GIB, TOTAL, 1000);
    memory_left(m, 0, 1000);
    backs_are(m, 999 + MEMORY_PATIENCE_MS, "");
    backs_are(m, 1000 + MEMORY_PATIENCE_MS, "0!");
    memory_taken(m, 0, 0);
    memory_left(m, 0, 200000);
    backs_are(m, 200000, "0");
    memory_free(m);
}

/* A neighbour is who shares the device: what another one holds says nothing, and is not to be waited for. */
static void test_the_worker_of_another_device_is_no_neighbour(void **state)
{
    (void)state;
    struct memory *m = one_each(2);
    memory_idle(m, 0, 0, TOTAL);
    memory_idle(m, 1, 0, TOTAL);
    memory_taken(m, 0, 0);
    memory_taken(m, 1, 0);
    memory_sampled(m, 0, 40 * GIB, TOTAL, 1000);
    memory_sampled(m, 1, 40 * GIB, TOTAL, 1000);
    memory_left(m, 0, 1500);
    memory_sampled(m, 0, 40 * GIB, TOTAL, 2000);
    backs_are(m, 2000, "");
    memory_sampled(m, 0, 0, TOTAL, 3000);
    backs_are(m, 3000, "0");
    memory_free(m);
    memory_free(NULL);
}

static void test_a_set_waits_for_the_first_of_its_devices_too(void **state)
{
    (void)state;
    struct memory *m = memory_new(1, 2);
    memory_seat_uses(m, 0, 0);
    memory_seat_uses(m, 0, 1);
    memory_taken(m, 0, 0);
    memory_sampled(m, 0, 9 * GIB, TOTAL, 1000);
    memory_sampled(m, 1, 9 * GIB, TOTAL, 1000);
    memory_left(m, 0, 1200);
    memory_sampled(m, 1, 0, TOTAL, 2000);
    backs_are(m, 2000, "");
    memory_sampled(m, 0, 0, TOTAL, 3000);
    backs_are(m, 3000, "0");
    memory_free(m);
}

/* However many of them have shown it. */
static void test_workers_that_never_used_memory_are_not_waited_for_at_any_time(void **state)
{
    (void)state;
    struct memory *m = one_each(1);
    memory_idle(m, 0, 0, TOTAL);
    for (uint64_t begin_ms = 0; begin_ms < 40000; begin_ms += 4000) {
        memory_taken(m, 0, begin_ms);
        memory_left(m, 0, begin_ms + 2000);
        memory_sampled(m, 0, 0, TOTAL, begin_ms + 3000);
        backs_are(m, begin_ms + 3000, "0");
    }
    memory_taken(m, 0, 50000);
    memory_left(m, 0, 55000);
    backs_are(m, 55000, "0");
    memory_free(m);
}

/* Nothing is known of a device on which a neighbour is at work, and nothing of those of others. */
static void test_patience_beside_a_neighbour_learns_nothing_of_the_device(void **state)
{
    (void)state;
    struct memory *m = memory_new(2, 2);
    memory_seat_uses(m, 0, 0);
    memory_seat_uses(m, 1, 0);
    memory_idle(m, 0, 0, TOTAL);
    memory_taken(m, 0, 0);
    memory_taken(m, 1, 0);
    memory_sampled(m, 0, 40 * GIB, TOTAL, 1000);
    memory_left(m, 0, 2000);
    backs_are(m, 1999 + MEMORY_PATIENCE_MS, "");
    backs_are(m, 2000 + MEMORY_PATIENCE_MS, "0!");
    memory_left(m, 1, 100000);
    backs_are(m, 100001, "");
    memory_sampled(m, 0, 0, TOTAL, 101000);
    backs_are(m, 101000, "1");
    memory_free(m);
}

static void test_what_is_in_use_beyond_others_is_ours_and_a_lone_seats_own(void **state)
{
    (void)state;
    struct memory *m = memory_new(3, 2);
    memory_seat_uses(m, 0, 0);
    memory_seat_uses(m, 1, 0);
    memory_seat_uses(m, 2, 1);
    memory_idle(m, 0, 10 * GIB, TOTAL);
    memory_taken(m, 0, 0);
    memory_taken(m, 2, 0);
    assert_int_equal(memory_beyond_idle(m, 0), 0);
    memory_sampled(m, 0, 50 * GIB, TOTAL, 1000);
    assert_int_equal(memory_beyond_idle(m, 0), 40 * GIB);
    memory_sampled(m, 0, 9 * GIB, TOTAL, 2000); /* others hold less */
    assert_int_equal(memory_beyond_idle(m, 0), 0);
    assert_true(memory_is_alone(m, 0, 0) && memory_is_alone(m, 2, 1));
    assert_false(memory_is_alone(m, 1, 0) ||
                 memory_is_alone(m, 0, 1)); /* the one there is another */
    memory_taken(m, 1, 2000);
    assert_false(memory_is_alone(m, 0, 0));
    memory_left(m, 1, 2500); /* its memory may not be back */
    assert_false(memory_is_alone(m, 0, 0));
    memory_sampled(m, 0, 10 * GIB, TOTAL, 3000);
    backs_are(m, 3000, "1");
    assert_true(memory_is_alone(m, 0, 0));
    memory_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples_are_asked_for_while_a_worker_has_ended_of_late),
        cmocka_unit_test(test_where_nothing_is_known_it_is_back_at_once),
        cmocka_unit_test(test_a_seat_waits_until_its_device_holds_what_others_held_before),
        cmocka_unit_test(test_the_first_sample_is_no_baseline_while_a_worker_is_there),
        cmocka_unit_test(test_what_others_take_between_two_lives_is_theirs),
        cmocka_unit_test(test_a_sample_from_before_a_life_says_nothing_of_what_it_leaves),
        cmocka_unit_test(test_who_lived_too_short_for_a_context_is_not_waited_for),
        cmocka_unit_test(test_the_worker_of_a_lost_host_is_waited_for_when_the_host_is_back),
        cmocka_unit_test(test_lives_that_the_loss_of_a_host_cut_short_tell_nothing),
        cmocka_unit_test(test_what_comes_behind_the_end_of_the_process_is_no_life),
        cmocka_unit_test(test_workers_that_use_no_memory_are_not_waited_for),
        cmocka_unit_test(test_beside_a_neighbour_a_sample_of_after_the_death_must_do),
        cmocka_unit_test(test_a_set_waits_for_all_of_its_devices),
        cmocka_unit_test(test_patience_ends_and_the_next_death_does_not_wait_again),
        cmocka_unit_test(test_the_worker_of_another_device_is_no_neighbour),
        cmocka_unit_test(test_a_set_waits_for_the_first_of_its_devices_too),
        cmocka_unit_test(test_workers_that_never_used_memory_are_not_waited_for_at_any_time),
        cmocka_unit_test(test_patience_beside_a_neighbour_learns_nothing_of_the_device),
        cmocka_unit_test(test_what_is_in_use_beyond_others_is_ours_and_a_lone_seats_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
