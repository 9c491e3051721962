/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulated machine: what it says of runs whose outcome can be worked out by hand.
 */
#include "unit/test.h"

#include "base/attr.h"
#include "base/rng.h"
#include "sim/ideal.h"
#include "sim/world.h"

static struct sim_result run(const struct sim_config *config)
{
    struct sim_result result;
    struct sim *sim = sim_new(config);
    assert_non_null(sim);
    sim_run(sim, &result);
    sim_free(sim);
    return result;
}

static const struct sim_config plain = {
    .n_devices = 4,
    .n_items = 100,
    .seed = 1,
    .service = {.kind = DIST_CONSTANT, .mean_ms = 100},
    .load = {.kind = DIST_CONSTANT, .mean_ms = 1000},
};

static void constant_items_take_what_arithmetic_says(void **state)
{
    (void)state;
    for (int kind = SIM_CHANNEL; kind <= SIM_FILTER; kind++) {
        struct sim_config config = plain;
        config.kind = kind;
        config.feed.no_reissue = true;
        struct sim_result r = run(&config);
        assert_int_equal(r.end, SIM_DONE);
        assert_int_equal(r.done, 100);
        assert_int_equal(r.busy_us, 100 * 100000);
        assert_int_equal(r.loading_us, 4 * 1000000);
        assert_int_equal(r.lost_us, 0);
        assert_int_equal(r.starts, 4);
        if (kind == SIM_CHANNEL)
            assert_int_equal(r.makespan_us, 1000000 + 25 * 100000);
    }
}

static void items_side_by_side_share_a_worker(void **state)
{
    (void)state;
    struct sim_config config = plain;
    config.n_devices = 1;
    config.concurrency = 10;
    struct sim_result r = run(&config);
    assert_int_equal(r.makespan_us, 1000000 + 10 * 100000);
    assert_int_equal(r.busy_us, 100 * 100000);
}

static void a_turnaround_is_hidden_by_items_that_lie_ready(void **state)
{
    (void)state;
    struct sim_config config = plain;
    config.n_devices = 1;
    config.turnaround_us = 10000;
    assert_int_equal(run(&config).makespan_us, 1000000 + 99 * 110000 + 100000);
    config.ahead = 1;
    assert_in_range(run(&config).makespan_us, 1000000 + 100 * 100000, 1000000 + 102 * 100000);
}

static void whatever_fails_every_item_is_settled(void **state)
{
    (void)state;
    static const struct sim_faults faults[] = {
        {.fail = 0.1},
        {.crash = 0.05},
        {.poison = 0.02},
        {.start_fail = 0.2},
        {.fail = 0.05, .crash = 0.02, .poison = 0.01, .start_fail = 0.1},
    };
    for (size_t i = 0; i < countof(faults); i++)
        for (int kind = SIM_CHANNEL; kind <= SIM_FILTER; kind++) {
            struct sim_config config = plain;
            config.kind = kind;
            config.n_items = 500;
            config.faults = faults[i];
            config.feed.retries = 2;
            config.steps_max = 1000000;
            struct sim_result r = run(&config);
            assert_int_equal(r.end, SIM_DONE);
            assert_int_equal(r.done + r.aside, 500);
            if (faults[i].poison > 0)
                assert_true(r.aside > 0);
            assert_true(r.busy_us + r.lost_us + r.loading_us <= r.alive_us);
        }
}

static void devices_that_are_lost_are_missed(void **state)
{
    (void)state;
    struct sim_config config = plain;
    config.n_items = 3600 * 40; /* an hour for four */
    config.faults.device_hours = 1;
    struct sim_result r = run(&config);
    assert_true(r.devices_lost > 0);
    if (r.end == SIM_DONE)
        assert_true(r.makespan_us > 3600000000);
    else
        assert_int_equal(r.halt, HALT_NO_DEVICES);
}

struct spans {
    uint64_t sum_us[3], n_steps;
};

static void span_count(void *context, const struct sim_span *span)
{
    struct spans *spans = context;
    assert_true(span->from_us <= span->to_us);
    spans->sum_us[span->kind] += span->to_us - span->from_us;
}

static void step_count(void *context, const struct feed *feed, const struct feed_event *event,
                       const struct feed_action *actions, size_t n_actions)
{
    struct spans *spans = context;
    (void)event, (void)actions, (void)n_actions;
    feed_check(feed);
    spans->n_steps++;
}

static void the_timeline_adds_up_to_the_sums(void **state)
{
    (void)state;
    struct spans spans = {0};
    struct sim_config config = plain;
    config.context = &spans;
    config.on_span = span_count;
    config.on_step = step_count;
    config.faults = (struct sim_faults){.fail = 0.05, .crash = 0.02};
    config.feed.retries = 5;
    struct sim_result r = run(&config);
    assert_int_equal(r.end, SIM_DONE);
    assert_true(r.lost_us > 0);
    assert_int_equal(spans.sum_us[SPAN_LOADING], r.loading_us);
    assert_int_equal(spans.sum_us[SPAN_ITEM], r.busy_us);
    assert_int_equal(spans.sum_us[SPAN_LOST], r.lost_us);
    assert_int_equal(spans.n_steps, r.steps);
}

static void the_same_config_gives_the_same_result(void **state)
{
    (void)state;
    struct sim_config config = plain;
    config.service = (struct dist){.kind = DIST_PARETO, .mean_ms = 100, .spread = 1.5};
    config.faults = (struct sim_faults){.fail = 0.05, .crash = 0.02};
    struct sim_result a = run(&config), b = run(&config);
    assert_memory_equal(&a, &b, sizeof(a));
    config.seed++;
    assert_int_not_equal(run(&config).makespan_us, a.makespan_us);
}

static void known_sizes_come_near_the_bound(void **state)
{
    (void)state;
    struct sim_config config = plain;
    config.n_items = 2000;
    config.load.mean_ms = 0;
    config.sizes_are_known = true;
    config.service = (struct dist){.kind = DIST_PARETO, .mean_ms = 1000, .spread = 1.5};
    struct ideal ideal = {
        .service = &config.service, .seed = config.seed, .n_items = 2000, .n_slots = 4};
    struct sim_result r = run(&config);
    assert_in_range(r.makespan_us, ideal_bound_us(&ideal), ideal_bound_us(&ideal) * 103 / 100);
}

/* When items were computed, and how long after that they were committed. */
enum {
    KEPT_ITEMS = 4000
};

struct kept {
    uint64_t computed_us[KEPT_ITEMS], n_computed, n_committed;
    double lag_max_us,
        worst; /* of what was computed after ten seconds, the part that is lost by a crash */
};

static void computed_note(void *context, const struct sim_span *span)
{
    struct kept *kept = context;
    if (span->kind != SPAN_ITEM)
        return;
    kept->computed_us[span->item] = span->to_us;
    kept->n_computed++;
    double lost = 1 - (double)kept->n_committed / (double)kept->n_computed;
    if (span->to_us > 10000000)
        kept->worst = MAX(kept->worst, lost);
}

static void committed_note(void *context, const struct feed *feed, const struct feed_event *event,
                           const struct feed_action *actions, size_t n_actions)
{
    (void)feed;
    struct kept *kept = context;
    for (size_t i = 0; i < n_actions; i++) {
        if (actions[i].kind != ACT_COMMIT)
            continue;
        kept->n_committed += actions[i].count;
        for (uint64_t item = 0; item < actions[i].count; item++)
            kept->lag_max_us =
                MAX(kept->lag_max_us, (double)event->now_ms * 1000 -
                                          (double)kept->computed_us[actions[i].item + item]);
    }
}

static void what_a_filter_computes_is_committed_soon_and_at_little_cost(void **state)
{
    (void)state;
    static const struct {
        uint32_t block_items, hold_items;
        double load_ms, lag_max_s, lost_max;
    } cases[] = {
        {0, 0, 10, 1, 0.1},     /* as sed -u: answers at once, and is seen to rest */
        {0, 0, 3000, 1, 0.1},   /* the same, and its start costs nothing more than once */
        {0, 400, 10, 12, 0.15}, /* as gawk: holds answers back */
        {800, 1, 10, 12, 0.15}, /* as mawk in a loop that flushes: reads its input in blocks */
        {800, 400, 10, 12, 0.15},
        {4, 4, 10, 12, 0.15},   /* as a model that works on four at a time */
        {800, 400, 500, 30, 1}, /* a start that costs half a second is not paid every second */
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct kept *kept = test_calloc(1, sizeof(*kept));
        struct sim_config config = plain;
        config.kind = SIM_FILTER;
        config.n_devices = 2;
        config.n_items = KEPT_ITEMS;
        config.service = (struct dist){.kind = DIST_UNIFORM, .spread = 0.5, .mean_ms = 100};
        config.load.mean_ms = cases[i].load_ms;
        config.feed.no_reissue = true;
        config.block_items = cases[i].block_items;
        config.hold_items = cases[i].hold_items;
        config.context = kept;
        config.on_span = computed_note;
        config.on_step = committed_note;
        struct sim_result r = run(&config);
        assert_int_equal(r.end, SIM_DONE);
        assert_int_equal(kept->n_committed, KEPT_ITEMS);
        double speed = (double)r.busy_us / 2 / ((double)r.makespan_us - 1000 * cases[i].load_ms);
        assert_true(kept->lag_max_us < cases[i].lag_max_s * 1e6);
        assert_true(kept->worst < cases[i].lost_max);
        assert_true(speed > 0.95);
        test_free(kept);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constant_items_take_what_arithmetic_says),
        cmocka_unit_test(items_side_by_side_share_a_worker),
        cmocka_unit_test(a_turnaround_is_hidden_by_items_that_lie_ready),
        cmocka_unit_test(whatever_fails_every_item_is_settled),
        cmocka_unit_test(devices_that_are_lost_are_missed),
        cmocka_unit_test(the_timeline_adds_up_to_the_sums),
        cmocka_unit_test(the_same_config_gives_the_same_result),
        cmocka_unit_test(what_a_filter_computes_is_committed_soon_and_at_little_cost),
        cmocka_unit_test(known_sizes_come_near_the_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
