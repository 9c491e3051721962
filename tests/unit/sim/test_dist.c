/* SPDX-License-Identifier: Apache-2.0
 *
 * What simulated worlds are made of: the order of future events, service times, ideal schedules.
 */
#include "unit/test.h"

#include <math.h>

#include "base/attr.h"
#include "base/rng.h"
#include "sim/heap.h"
#include "sim/ideal.h"

static void events_come_in_order_of_time_and_then_of_planning(void **state)
{
    (void)state;
    struct future_heap heap = {0};
    struct rng rng = {.state = 7};
    for (uint64_t i = 0; i < 5000; i++)
        assert_true(heap_push(&heap, &(struct future){.at_us = rng_below(&rng, 300), .item = i}));
    assert_int_equal(heap_next_us(&heap), 0);
    struct future before = heap_pop(&heap);
    for (int i = 1; i < 5000; i++) {
        struct future next = heap_pop(&heap);
        assert_true(next.at_us >= before.at_us);
        if (next.at_us == before.at_us)
            assert_true(next.item > before.item);
        before = next;
    }
    assert_int_equal(heap_next_us(&heap), UINT64_MAX);
    heap_release(&heap);
}

static void means_are_what_was_asked_for(void **state)
{
    (void)state;
    static const double list_ms[] = {50, 150};
    static const struct dist_case {
        const char *name;
        struct dist dist;
        double tolerance;
    } cases[] = {
        {"constant", {.kind = DIST_CONSTANT, .mean_ms = 100}, 0.0001},
        {"uniform", {.kind = DIST_UNIFORM, .mean_ms = 100, .spread = 1}, 0.01},
        {"log-normal", {.kind = DIST_LOG_NORMAL, .mean_ms = 100, .spread = 1}, 0.01},
        {"pareto", {.kind = DIST_PARETO, .mean_ms = 100, .spread = 2.5}, 0.02},
        {"list", {.kind = DIST_LIST, .list_ms = list_ms, .n_list = 2}, 0.0001},
    };
    for (size_t c = 0; c < countof(cases); c++) {
        double sum_ms = 0;
        for (uint64_t item = 0; item < 400000; item++)
            sum_ms += (double)dist_us(&cases[c].dist, 3, item) / 1000;
        double mean_ms = sum_ms / 400000;
        if (fabs(mean_ms / 100 - 1) > cases[c].tolerance)
            fail_msg("%s: expected a mean of 100 ms, found %.2f", cases[c].name, mean_ms);
    }
}

static void a_limit_holds_and_nothing_is_negative(void **state)
{
    (void)state;
    struct dist pareto = {.kind = DIST_PARETO, .mean_ms = 100, .spread = 1.2, .max_ms = 5000};
    struct dist wide = {.kind = DIST_UNIFORM, .mean_ms = 100, .spread = 3};
    for (uint64_t item = 0; item < 100000; item++) {
        assert_true(dist_us(&pareto, 3, item) <= 5000000);
        assert_true(dist_us(&wide, 3, item) <= 400000);
    }
}

static void an_items_time_depends_on_seed_and_item_alone(void **state)
{
    (void)state;
    struct dist dist = {.kind = DIST_LOG_NORMAL, .mean_ms = 100, .spread = 1};
    uint64_t first_us = dist_us(&dist, 3, 17);
    dist_us(&dist, 3, 18);
    assert_int_equal(dist_us(&dist, 3, 17), first_us);
    assert_int_not_equal(dist_us(&dist, 4, 17), first_us);
}

static void ideal_schedules_of_three_items_are_known(void **state)
{
    (void)state;
    static const double list_ms[] = {1, 1, 4, 2};
    struct dist dist = {.kind = DIST_LIST, .list_ms = list_ms, .n_list = 4};
    struct ideal ideal = {.service = &dist, .n_items = 4, .n_slots = 2};
    assert_int_equal(ideal_list_us(&ideal), 5000); /* 1 + 4 beside 1 + 2 */
    assert_int_equal(ideal_bound_us(&ideal), 4000);
    assert_int_equal(ideal_static_us(&ideal), 6000); /* 1 + 1 beside 4 + 2 */
    uint32_t *order = ideal_order_new(&dist, 0, 4);
    ideal.order = order;
    assert_int_equal(order[0], 2);
    assert_int_equal(order[1], 3);
    assert_int_equal(order[2], 0);
    assert_int_equal(ideal_list_us(&ideal), 4000);
    static const double slowness[] = {1, 2};
    ideal.slowness = slowness;
    ideal.order = NULL;
    assert_int_equal(ideal_static_us(&ideal), 12000);
    assert_int_equal(ideal_bound_us(&ideal), 5333);
    free(order);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_come_in_order_of_time_and_then_of_planning),
        cmocka_unit_test(means_are_what_was_asked_for),
        cmocka_unit_test(a_limit_holds_and_nothing_is_negative),
        cmocka_unit_test(an_items_time_depends_on_seed_and_item_alone),
        cmocka_unit_test(ideal_schedules_of_three_items_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
