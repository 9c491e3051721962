/* SPDX-License-Identifier: Apache-2.0
 *
 * Filters that are neither quick nor dead: what silence and a full window do not mean.
 */
#include "scene.h"

static void a_filter_that_holds_its_answers_back_is_not_over_the_limit_for_one_item(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){.n_workers = 1,
                                             .n_devices = 1,
                                             .item_limit_ms = 1000,
                                             .retries = 3,
                                             .no_reissue = true});
    TELL(&scene, .kind = EV_INPUT, .count = 1000, .flag = true);
    TELL(&scene, .kind = EV_STARTED);
    TELL(&scene, .kind = EV_ROOM, .count = 1000);
    for (int i = 0; i < 7; i++)
        TELL(&scene, .kind = EV_IDLE);
    /* 100 ms each, but they come by 64: after 6.4 s, which says nothing about one of them. */
    for (int burst = 1; burst <= 3; burst++) {
        for (uint64_t end_ms = 1000 + 6400 * burst; feed_next_ms(scene.feed) < end_ms;) {
            scene.now_ms = feed_next_ms(scene.feed);
            TELL(&scene, .kind = EV_TICK);
        }
        scene.now_ms = 1000 + 6400 * burst;
        TELL(&scene, .kind = EV_ANSWERS, .count = 64);
        TELL(&scene, .kind = EV_ROOM, .count = 1000);
    }
    assert_null(strstr(buf_text(&scene.said), "TERMINATE"));
    while (!strstr(buf_text(&scene.said), "TERMINATE")) {
        scene.now_ms = feed_next_ms(scene.feed);
        TELL(&scene, .kind = EV_TICK);
        assert_true(scene.now_ms < 1000 + 6400 * 3 + 20000);
    }
    scene_close(&scene);
}

static void a_filter_is_not_ended_where_the_window_is_full_and_more_lies_beyond(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){.n_workers = 1, .n_devices = 1, .spread_log2 = 3});
    TELL(&scene, .kind = EV_INPUT, .count = 1000, .flag = true);
    TELL(&scene, .kind = EV_STARTED);
    TELL(&scene, .kind = EV_ROOM, .count = 1000);
    struct feed_counts counts;
    for (feed_counts(scene.feed, &counts); counts.done < 100; feed_counts(scene.feed, &counts)) {
        scene.now_ms++;
        if (counts.in_flight > 0)
            TELL(&scene, .kind = EV_ANSWERS, .count = counts.in_flight);
        TELL(&scene, .kind = EV_TICK);
        uint64_t item, count;
        if (strstr(buf_text(&scene.said), "; END w0"))
            fail_msg("%s", buf_text(&scene.said));
        const char *commit = strstr(buf_text(&scene.said), "COMMIT w0 ");
        if (commit && sscanf(commit, "COMMIT w0 %lu+%lu", &item, &count) == 2) {
            buf_reset(&scene.said);
            TELL(&scene, .kind = EV_COMMITTED, .item = item, .count = count);
        }
        TELL(&scene, .kind = EV_ROOM, .count = 1000);
    }
    scene_close(&scene);
}

/* How many items a filter of 20 ms an item has in flight when its window has grown. */
static uint64_t in_flight_at(uint64_t round_trip_ms)
{
    struct scene scene;
    struct feed_counts counts;
    scene_open(&scene, &(struct feed_config){
                           .n_workers = 1, .n_devices = 1, .round_trip_ms = &round_trip_ms});
    TELL(&scene, .kind = EV_INPUT, .count = 10000, .flag = true);
    TELL(&scene, .kind = EV_STARTED);
    TELL(&scene, .kind = EV_ROOM, .count = 10000);
    for (unsigned i = 0; i < 20; i++) { /* less than half a second: it is not drained meanwhile */
        scene.now_ms += 20;
        TELL(&scene, .kind = EV_ANSWERS, .count = 1);
        TELL(&scene, .kind = EV_ROOM, .count = 10000);
    }
    feed_counts(scene.feed, &counts);
    scene_close(&scene);
    return counts.in_flight;
}

static void a_filter_far_away_has_more_in_flight(void **state)
{
    (void)state;
    assert_in_range(in_flight_at(0), 8, 11);
    assert_in_range(in_flight_at(50), 13, 16);
}

/* Else the first answers from a distance would say that the worker is slow, and it would be given too few. */
static void the_way_of_a_first_item_is_not_the_workers_time(void **state)
{
    (void)state;
    struct scene scene;
    struct feed_worker_view view;
    uint64_t round_trip_ms = 500;
    scene_open(&scene, &(struct feed_config){
                           .n_workers = 1, .n_devices = 1, .round_trip_ms = &round_trip_ms});
    TELL(&scene, .kind = EV_INPUT, .count = 100, .flag = true);
    channel_up(&scene, 0, 2);
    scene.now_ms += 520;
    TELL(&scene, .kind = EV_DONE, .item = 0);
    feed_worker(scene.feed, 0, &view);
    assert_int_equal((int)view.mean_ms, 20);
    scene.now_ms += 20;
    TELL(&scene, .kind = EV_DONE, .item = 1);
    feed_worker(scene.feed, 0, &view);
    assert_int_equal((int)view.mean_ms, 20);
    scene_close(&scene);
}

/* Nobody is charged: the first worker still has the item, and its answer counts. */
static void a_copy_that_was_answered_just_before_a_crash_is_forgotten(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){.n_workers = 2, .n_devices = 2});
    TELL(&scene, .kind = EV_INPUT, .count = 3, .flag = true);
    for (uint32_t worker = 0; worker < 2; worker++) {
        TELL(&scene, .kind = EV_STARTED, .worker = worker);
        TELL(&scene, .kind = EV_ROOM, .worker = worker, .count = 100);
    }
    TELL(&scene, .kind = EV_ANSWERS, .worker = 1, .count = 1);
    TELL(&scene, .kind = EV_ANSWERS, .worker = 1, .count = 1);
    buf_reset(&scene.said);
    scene.now_ms += 1000;
    TELL(&scene, .kind = EV_TICK);
    expect(&scene, "COMMIT w1 1+2; NOTE w1; SEND w1 0+1; ");
    TELL(&scene, .kind = EV_ANSWERS, .worker = 1, .count = 1);
    TELL(&scene, .kind = EV_EXIT, .worker = 1, .death = GONE_CRASH);
    expect(&scene, "REVOKE w1; ");
    assert_int_equal(feed_item_failures(scene.feed, 0), 0);
    TELL(&scene, .kind = EV_ANSWERS, .worker = 0, .count = 1);
    TELL(&scene, .kind = EV_EXIT, .worker = 0, .death = GONE_CLEAN);
    expect(&scene, "END w0; COMMIT w0 0+1; ");
    scene_close(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_filter_far_away_has_more_in_flight),
        cmocka_unit_test(the_way_of_a_first_item_is_not_the_workers_time),
        cmocka_unit_test(a_copy_that_was_answered_just_before_a_crash_is_forgotten),
        cmocka_unit_test(a_filter_is_not_ended_where_the_window_is_full_and_more_lies_beyond),
        cmocka_unit_test(a_filter_that_holds_its_answers_back_is_not_over_the_limit_for_one_item),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
