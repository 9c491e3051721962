/* SPDX-License-Identifier: Apache-2.0
 *
 * Filters that read their input in blocks or hold answers back, and how soon is kept what a filter has
 * answered.
 */
#include "scene.h"

static void filter_up(struct scene *scene, uint64_t load_ms)
{
    TELL(scene, .kind = EV_STARTED);
    TELL(scene, .kind = EV_ROOM, .count = 100000);
    scene->now_ms += load_ms;
    TELL(scene, .kind = EV_READS);
}

/* It gives all its answers at its end, and is gone `end_ms` later. */
static void filter_down(struct scene *scene, uint64_t answers, uint64_t end_ms)
{
    TELL(scene, .kind = EV_ANSWERS, .count = answers);
    scene->now_ms += end_ms;
    TELL(scene, .kind = EV_EXIT, .death = GONE_CLEAN);
    TELL(scene, .kind = EV_MEM_BACK);
}

static void buffering_open(struct scene *scene, struct feed_config config)
{
    config.n_workers = config.n_devices = 1;
    scene_open(scene, &config);
    TELL(scene, .kind = EV_INPUT, .count = 100000, .flag = true);
}

/* The first lives: one item and a silence, one item, eight of 100 ms each. */
static void lives_of_100_ms_items(struct scene *scene)
{
    filter_up(scene, 10);
    scene->now_ms += 200;
    TELL(scene, .kind = EV_IDLE, .flag = true);
    filter_down(scene, 1, 5);
    expect(scene, "SPAWN w0; SEND w0 0+1; END w0; COMMIT w0 0+1; SPAWN w0; ");
    filter_up(scene, 10);
    scene->now_ms += 100;
    filter_down(scene, 1, 5);
    expect(scene, "SEND w0 1+1; END w0; COMMIT w0 1+1; SPAWN w0; ");
    filter_up(scene, 10);
    scene->now_ms += 800;
    filter_down(scene, 8, 5);
    expect(scene, "SEND w0 2+8; END w0; COMMIT w0 2+8; SPAWN w0; ");
}

static void a_filter_that_buffers_gets_lives_of_a_second_where_starts_are_cheap(void **state)
{
    (void)state;
    struct scene scene;
    buffering_open(&scene, (struct feed_config){0});
    lives_of_100_ms_items(&scene);
    filter_up(&scene, 10);
    expect(&scene, "SEND w0 10+10; END w0; ");
    scene_close(&scene);
}

static void its_lives_grow_with_what_would_be_lost_beside_what_is_kept(void **state)
{
    (void)state;
    struct scene scene;
    uint64_t sent = 10, life = 10;
    buffering_open(&scene, (struct feed_config){0});
    lives_of_100_ms_items(&scene);
    for (int i = 0; i < 120; i++) {
        buf_reset(&scene.said);
        filter_up(&scene, 10);
        if (sscanf(buf_text(&scene.said), "SEND w0 %lu+%lu", &sent, &life) != 2)
            fail_msg("%s", buf_text(&scene.said));
        assert_in_range(life * 100, 1000, MAX((uint64_t)1000, scene.now_ms / 20));
        scene.now_ms += 100 * life;
        filter_down(&scene, life, 5);
    }
    assert_in_range(life, 590, 600); /* a minute, and no more */
    scene_close(&scene);
}

static void what_takes_long_to_start_is_not_ended_to_find_out(void **state)
{
    (void)state;
    struct scene scene;
    buffering_open(&scene, (struct feed_config){0});
    filter_up(&scene, 5000);
    scene.now_ms += 200;
    TELL(&scene, .kind = EV_IDLE, .flag = true);
    expect(&scene, "SPAWN w0; SEND w0 0+1; SEND w0 1+1; ");
    while (scene.now_ms < 1000 + 40 * 5000) {
        scene.now_ms += 20000;
        TELL(&scene, .kind = EV_IDLE, .flag = true);
    }
    assert_non_null(strstr(buf_text(&scene.said), "; END w0; "));
    TELL(&scene, .kind = EV_IDLE, .flag = true);
    struct feed_counts counts;
    feed_counts(scene.feed, &counts);
    filter_down(&scene, counts.in_flight, 0);
    buf_reset(&scene.said);
    /* So the next life is long as well. */
    filter_up(&scene, 5000);
    uint64_t first, life;
    assert_int_equal(sscanf(buf_text(&scene.said), "SEND w0 %lu+%lu", &first, &life), 2);
    assert_true(life > 500);
    scene_close(&scene);
}

static void a_limit_on_silence_or_on_starting_shortens_its_lives(void **state)
{
    (void)state;
    struct feed_config limits[] = {{.silence_limit_ms = 2000}, {.start_limit_ms = 2000}};
    for (size_t i = 0; i < countof(limits); i++) {
        struct scene scene;
        buffering_open(&scene, limits[i]);
        filter_up(&scene, 10);
        scene.now_ms += 200;
        TELL(&scene, .kind = EV_IDLE, .flag = true);
        filter_down(&scene, 1, 0);
        filter_up(&scene, 10);
        scene.now_ms += 100;
        filter_down(&scene, 1, 0);
        buf_reset(&scene.said);
        filter_up(&scene, 10);
        expect(&scene, "SEND w0 2+5; END w0; ");
        scene_close(&scene);
    }
}

static void where_few_may_load_its_input_ends_when_it_has_answered(void **state)
{
    (void)state;
    struct scene scene;
    buffering_open(&scene, (struct feed_config){.loading_max = 1});
    filter_up(&scene, 10);
    scene.now_ms += 200;
    TELL(&scene, .kind = EV_IDLE, .flag = true);
    filter_down(&scene, 1, 0);
    buf_reset(&scene.said);
    filter_up(&scene, 10);
    expect(&scene, "SEND w0 1+1; ");
    TELL(&scene, .kind = EV_ANSWERS, .count = 1);
    expect(&scene, "END w0; ");
    scene_close(&scene);
}

static void its_lives_are_of_whole_batches(void **state)
{
    (void)state;
    struct scene scene;
    buffering_open(&scene, (struct feed_config){.batch = 4});
    filter_up(&scene, 10);
    scene.now_ms += 200;
    TELL(&scene, .kind = EV_IDLE, .flag = true);
    filter_down(&scene, 4, 0);
    buf_reset(&scene.said);
    filter_up(&scene, 10);
    expect(&scene, "SEND w0 4+4; END w0; ");
    scene.now_ms += 1500;
    filter_down(&scene, 4, 0);
    buf_reset(&scene.said);
    filter_up(&scene, 10);
    expect(&scene, "SEND w0 8+4; SEND w0 12+4; SEND w0 16+4; SEND w0 20+4; SEND w0 24+4; "
                   "SEND w0 28+4; SEND w0 32+4; SEND w0 36+4; END w0; ");
    scene_close(&scene);
}

/* As a script that reads a line and then loads a model, or one before another that loads. */
static void a_load_behind_the_first_line_is_found_in_the_second_life(void **state)
{
    (void)state;
    struct scene scene;
    uint64_t first, life = 1;
    buffering_open(&scene, (struct feed_config){0});
    filter_up(&scene, 10);
    TELL(&scene, .kind = EV_IDLE, .flag = true);
    filter_down(&scene, 1, 5);
    for (int i = 0; i < 4; i++) {
        buf_reset(&scene.said);
        filter_up(&scene, 10);
        assert_int_equal(sscanf(buf_text(&scene.said), "SEND w0 %lu+%lu", &first, &life), 2);
        scene.now_ms += 60000 + life;
        filter_down(&scene, life, 5);
    }
    assert_int_equal(life, 8 * 8 * 8);
    scene_close(&scene);
}

static void with_slow_input_it_is_ended_when_its_time_is_over(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){.n_workers = 1, .n_devices = 1});
    TELL(&scene, .kind = EV_INPUT, .count = 3);
    filter_up(&scene, 10);
    scene.now_ms += 200;
    TELL(&scene, .kind = EV_IDLE, .flag = true);
    filter_down(&scene, 1, 0);
    filter_up(&scene, 10);
    scene.now_ms += 100;
    filter_down(&scene, 1, 0);
    buf_reset(&scene.said);
    filter_up(&scene, 10);
    scene.now_ms += 200;
    TELL(&scene, .kind = EV_IDLE, .flag = true);
    expect(&scene, "SEND w0 2+1; ");
    scene.now_ms += 4000;
    TELL(&scene, .kind = EV_IDLE, .flag = true);
    expect(&scene, "END w0; ");
    scene_close(&scene);
}

static void at_the_end_of_the_data_nobody_waits_for_its_silence(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){.n_workers = 1, .n_devices = 1});
    TELL(&scene, .kind = EV_INPUT, .count = 5, .flag = true);
    filter_up(&scene, 10);
    scene.now_ms += 200;
    TELL(&scene, .kind = EV_IDLE, .flag = true);
    filter_down(&scene, 1, 0);
    filter_up(&scene, 10);
    filter_down(&scene, 1, 0);
    buf_reset(&scene.said);
    filter_up(&scene, 10);
    expect(&scene, "SEND w0 2+3; END w0; ");
    scene_close(&scene);
}

/* Two in hand, each answered 100 ms after the one before. */
static void answers_until(struct scene *scene, uint64_t end_ms)
{
    while (scene->now_ms < end_ms) {
        scene->now_ms += 100;
        TELL(scene, .kind = EV_ANSWERS, .count = 1);
    }
}

static void a_filter_that_rests_is_believed_at_once_and_drained_often(void **state)
{
    (void)state;
    struct scene scene;
    struct feed_worker_view view;
    buffering_open(&scene, (struct feed_config){0});
    filter_up(&scene, 10);
    for (uint64_t n = 0, before = 0; n < 20; n++, before = scene.now_ms) {
        for (feed_worker(scene.feed, 0, &view); !view.is_settling;
             feed_worker(scene.feed, 0, &view))
            answers_until(&scene, scene.now_ms + 100);
        if (n > 0)
            assert_in_range(scene.now_ms - before, 500, 1000);
        TELL(&scene, .kind = EV_RESTS); /* of one that is not drained it says nothing: the next */
        TELL(&scene, .kind = EV_RESTS);
        assert_non_null(strstr(buf_text(&scene.said), "COMMIT w0 "));
        buf_reset(&scene.said);
    }
    scene_close(&scene);
}

static void one_that_is_not_seen_to_rest_is_drained_for_a_fortieth_of_the_time(void **state)
{
    (void)state;
    struct scene scene;
    uint64_t n_commits = 0;
    buffering_open(&scene, (struct feed_config){0});
    filter_up(&scene, 10);
    while (scene.now_ms < 100000) {
        struct feed_worker_view view;
        feed_worker(scene.feed, 0, &view);
        scene.now_ms = view.is_settling ? feed_next_ms(scene.feed) : scene.now_ms + 100;
        if (view.is_settling)
            TELL(&scene, .kind = EV_TICK);
        else
            TELL(&scene, .kind = EV_ANSWERS, .count = 1);
        n_commits += strstr(buf_text(&scene.said), "COMMIT") != NULL;
        buf_reset(&scene.said);
    }
    assert_in_range(n_commits, 100000 / (40 * 200) - 1, 100000 / (40 * 200) + 2);
    scene_close(&scene);
}

static void what_rested_and_then_asks_for_items_was_no_filter(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){.n_workers = 1, .n_devices = 1});
    TELL(&scene, .kind = EV_INPUT, .count = 1);
    filter_up(&scene, 10);
    TELL(&scene, .kind = EV_ANSWERS, .count = 1);
    buf_reset(&scene.said);
    TELL(&scene, .kind = EV_READY, .count = 1);
    expect(&scene, "REVOKE w0; SEND w0 0+1; ");
    TELL(&scene, .kind = EV_RESTS);
    expect(&scene, "");
    scene_close(&scene);
}

static void with_an_order_nothing_is_there_before_all_is_known(void **state)
{
    (void)state;
    static const uint32_t order[] = {1, 0};
    struct scene scene;
    scene_open(&scene,
               &(struct feed_config){.n_workers = 1, .n_devices = 1, .order = order, .n_order = 2});
    TELL(&scene, .kind = EV_TICK);
    expect(&scene, "");
    TELL(&scene, .kind = EV_INPUT, .count = 2, .flag = true);
    expect(&scene, "SPAWN w0; ");
    scene_close(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_filter_that_buffers_gets_lives_of_a_second_where_starts_are_cheap),
        cmocka_unit_test(its_lives_grow_with_what_would_be_lost_beside_what_is_kept),
        cmocka_unit_test(what_takes_long_to_start_is_not_ended_to_find_out),
        cmocka_unit_test(a_limit_on_silence_or_on_starting_shortens_its_lives),
        cmocka_unit_test(where_few_may_load_its_input_ends_when_it_has_answered),
        cmocka_unit_test(its_lives_are_of_whole_batches),
        cmocka_unit_test(a_load_behind_the_first_line_is_found_in_the_second_life),
        cmocka_unit_test(with_slow_input_it_is_ended_when_its_time_is_over),
        cmocka_unit_test(at_the_end_of_the_data_nobody_waits_for_its_silence),
        cmocka_unit_test(a_filter_that_rests_is_believed_at_once_and_drained_often),
        cmocka_unit_test(what_rested_and_then_asks_for_items_was_no_filter),
        cmocka_unit_test(with_an_order_nothing_is_there_before_all_is_known),
        cmocka_unit_test(one_that_is_not_seen_to_rest_is_drained_for_a_fortieth_of_the_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
