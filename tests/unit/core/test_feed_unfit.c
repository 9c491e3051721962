/* SPDX-License-Identifier: Apache-2.0
 *
 * The feeder's decisions about items whose records cannot be given to any worker.
 */
#include "scene.h"

#define ONE_FILTER (&(struct feed_config){.n_workers = 1, .n_devices = 1, .no_reissue = true})

static void filter_up(struct scene *scene, uint64_t n_items)
{
    TELL(scene, .kind = EV_INPUT, .count = n_items, .flag = true);
    TELL(scene, .kind = EV_STARTED);
    TELL(scene, .kind = EV_ROOM, .count = 1000);
}

static void an_unfit_item_is_set_aside_and_costs_its_filter_nothing(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, ONE_FILTER);
    filter_up(&scene, 2);
    expect(&scene, "SPAWN w0; SEND w0 0+1; ");
    TELL(&scene, .kind = EV_UNFIT, .item = 0);
    expect(&scene, "SET_ASIDE w0 0 after 0; ");
    TELL(&scene, .kind = EV_PASSED, .count = 1);
    expect(&scene, "SEND w0 1+1; ");
    TELL(&scene, .kind = EV_COMMITTED, .item = 0, .count = 1);
    TELL(&scene, .kind = EV_ANSWERS, .count = 1);
    TELL(&scene, .kind = EV_EXIT, .death = GONE_CLEAN);
    expect(&scene, "END w0; COMMIT w0 1+1; ");
    TELL(&scene, .kind = EV_COMMITTED, .item = 1, .count = 1);
    expect(&scene, "COMPLETE; OVER; ");
    scene_close(&scene);
}

/* 0 fits, 1 does not, 2 and 3 do: the second answer is that of item 2. */
static void answers_are_matched_around_an_unfit_item(void **state)
{
    (void)state;
    struct scene scene;
    struct feed_config config = {.n_workers = 1, .n_devices = 1, .no_reissue = true, .batch = 4};
    scene_open(&scene, &config);
    filter_up(&scene, 4);
    expect(&scene, "SPAWN w0 batch 4; SEND w0 0+4; ");
    TELL(&scene, .kind = EV_UNFIT, .item = 1);
    TELL(&scene, .kind = EV_ANSWERS, .count = 1);
    TELL(&scene, .kind = EV_PASSED, .count = 1);
    TELL(&scene, .kind = EV_ANSWERS, .count = 2);
    buf_reset(&scene.said);
    TELL(&scene, .kind = EV_EXIT, .death = GONE_CLEAN);
    expect(&scene, "COMMIT w0 0+1; COMMIT w0 2+2; ");
    scene_close(&scene);
}

static void a_channel_worker_keeps_the_credit_of_an_unfit_item(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, ONE_FILTER);
    TELL(&scene, .kind = EV_INPUT, .count = 2, .flag = true);
    channel_up(&scene, 0, 1);
    expect(&scene, "SPAWN w0; SEND w0 0+1; ");
    TELL(&scene, .kind = EV_UNFIT, .item = 0);
    expect(&scene, "SET_ASIDE w0 0 after 0; SEND w0 1+1; ");
    scene_close(&scene);
}

/* Else the second worker would be given it again and again, until the first is gone. */
static void an_unfit_item_is_unfit_for_whoever_has_a_copy(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){
                           .n_workers = 2, .n_devices = 2, .device_of = (uint32_t[]){0, 1}});
    TELL(&scene, .kind = EV_INPUT, .count = 4, .flag = true);
    channel_up(&scene, 0, 1);
    channel_up(&scene, 1, 1);
    for (int i = 0; i < 2; i++) {
        TELL(&scene, .kind = EV_DONE, .worker = 1, .item = (uint64_t)i + 1);
        TELL(&scene, .kind = EV_READY, .worker = 1, .count = 1);
    }
    TELL(&scene, .kind = EV_DONE, .worker = 1, .item = 3);
    scene.now_ms += 1000;
    buf_reset(&scene.said);
    TELL(&scene, .kind = EV_READY, .worker = 1, .count = 1);
    TELL(&scene, .kind = EV_TICK);
    expect(&scene, "NOTE w1; SEND w1 0+1; ");
    TELL(&scene, .kind = EV_UNFIT, .worker = 1, .item = 0);
    expect(&scene, "SET_ASIDE w1 0 after 0; ");
    TELL(&scene, .kind = EV_UNFIT, .worker = 0, .item = 0);
    expect(&scene, "");
    scene_close(&scene);
}

static void a_worker_that_was_given_only_unfit_items_may_still_fail_to_start(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){.n_workers = 2,
                                             .n_devices = 2,
                                             .no_reissue = true,
                                             .device_of = (uint32_t[]){0, 1}});
    TELL(&scene, .kind = EV_INPUT, .count = 9, .flag = true);
    for (uint32_t w = 0; w < 2; w++) {
        TELL(&scene, .kind = EV_STARTED, .worker = w);
        TELL(&scene, .kind = EV_ROOM, .worker = w, .count = 100);
        TELL(&scene, .kind = EV_UNFIT, .worker = w, .item = w);
    }
    buf_reset(&scene.said);
    TELL(&scene, .kind = EV_EXIT, .worker = 0, .death = GONE_CRASH);
    TELL(&scene, .kind = EV_EXIT, .worker = 1, .death = GONE_CRASH);
    expect(&scene, "HALT; ");
    scene_close(&scene);
}

static void a_thousand_unfit_items_without_a_result_end_the_run(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, ONE_FILTER);
    filter_up(&scene, 5000);
    uint64_t item = 0;
    for (; item < 5000 && !strstr(buf_text(&scene.said), "HALT"); item++) {
        buf_reset(&scene.said);
        TELL(&scene, .kind = EV_UNFIT, .item = item);
        TELL(&scene, .kind = EV_PASSED, .count = 1);
        TELL(&scene, .kind = EV_COMMITTED, .item = item, .count = 1);
    }
    assert_int_equal(item, 1000);
    scene_close(&scene);
}

/* The first was not written yet; were it waited for, the copy would be taken again and again. */
static void the_copy_of_an_unfit_item_settles_the_item(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){.n_workers = 2, .n_devices = 2});
    TELL(&scene, .kind = EV_INPUT, .count = 2, .flag = true);
    channel_up(&scene, 0, 1);
    channel_up(&scene, 1, 1);
    scene.now_ms += 100;
    TELL(&scene, .kind = EV_DONE, .worker = 1, .item = 1);
    TELL(&scene, .kind = EV_COMMITTED, .item = 1, .count = 1);
    TELL(&scene, .kind = EV_READY, .worker = 1, .count = 1);
    buf_reset(&scene.said);
    for (int i = 0; i < 100 && buf_text(&scene.said)[0] == '\0'; i++) {
        scene.now_ms = feed_next_ms(scene.feed);
        TELL(&scene, .kind = EV_TICK);
    }
    expect(&scene, "NOTE w1; SEND w1 0+1; ");
    TELL(&scene, .kind = EV_UNFIT, .worker = 1, .item = 0);
    expect(&scene, "SET_ASIDE w1 0 after 0; ");
    TELL(&scene, .kind = EV_UNFIT, .worker = 0, .item = 0);
    expect(&scene, "");
    TELL(&scene, .kind = EV_COMMITTED, .item = 0, .count = 1);
    expect(&scene, "COMPLETE; END w0; END w1; ");
    scene_close(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unfit_item_is_set_aside_and_costs_its_filter_nothing),
        cmocka_unit_test(answers_are_matched_around_an_unfit_item),
        cmocka_unit_test(a_channel_worker_keeps_the_credit_of_an_unfit_item),
        cmocka_unit_test(an_unfit_item_is_unfit_for_whoever_has_a_copy),
        cmocka_unit_test(a_worker_that_was_given_only_unfit_items_may_still_fail_to_start),
        cmocka_unit_test(a_thousand_unfit_items_without_a_result_end_the_run),
        cmocka_unit_test(the_copy_of_an_unfit_item_settles_the_item),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
