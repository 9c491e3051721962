/* SPDX-License-Identifier: Apache-2.0
 *
 * The feeder's decisions, one at a time: who gets what, and what counts as answered. The simulator
 * (tests/sim) covers what no one would think of.
 */
#include "scene.h"

static void surplus_workers_never_start(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){.n_workers = 8, .n_devices = 8});
    TELL(&scene, .kind = EV_INPUT, .count = 2, .flag = true);
    expect(&scene, "SPAWN w0; SPAWN w1; ");
    scene_close(&scene);
}

static void an_empty_input_is_complete_at_once(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){.n_workers = 2, .n_devices = 2});
    TELL(&scene, .kind = EV_INPUT, .count = 0, .flag = true);
    expect(&scene, "COMPLETE; OVER; ");
    scene_close(&scene);
}

static void the_first_item_of_a_filter_goes_alone(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){.n_workers = 1, .n_devices = 1});
    TELL(&scene, .kind = EV_INPUT, .count = 10, .flag = true);
    TELL(&scene, .kind = EV_STARTED);
    buf_reset(&scene.said);
    TELL(&scene, .kind = EV_ROOM, .count = 100);
    expect(&scene, "SEND w0 0+1; ");
    TELL(&scene, .kind = EV_ROOM, .count = 100);
    expect(&scene, "");
    TELL(&scene, .kind = EV_ANSWERS, .count = 1);
    expect(&scene, "SEND w0 1+2; ");
    scene_close(&scene);
}

/* It was given one item and has printed one line. */
static void drained_filter(struct scene *scene)
{
    scene_open(scene, &(struct feed_config){.n_workers = 1, .n_devices = 1, .no_reissue = true});
    TELL(scene, .kind = EV_INPUT, .count = 1, .flag = false);
    TELL(scene, .kind = EV_STARTED);
    TELL(scene, .kind = EV_ROOM, .count = 100);
    TELL(scene, .kind = EV_ANSWERS, .count = 1);
    expect(scene, "SPAWN w0; SEND w0 0+1; ");
}

static void equal_counts_are_committed_only_after_a_quiet_while(void **state)
{
    (void)state;
    struct scene scene;
    drained_filter(&scene);
    scene.now_ms = feed_next_ms(scene.feed);
    TELL(&scene, .kind = EV_TICK);
    expect(&scene, "COMMIT w0 0+1; ");
    scene_close(&scene);
}

/* The first line was a banner: the answer that makes it one too many comes late. */
static void equal_counts_of_a_filter_at_work_wait_for_it(void **state)
{
    (void)state;
    struct scene scene;
    drained_filter(&scene);
    uint64_t begin_ms = scene.now_ms;
    for (int i = 0; i < 20 && scene.now_ms < begin_ms + 3000; i++) {
        TELL(&scene, .kind = EV_WORKS);
        scene.now_ms += 2 * (scene.now_ms - begin_ms) + 1;
        TELL(&scene, .kind = EV_TICK);
        expect(&scene, "");
    }
    TELL(&scene, .kind = EV_ANSWERS, .count = 1);
    expect(&scene, "REVOKE w0; TERMINATE w0; ");
    scene_close(&scene);
}

static void a_filter_of_slow_items_is_given_their_time(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){.n_workers = 1, .n_devices = 1, .no_reissue = true});
    TELL(&scene, .kind = EV_INPUT, .count = 2, .flag = false);
    TELL(&scene, .kind = EV_STARTED);
    TELL(&scene, .kind = EV_ROOM, .count = 100);
    TELL(&scene, .kind = EV_ANSWERS, .count = 1);
    scene.now_ms += 700;
    TELL(&scene, .kind = EV_ANSWERS, .count = 1);
    buf_reset(&scene.said);
    TELL(&scene, .kind = EV_WORKS);
    assert_int_equal(feed_next_ms(scene.feed), scene.now_ms + 2 * 700);
    scene_close(&scene);
}

/* A thread of its own that never rests: the answers are not held back for ever. */
static void whoever_works_on_in_silence_is_believed_at_last(void **state)
{
    (void)state;
    struct scene scene;
    drained_filter(&scene);
    uint64_t begin_ms = scene.now_ms;
    while (scene.now_ms < begin_ms + 5100) {
        TELL(&scene, .kind = EV_WORKS);
        scene.now_ms += 100;
        TELL(&scene, .kind = EV_TICK);
    }
    expect(&scene, "COMMIT w0 0+1; ");
    scene_close(&scene);
}

static void a_surplus_line_revokes_what_was_not_committed(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){.n_workers = 1, .n_devices = 1});
    TELL(&scene, .kind = EV_INPUT, .count = 5, .flag = true);
    TELL(&scene, .kind = EV_STARTED);
    TELL(&scene, .kind = EV_ROOM, .count = 100);
    TELL(&scene, .kind = EV_ANSWERS, .count = 1);
    buf_reset(&scene.said);
    TELL(&scene, .kind = EV_ANSWERS, .count = 3);
    expect(&scene, "REVOKE w0; TERMINATE w0; ");
    TELL(&scene, .kind = EV_EXIT, .death = GONE_ENDED);
    TELL(&scene, .kind = EV_MEM_BACK);
    expect(&scene, "SPAWN w0; ");
    scene_close(&scene);
}

static void a_failed_item_is_tried_on_another_device_first(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){
                           .n_workers = 2, .n_devices = 2, .retries = 1, .no_reissue = true});
    TELL(&scene, .kind = EV_INPUT, .count = 2, .flag = true);
    channel_up(&scene, 0, 5);
    channel_up(&scene, 1, 5);
    buf_reset(&scene.said);
    TELL(&scene, .kind = EV_FAIL, .worker = 0, .item = 0, .flag = true);
    expect(&scene, "");
    scene.now_ms += 1000;
    TELL(&scene, .kind = EV_TICK);
    expect(&scene, ""); /* worker 0 has room, but it failed there */
    TELL(&scene, .kind = EV_DONE, .worker = 1, .item = 1);
    expect(&scene, "COMMIT w1 1+1; SEND w1 0+1; ");
    TELL(&scene, .kind = EV_FAIL, .worker = 1, .item = 0, .flag = true);
    expect(&scene, "SET_ASIDE w1 0 after 2; ");
    scene_close(&scene);
}

static void a_resumed_run_sends_only_what_is_missing(void **state)
{
    (void)state;
    static const struct item_interval done[] = {{0, 3}, {4, 2}};
    struct scene scene;
    scene_open(&scene, &(struct feed_config){.n_workers = 1,
                                             .n_devices = 1,
                                             .done = done,
                                             .n_done = countof(done),
                                             .no_reissue = true});
    TELL(&scene, .kind = EV_INPUT, .count = 8, .flag = true);
    channel_up(&scene, 0, 8);
    expect(&scene, "SPAWN w0; SEND w0 3+1; SEND w0 6+2; ");
    scene_close(&scene);
}

static void known_sizes_go_longest_first(void **state)
{
    (void)state;
    static const uint32_t order[] = {2, 0, 1};
    struct scene scene;
    scene_open(&scene,
               &(struct feed_config){.n_workers = 1, .n_devices = 1, .order = order, .n_order = 3});
    TELL(&scene, .kind = EV_INPUT, .count = 3, .flag = true);
    channel_up(&scene, 0, 3);
    expect(&scene, "SPAWN w0; SEND w0 2+1; SEND w0 0+1; SEND w0 1+1; ");
    scene_close(&scene);
}

static void at_most_so_many_load_at_one_time(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){.n_workers = 3, .n_devices = 3, .loading_max = 1});
    TELL(&scene, .kind = EV_INPUT, .count = 100, .flag = true);
    expect(&scene, "SPAWN w0; ");
    TELL(&scene, .kind = EV_STARTED, .worker = 0);
    expect(&scene, "");
    TELL(&scene, .kind = EV_LOADED, .worker = 0);
    expect(&scene, "SPAWN w1; ");
    scene_close(&scene);
}

static void workers_start_so_far_apart(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){.n_workers = 3, .n_devices = 3, .stagger_ms = 1000});
    uint64_t begin_ms = scene.now_ms;
    TELL(&scene, .kind = EV_INPUT, .count = 100, .flag = true);
    expect(&scene, "SPAWN w0; ");
    assert_int_equal(feed_next_ms(scene.feed), begin_ms + 1000);
    scene.now_ms = begin_ms + 999;
    TELL(&scene, .kind = EV_TICK);
    expect(&scene, "");
    scene.now_ms = begin_ms + 1000;
    TELL(&scene, .kind = EV_TICK);
    expect(&scene, "SPAWN w1; ");
    scene.now_ms = begin_ms + 2500; /* from a start to the next, whenever that was due */
    TELL(&scene, .kind = EV_TICK);
    expect(&scene, "SPAWN w2; ");
    assert_int_equal(feed_next_ms(scene.feed), UINT64_MAX);
    scene_close(&scene);
}

static void a_keyed_filter_never_runs_out_of_places_for_what_it_was_sent(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){.n_workers = 2, .n_devices = 2, .no_reissue = true});
    TELL(&scene, .kind = EV_INPUT, .count = 4000);
    keyed_up(&scene, 0);
    keyed_up(&scene, 1);
    /* Turn by turn, so that no two items of one worker are neighbours. */
    for (uint64_t item = 0; item < 2000; item++) {
        buf_reset(&scene.said);
        TELL(&scene, .kind = EV_ROOM, .worker = item % 2, .count = 1);
        TELL(&scene, .kind = EV_DONE, .worker = item % 2, .item = item);
        assert_non_null(strstr(buf_text(&scene.said), "SEND"));
    }
    scene_close(&scene);
}

static void fixed_batches_stay_on_their_borders_after_a_retry(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(
        &scene,
        &(struct feed_config){
            .n_workers = 1, .n_devices = 1, .batch = 4, .fixed_batches = true, .retries = 3});
    TELL(&scene, .kind = EV_INPUT, .count = 16, .flag = true);
    channel_up(&scene, 0, 4);
    TELL(&scene, .kind = EV_FAIL, .item = 1, .flag = true);
    TELL(&scene, .kind = EV_DONE, .item = 0);
    TELL(&scene, .kind = EV_DONE, .item = 2);
    TELL(&scene, .kind = EV_READY, .count = 3);
    scene.now_ms += 5000;
    buf_reset(&scene.said);
    TELL(&scene, .kind = EV_DONE, .item = 3);
    TELL(&scene, .kind = EV_READY, .count = 1);
    buf_reset(&scene.said);
    TELL(&scene, .kind = EV_DONE, .item = 1);
    TELL(&scene, .kind = EV_READY, .count = 4);
    expect(&scene, "COMMIT w0 1+1; SEND w0 4+4; ");
    scene_close(&scene);
}

static void a_fixed_batch_whose_worker_dies_is_first_tried_whole_again(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(
        &scene,
        &(struct feed_config){
            .n_workers = 1, .n_devices = 1, .batch = 8, .fixed_batches = true, .retries = 3});
    TELL(&scene, .kind = EV_INPUT, .count = 16, .flag = true);
    channel_up(&scene, 0, 8);
    for (uint64_t i = 0; i < 8; i++)
        TELL(&scene, .kind = EV_DONE, .item = i);
    TELL(&scene, .kind = EV_READY, .count = 8);
    TELL(&scene, .kind = EV_DONE, .item = 8);
    for (int tries = 0; tries < 2; tries++) {
        TELL(&scene, .kind = EV_EXIT, .death = GONE_CRASH);
        TELL(&scene, .kind = EV_MEM_BACK);
        scene.now_ms += 60000;
        TELL(&scene, .kind = EV_TICK);
        buf_reset(&scene.said);
        channel_up(&scene, 0, 8);
        expect(&scene, tries == 0 ? "SEND w0 8+8; " : "SEND w0 8+4; ");
    }
    scene_close(&scene);
}

static void a_failure_after_the_result_changes_nothing(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){
                           .n_workers = 1, .n_devices = 1, .batch = 2, .fixed_batches = true});
    TELL(&scene, .kind = EV_INPUT, .count = 2, .flag = true);
    channel_up(&scene, 0, 2);
    TELL(&scene, .kind = EV_DONE, .item = 0);
    buf_reset(&scene.said);
    TELL(&scene, .kind = EV_FAIL, .item = 0, .flag = true);
    expect(&scene, "NOTE w0; ");
    TELL(&scene, .kind = EV_DONE, .item = 1);
    expect(&scene, "COMMIT w0 0+2; ");
    scene_close(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(surplus_workers_never_start),
        cmocka_unit_test(an_empty_input_is_complete_at_once),
        cmocka_unit_test(the_first_item_of_a_filter_goes_alone),
        cmocka_unit_test(equal_counts_are_committed_only_after_a_quiet_while),
        cmocka_unit_test(equal_counts_of_a_filter_at_work_wait_for_it),
        cmocka_unit_test(a_filter_of_slow_items_is_given_their_time),
        cmocka_unit_test(whoever_works_on_in_silence_is_believed_at_last),
        cmocka_unit_test(a_surplus_line_revokes_what_was_not_committed),
        cmocka_unit_test(a_failed_item_is_tried_on_another_device_first),
        cmocka_unit_test(a_resumed_run_sends_only_what_is_missing),
        cmocka_unit_test(known_sizes_go_longest_first),
        cmocka_unit_test(at_most_so_many_load_at_one_time),
        cmocka_unit_test(workers_start_so_far_apart),
        cmocka_unit_test(a_keyed_filter_never_runs_out_of_places_for_what_it_was_sent),
        cmocka_unit_test(fixed_batches_stay_on_their_borders_after_a_retry),
        cmocka_unit_test(a_fixed_batch_whose_worker_dies_is_first_tried_whole_again),
        cmocka_unit_test(a_failure_after_the_result_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
