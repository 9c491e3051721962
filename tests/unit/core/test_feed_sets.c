/* SPDX-License-Identifier: Apache-2.0
 *
 * Workers that need several devices each: devices 0 and 2 are one set, 1 and 3 the other.
 */
#include "unit/core/scene.h"

static const uint32_t first_of[] = {0, 1, 0, 1};

static void sets_open(struct scene *scene, uint32_t retries)
{
    scene_open(scene, &(struct feed_config){.n_workers = 2,
                                            .n_devices = 4,
                                            .first_of = first_of,
                                            .device_of = (uint32_t[]){0, 1},
                                            .retries = retries,
                                            .no_reissue = true});
    TELL(scene, .kind = EV_INPUT, .count = 100, .flag = true);
    buf_reset(&scene->said);
}

static void a_lost_second_device_ends_its_worker_and_charges_nobody(void **state)
{
    (void)state;
    struct scene scene;
    sets_open(&scene, 0);
    channel_up(&scene, 0, 1);
    channel_up(&scene, 1, 1);
    buf_reset(&scene.said);
    TELL(&scene, .kind = EV_DEVICE_LOST, .worker = 2);
    TELL(&scene, .kind = EV_DEVICE_LOST, .worker = 0); /* the other one too: nothing is new */
    expect(&scene, "BENCH w0; TERMINATE w0; ");
    TELL(&scene, .kind = EV_EXIT, .worker = 0, .death = GONE_CRASH);
    assert_int_equal(feed_item_failures(scene.feed, 0), 0);
    TELL(&scene, .kind = EV_MEM_BACK, .worker = 0);
    TELL(&scene, .kind = EV_DONE, .worker = 1, .item = 1);
    buf_reset(&scene.said);
    TELL(&scene, .kind = EV_READY, .worker = 1, .count = 1);
    expect(&scene, "SEND w1 0+1; ");
    scene_close(&scene);
}

static void without_a_whole_set_the_run_ends(void **state)
{
    (void)state;
    struct scene scene;
    sets_open(&scene, 0);
    TELL(&scene, .kind = EV_DEVICE_LOST, .worker = 2);
    TELL(&scene, .kind = EV_DEVICE_LOST, .worker = 3);
    expect(&scene, "BENCH w0; TERMINATE w0; BENCH w1; TERMINATE w1; HALT; ");
    scene_close(&scene);
}

static void a_worker_that_dies_at_its_start_on_every_set_ends_the_run(void **state)
{
    (void)state;
    struct scene scene;
    sets_open(&scene, 0);
    for (uint32_t worker = 0; worker < 2; worker++)
        TELL(&scene, .kind = EV_EXIT, .worker = worker, .death = GONE_CRASH);
    expect(&scene, "HALT; OVER; ");
    scene_close(&scene);
}

static void one_set_has_two_tries_at_a_start(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){
                           .n_workers = 1, .n_devices = 3, .first_of = (uint32_t[]){0, 0, 0}});
    TELL(&scene, .kind = EV_INPUT, .count = 100, .flag = true);
    TELL(&scene, .kind = EV_EXIT, .worker = 0, .death = GONE_CRASH);
    TELL(&scene, .kind = EV_MEM_BACK, .worker = 0);
    expect(&scene, "SPAWN w0; SPAWN w0; ");
    TELL(&scene, .kind = EV_EXIT, .worker = 0, .death = GONE_CRASH);
    expect(&scene, "HALT; OVER; ");
    scene_close(&scene);
}

static void sets_whose_workers_die_again_and_again_are_given_up_one_by_one(void **state)
{
    (void)state;
    struct scene scene;
    sets_open(&scene, 200);
    for (uint32_t worker = 0; worker < 2; worker++) {
        channel_up(&scene, worker, 1);
        TELL(&scene, .kind = EV_DONE, .worker = worker, .item = worker);
    }
    int lives = 0;
    for (; lives < 20 && !strstr(buf_text(&scene.said), "HALT"); lives++) {
        for (uint32_t worker = 0; worker < 2; worker++) {
            TELL(&scene, .kind = EV_EXIT, .worker = worker, .death = GONE_CRASH);
            TELL(&scene, .kind = EV_MEM_BACK, .worker = worker);
            TELL(&scene, .kind = EV_STARTED, .worker = worker);
        }
        scene.now_ms += 60000;
        TELL(&scene, .kind = EV_TICK);
    }
    assert_non_null(strstr(buf_text(&scene.said), "BENCH w0; "));
    assert_non_null(strstr(buf_text(&scene.said), "BENCH w1; HALT; "));
    assert_int_equal(lives, 7);
    scene_close(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_second_device_ends_its_worker_and_charges_nobody),
        cmocka_unit_test(without_a_whole_set_the_run_ends),
        cmocka_unit_test(a_worker_that_dies_at_its_start_on_every_set_ends_the_run),
        cmocka_unit_test(one_set_has_two_tries_at_a_start),
        cmocka_unit_test(sets_whose_workers_die_again_and_again_are_given_up_one_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
