/* SPDX-License-Identifier: Apache-2.0
 *
 * What time brings about, where nobody says anything.
 */
#include "scene.h"

/* Ticks when the feeder wants them, until `until_ms`. */
static void wait_until(struct scene *scene, uint64_t until_ms)
{
    while (feed_next_ms(scene->feed) <= until_ms) {
        scene->now_ms = feed_next_ms(scene->feed);
        TELL(scene, .kind = EV_TICK);
    }
    scene->now_ms = until_ms;
}

static void a_worker_that_asks_for_nothing_more_is_ended_for_its_silence(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene,
               &(struct feed_config){.n_workers = 1, .n_devices = 1, .silence_limit_ms = 9000});
    TELL(&scene, .kind = EV_INPUT, .count = 2, .flag = true);
    channel_up(&scene, 0, 1);
    TELL(&scene, .kind = EV_DONE, .item = 0);
    TELL(&scene, .kind = EV_COMMITTED, .item = 0, .count = 1);
    buf_reset(&scene.said);
    wait_until(&scene, 9000);
    expect(&scene, "");
    wait_until(&scene, 30000);
    expect(&scene, "TERMINATE w0; ");
    scene_close(&scene);
}

static void a_worker_that_asks_for_nothing_may_be_silent_while_there_is_nothing(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene,
               &(struct feed_config){.n_workers = 1, .n_devices = 1, .silence_limit_ms = 9000});
    TELL(&scene, .kind = EV_INPUT, .count = 1, .flag = false);
    channel_up(&scene, 0, 1);
    TELL(&scene, .kind = EV_DONE, .item = 0);
    TELL(&scene, .kind = EV_COMMITTED, .item = 0, .count = 1);
    buf_reset(&scene.said);
    wait_until(&scene, 60000);
    expect(&scene, "");
    TELL(&scene, .kind = EV_INPUT, .count = 2, .flag = true);
    wait_until(&scene, 90000);
    expect(&scene, "TERMINATE w0; ");
    scene_close(&scene);
}

static void a_filter_that_is_ended_with_lines_in_hand_keeps_its_limit(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){
                           .n_workers = 1, .n_devices = 1, .batch = 4, .item_limit_ms = 4000});
    TELL(&scene, .kind = EV_INPUT, .count = 5, .flag = true);
    TELL(&scene, .kind = EV_STARTED);
    TELL(&scene, .kind = EV_ROOM, .count = 100);
    TELL(&scene, .kind = EV_ANSWERS, .count = 4);
    expect(&scene, "SPAWN w0 batch 4; SEND w0 0+4; SEND w0 4+1; END w0; ");
    wait_until(&scene, 20000);
    expect(&scene, "TERMINATE w0; ");
    scene_close(&scene);
}

/* A filter that has answered all of its items and was told to end. */
static void filter_is_ending(struct scene *scene)
{
    scene_open(scene, &(struct feed_config){.n_workers = 1, .n_devices = 1, .end_limit_ms = 5000});
    TELL(scene, .kind = EV_INPUT, .count = 2, .flag = true);
    TELL(scene, .kind = EV_STARTED);
    TELL(scene, .kind = EV_ROOM, .count = 100);
    TELL(scene, .kind = EV_ANSWERS, .count = 1);
    TELL(scene, .kind = EV_STOP);
    expect(scene, "SPAWN w0; SEND w0 0+1; SEND w0 1+1; HALT; END w0; ");
}

static void a_worker_that_lingers_is_ended_and_its_answers_count(void **state)
{
    (void)state;
    struct scene scene;
    filter_is_ending(&scene);
    wait_until(&scene, scene.now_ms + 8000); /* it is at work on its last item */
    TELL(&scene, .kind = EV_ANSWERS, .count = 1);
    uint64_t answered_ms = scene.now_ms;
    wait_until(&scene, answered_ms + 4999);
    expect(&scene, "");
    wait_until(&scene, answered_ms + 30000);
    expect(&scene, "COMMIT w0 0+2; TERMINATE w0; ");
    TELL(&scene, .kind = EV_COMMITTED, .item = 0, .count = 2);
    TELL(&scene, .kind = EV_EXIT, .death = GONE_ENDED);
    expect(&scene, "COMPLETE; OVER; ");
    scene_close(&scene);
}

static void a_filter_that_closes_its_input_is_out_of_step_unless_it_ends_soon(void **state)
{
    (void)state;
    for (int ends = 0; ends < 2; ends++) {
        struct scene scene;
        scene_open(&scene, &(struct feed_config){.n_workers = 1, .n_devices = 1, .retries = 2});
        TELL(&scene, .kind = EV_INPUT, .count = 2, .flag = true);
        TELL(&scene, .kind = EV_STARTED);
        TELL(&scene, .kind = EV_ROOM, .count = 100);
        buf_reset(&scene.said);
        TELL(&scene, .kind = EV_CLOSED);
        wait_until(&scene, scene.now_ms + 1000);
        TELL(&scene, .kind = EV_CLOSED); /* the time runs from the first */
        if (ends)
            TELL(&scene, .kind = EV_EXIT, .death = GONE_CRASH);
        wait_until(&scene, scene.now_ms + 1000);
        expect(&scene, ends ? "" : "TERMINATE w0; ");
        scene_close(&scene);
    }
}

/* A host says nothing for longer than an item may take; then it counts as lost, and the item is not charged. */
static void an_item_of_a_silent_host_is_not_charged_when_the_host_is_lost(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene,
               &(struct feed_config){.n_workers = 1, .n_devices = 1, .item_limit_ms = 4000});
    TELL(&scene, .kind = EV_INPUT, .count = 1, .flag = true);
    channel_up(&scene, 0, 1);
    buf_reset(&scene.said);
    wait_until(&scene, 30000);
    expect(&scene, "TERMINATE w0; ");
    TELL(&scene, .kind = EV_DEVICE_LOST, .worker = 0, .flag = true);
    TELL(&scene, .kind = EV_EXIT, .worker = 0, .death = GONE_DEVICE_LOST);
    expect(&scene, "BENCH w0; "); /* without retries, a charge would set it aside */
    scene_close(&scene);
}

static void items_of_a_process_that_may_live_on_a_lost_host_wait_for_its_end(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){.n_workers = 2, .n_devices = 2, .no_reissue = true});
    TELL(&scene, .kind = EV_INPUT, .count = 3, .flag = true);
    channel_up(&scene, 0, 2);
    channel_up(&scene, 1, 1);
    buf_reset(&scene.said);
    TELL(&scene, .kind = EV_DEVICE_LOST, .worker = 0, .flag = true);
    TELL(&scene, .kind = EV_EXIT, .worker = 0, .death = GONE_DEVICE_LOST, .count = 900);
    expect(&scene, "BENCH w0; TERMINATE w0; ");
    TELL(&scene, .kind = EV_READY, .worker = 1, .count = 4);
    scene.now_ms += 899;
    TELL(&scene, .kind = EV_TICK);
    expect(&scene, "");
    scene.now_ms += 1;
    TELL(&scene, .kind = EV_TICK);
    expect(&scene, "SEND w1 0+2; ");
    scene_close(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_that_asks_for_nothing_more_is_ended_for_its_silence),
        cmocka_unit_test(a_worker_that_asks_for_nothing_may_be_silent_while_there_is_nothing),
        cmocka_unit_test(a_worker_that_lingers_is_ended_and_its_answers_count),
        cmocka_unit_test(a_filter_that_closes_its_input_is_out_of_step_unless_it_ends_soon),
        cmocka_unit_test(a_filter_that_is_ended_with_lines_in_hand_keeps_its_limit),
        cmocka_unit_test(an_item_of_a_silent_host_is_not_charged_when_the_host_is_lost),
        cmocka_unit_test(items_of_a_process_that_may_live_on_a_lost_host_wait_for_its_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
