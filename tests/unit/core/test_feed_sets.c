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

/* On one set a worker loads, the other was lost with its worker, whose memory is free. */
static void one_of_two_is_lost(struct scene *scene)
{
    sets_open(scene, 0);
    channel_up(scene, 0, 1);
    channel_up(scene, 1, 0);
    TELL(scene, .kind = EV_DEVICE_LOST, .worker = 2);
    TELL(scene, .kind = EV_EXIT, .worker = 0, .death = GONE_CRASH);
    TELL(scene, .kind = EV_MEM_BACK, .worker = 0);
    buf_reset(&scene->said);
}

static void a_set_that_is_well_again_is_used_again_after_a_pause(void **state)
{
    (void)state;
    struct scene scene;
    one_of_two_is_lost(&scene);
    TELL(&scene, .kind = EV_DEVICE_BACK, .worker = 0);
    TELL(&scene, .kind = EV_DEVICE_BACK, .worker = 1); /* it was never lost */
    scene.now_ms += 9999;
    TELL(&scene, .kind = EV_DEVICE_BACK, .worker = 0); /* the pause goes on */
    expect(&scene, "");
    assert_true(feed_next_ms(scene.feed) == scene.now_ms + 1);
    scene.now_ms += 1;
    TELL(&scene, .kind = EV_TICK);
    expect(&scene, "RETURN w0; SPAWN w0; ");
    scene_close(&scene);
}

static void a_set_that_is_lost_in_the_pause_is_not_used(void **state)
{
    (void)state;
    struct scene scene;
    one_of_two_is_lost(&scene);
    TELL(&scene, .kind = EV_DEVICE_BACK, .worker = 0);
    TELL(&scene, .kind = EV_DEVICE_LOST, .worker = 0);
    scene.now_ms += 60000;
    TELL(&scene, .kind = EV_TICK);
    expect(&scene, "");
    TELL(&scene, .kind = EV_DEVICE_BACK, .worker = 0);
    scene.now_ms += 10000;
    TELL(&scene, .kind = EV_TICK);
    expect(&scene, "RETURN w0; SPAWN w0; ");
    scene_close(&scene);
}

static void the_worker_of_a_set_that_is_back_waits_for_its_memory(void **state)
{
    (void)state;
    struct scene scene;
    sets_open(&scene, 0);
    channel_up(&scene, 0, 1);
    channel_up(&scene, 1, 1);
    TELL(&scene, .kind = EV_DEVICE_LOST, .worker = 0);
    TELL(&scene, .kind = EV_DEVICE_BACK, .worker = 0);
    scene.now_ms += 10000;
    buf_reset(&scene.said);
    TELL(&scene, .kind = EV_TICK); /* its process is ending still */
    expect(&scene, "RETURN w0; ");
    TELL(&scene, .kind = EV_EXIT, .worker = 0, .death = GONE_DEVICE_LOST); /* no news */
    expect(&scene, "");
    TELL(&scene, .kind = EV_MEM_BACK, .worker = 0);
    expect(&scene, "SPAWN w0; ");
    scene_close(&scene);
}

static void a_set_returns_three_times_each_time_later(void **state)
{
    (void)state;
    struct scene scene;
    one_of_two_is_lost(&scene);
    for (uint64_t pause_ms = 10000; pause_ms <= 40000; pause_ms *= 2) {
        TELL(&scene, .kind = EV_DEVICE_BACK, .worker = 0);
        scene.now_ms += pause_ms - 1;
        TELL(&scene, .kind = EV_TICK);
        expect(&scene, "");
        scene.now_ms += 1;
        TELL(&scene, .kind = EV_TICK);
        expect(&scene, "RETURN w0; SPAWN w0; ");
        TELL(&scene, .kind = EV_STARTED, .worker = 0);
        scene.now_ms += 1;
        TELL(&scene, .kind = EV_EXIT, .worker = 0, .death = GONE_DEVICE_LOST);
        TELL(&scene, .kind = EV_MEM_BACK, .worker = 0);
        expect(&scene, "BENCH w0; TERMINATE w0; ");
    }
    TELL(&scene, .kind = EV_DEVICE_BACK, .worker = 0);
    scene.now_ms += 3600000;
    TELL(&scene, .kind = EV_TICK);
    expect(&scene, "");
    TELL(&scene, .kind = EV_DEVICE_LOST, .worker = 0,
         .flag = true); /* now its host went, and is back */
    TELL(&scene, .kind = EV_DEVICE_BACK, .worker = 0);
    scene.now_ms += 1;
    TELL(&scene, .kind = EV_TICK);
    expect(&scene, "RETURN w0; SPAWN w0; ");
    scene_close(&scene);
}

static void seats_that_were_empty_at_the_loss_are_filled_at_the_return(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){
                           .n_workers = 3, .n_devices = 3, .loading_max = 1, .no_reissue = true});
    TELL(&scene, .kind = EV_INPUT, .count = 100, .flag = true); /* worker 0 starts */
    TELL(&scene, .kind = EV_DEVICE_LOST, .worker = 1);
    TELL(&scene, .kind = EV_DEVICE_LOST, .worker = 2);
    expect(&scene, "SPAWN w0; BENCH w1; BENCH w2; ");
    TELL(&scene, .kind = EV_DEVICE_BACK, .worker = 1);
    scene.now_ms += 5000;
    TELL(&scene, .kind = EV_DEVICE_BACK, .worker = 2);
    scene.now_ms += 5000;
    channel_up(&scene, 0, 1);
    expect(&scene, "RETURN w1; SEND w0 0+1; SPAWN w1; ");
    TELL(&scene, .kind = EV_LOADED, .worker = 1);
    scene.now_ms += 5000;
    TELL(&scene, .kind = EV_TICK);
    expect(&scene, "RETURN w2; SPAWN w2; ");
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

static void two_workers_of_a_device_that_die_again_and_again_bench_it_once(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){.n_workers = 3,
                                             .n_devices = 2,
                                             .device_of = (uint32_t[]){0, 0, 1},
                                             .retries = 200,
                                             .no_reissue = true});
    TELL(&scene, .kind = EV_INPUT, .count = 100, .flag = true);
    for (uint32_t worker = 0; worker < 2; worker++) {
        channel_up(&scene, worker, 1);
        TELL(&scene, .kind = EV_DONE, .worker = worker, .item = worker);
    }
    for (int lives = 0; lives < 7; lives++) {
        for (uint32_t worker = 0; worker < 2; worker++) {
            TELL(&scene, .kind = EV_EXIT, .worker = worker, .death = GONE_CRASH);
            TELL(&scene, .kind = EV_MEM_BACK, .worker = worker);
            TELL(&scene, .kind = EV_STARTED, .worker = worker);
        }
        scene.now_ms += 60000;
        TELL(&scene, .kind = EV_TICK);
    }
    const char *benched = strstr(buf_text(&scene.said), "BENCH w0; ");
    assert_non_null(benched);
    assert_null(strstr(benched + 1, "BENCH"));
    scene_close(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_second_device_ends_its_worker_and_charges_nobody),
        cmocka_unit_test(a_set_that_is_well_again_is_used_again_after_a_pause),
        cmocka_unit_test(a_set_that_is_lost_in_the_pause_is_not_used),
        cmocka_unit_test(the_worker_of_a_set_that_is_back_waits_for_its_memory),
        cmocka_unit_test(a_set_returns_three_times_each_time_later),
        cmocka_unit_test(seats_that_were_empty_at_the_loss_are_filled_at_the_return),
        cmocka_unit_test(without_a_whole_set_the_run_ends),
        cmocka_unit_test(a_worker_that_dies_at_its_start_on_every_set_ends_the_run),
        cmocka_unit_test(one_set_has_two_tries_at_a_start),
        cmocka_unit_test(two_workers_of_a_device_that_die_again_and_again_bench_it_once),
        cmocka_unit_test(sets_whose_workers_die_again_and_again_are_given_up_one_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
