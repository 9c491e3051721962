/* SPDX-License-Identifier: Apache-2.0
 *
 * Seats that come while a run lasts, and sets of devices that are given back.
 */
#include "unit/core/scene.h"

/* Two channel workers on devices of their own; each has one of a hundred items. */
static void two_open(struct scene *scene)
{
    scene_open(scene, &(struct feed_config){.n_workers = 2,
                                            .n_devices = 2,
                                            .n_workers_max = 4,
                                            .n_devices_max = 4,
                                            .no_reissue = true});
    TELL(scene, .kind = EV_INPUT, .count = 100, .flag = true);
    channel_up(scene, 0, 1);
    channel_up(scene, 1, 1);
    buf_reset(&scene->said);
}

static void a_seat_that_comes_is_filled_at_once(void **state)
{
    (void)state;
    struct scene scene;
    two_open(&scene);
    TELL(&scene, .kind = EV_DEVICE_UP, .worker = 2);
    expect(&scene, "");
    TELL(&scene, .kind = EV_SEAT_UP, .worker = 2);
    expect(&scene, "SPAWN w2; ");
    TELL(&scene, .kind = EV_SEAT_UP, .worker = 2);
    expect(&scene, "SPAWN w3; ");
    channel_up(&scene, 3, 1);
    expect(&scene, "SEND w3 2+1; ");
    scene_close(&scene);
}

static void a_seat_on_a_set_that_was_lost_meanwhile_waits_for_its_return(void **state)
{
    (void)state;
    struct scene scene;
    two_open(&scene);
    TELL(&scene, .kind = EV_DEVICE_UP, .worker = 2);
    TELL(&scene, .kind = EV_DEVICE_LOST, .worker = 2, .flag = true);
    TELL(&scene, .kind = EV_SEAT_UP, .worker = 2);
    expect(&scene, "BENCH w2; ");
    TELL(&scene, .kind = EV_MEM_BACK, .worker = 2);
    TELL(&scene, .kind = EV_DEVICE_BACK, .worker = 2);
    expect(&scene, "RETURN w2; SPAWN w2; ");
    scene_close(&scene);
}

static void a_set_that_is_given_back_finishes_its_items_and_is_never_used_again(void **state)
{
    (void)state;
    struct scene scene;
    two_open(&scene);
    TELL(&scene, .kind = EV_SET_DRAIN, .worker = 0);
    expect(&scene, "END w0; ");
    TELL(&scene, .kind = EV_SET_DRAIN, .worker = 0); /* said twice */
    TELL(&scene, .kind = EV_READY, .worker = 0, .count = 1);
    expect(&scene, "");
    TELL(&scene, .kind = EV_DONE, .worker = 0, .item = 0);
    expect(&scene, "COMMIT w0 0+1; ");
    TELL(&scene, .kind = EV_EXIT, .worker = 0, .death = GONE_CLEAN);
    expect(&scene, "VACATED w0; ");
    TELL(&scene, .kind = EV_MEM_BACK, .worker = 0);
    TELL(&scene, .kind = EV_DEVICE_LOST, .worker = 0, .flag = true);
    TELL(&scene, .kind = EV_DEVICE_BACK, .worker = 0);
    scene.now_ms += 100000;
    TELL(&scene, .kind = EV_TICK);
    struct feed_worker_view view;
    feed_worker(scene.feed, 0, &view);
    assert_int_equal(view.state, WORKER_GONE);
    assert_null(strstr(buf_text(&scene.said), "w0"));
    scene_close(&scene);
}

static void workers_that_are_ended_with_their_set_cost_nobody_a_try(void **state)
{
    (void)state;
    struct scene scene;
    two_open(&scene);
    TELL(&scene, .kind = EV_SET_DRAIN, .worker = 0);
    TELL(&scene, .kind = EV_SET_DRAIN, .worker = 0, .flag = true);
    TELL(&scene, .kind = EV_EXIT, .worker = 0, .death = GONE_ENDED);
    expect(&scene, "END w0; TERMINATE w0; VACATED w0; ");
    assert_int_equal(feed_item_failures(scene.feed, 0), 0);
    TELL(&scene, .kind = EV_DONE, .worker = 1, .item = 1);
    TELL(&scene, .kind = EV_READY, .worker = 1, .count = 1);
    expect(&scene, "COMMIT w1 1+1; SEND w1 0+1; ");
    scene_close(&scene);
}

static void the_loss_of_a_host_that_drains_ends_its_workers(void **state)
{
    (void)state;
    struct scene scene;
    two_open(&scene);
    TELL(&scene, .kind = EV_SET_DRAIN, .worker = 0);
    TELL(&scene, .kind = EV_DEVICE_LOST, .worker = 0, .flag = true);
    TELL(&scene, .kind = EV_EXIT, .worker = 0, .death = GONE_DEVICE_LOST);
    expect(&scene, "END w0; TERMINATE w0; VACATED w0; ");
    assert_int_equal(feed_item_failures(scene.feed, 0), 0);
    scene_close(&scene);
}

static void a_lost_set_that_is_given_back_is_not_waited_for(void **state)
{
    (void)state;
    struct scene scene;
    two_open(&scene);
    TELL(&scene, .kind = EV_DEVICE_LOST, .worker = 0, .flag = true);
    TELL(&scene, .kind = EV_EXIT, .worker = 0, .death = GONE_DEVICE_LOST);
    TELL(&scene, .kind = EV_SET_DRAIN, .worker = 0);
    TELL(&scene, .kind = EV_DEVICE_BACK, .worker = 0);
    expect(&scene, "BENCH w0; TERMINATE w0; VACATED w0; ");
    TELL(&scene, .kind = EV_SET_DRAIN, .worker = 1, .flag = true);
    TELL(&scene, .kind = EV_EXIT, .worker = 1, .death = GONE_ENDED);
    expect(&scene, "TERMINATE w1; VACATED w1; HALT; OVER; ");
    scene_close(&scene);
}

static void a_run_whose_last_set_is_given_back_waits_for_seats_that_may_come(void **state)
{
    (void)state;
    struct scene scene;
    two_open(&scene);
    TELL(&scene, .kind = EV_AWAIT, .flag = true);
    TELL(&scene, .kind = EV_SET_DRAIN, .worker = 0);
    TELL(&scene, .kind = EV_SET_DRAIN, .worker = 1);
    TELL(&scene, .kind = EV_EXIT, .worker = 0, .death = GONE_CRASH);
    TELL(&scene, .kind = EV_EXIT, .worker = 1, .death = GONE_CRASH);
    expect(&scene, "END w0; END w1; VACATED w0; VACATED w1; ");
    TELL(&scene, .kind = EV_AWAIT, .flag = false);
    expect(&scene, "HALT; OVER; ");
    scene_close(&scene);
}

static void the_run_goes_on_while_the_last_set_finishes_its_items(void **state)
{
    (void)state;
    struct scene scene;
    two_open(&scene);
    TELL(&scene, .kind = EV_DONE, .worker = 1, .item = 1);
    TELL(&scene, .kind = EV_COMMITTED, .item = 1, .count = 1);
    buf_reset(&scene.said);
    TELL(&scene, .kind = EV_SET_DRAIN, .worker = 0);
    TELL(&scene, .kind = EV_DEVICE_LOST, .worker = 1);
    TELL(&scene, .kind = EV_EXIT, .worker = 1, .death = GONE_DEVICE_LOST);
    expect(&scene, "END w0; BENCH w1; TERMINATE w1; ");
    TELL(&scene, .kind = EV_DONE, .worker = 0, .item = 0);
    TELL(&scene, .kind = EV_COMMITTED, .item = 0, .count = 1);
    TELL(&scene, .kind = EV_EXIT, .worker = 0, .death = GONE_CLEAN);
    expect(&scene, "COMMIT w0 0+1; VACATED w0; HALT; OVER; ");
    scene_close(&scene);
}

static void a_bad_start_on_a_set_that_is_given_back_tells_nothing_about_others(void **state)
{
    (void)state;
    struct scene scene;
    two_open(&scene);
    TELL(&scene, .kind = EV_SET_DRAIN, .worker = 0);
    TELL(&scene, .kind = EV_EXIT, .worker = 1, .death = GONE_NOT_STARTED);
    expect(&scene, "END w0; HALT; TERMINATE w0; "); /* the one that is left is hopeless */
    scene_close(&scene);
    two_open(&scene);
    TELL(&scene, .kind = EV_SET_DRAIN, .worker = 0);
    TELL(&scene, .kind = EV_EXIT, .worker = 0, .death = GONE_NOT_STARTED);
    expect(&scene, "END w0; VACATED w0; ");
    scene_close(&scene);
}

/* With one item, the first two seats would have all the tries of a command that fails everywhere. */
static void devices_where_the_command_has_only_failed_are_filled_last(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){.n_workers = 3, .n_devices = 3});
    TELL(&scene, .kind = EV_INPUT, .count = 1, .flag = true);
    for (uint32_t worker = 0; worker < 3; worker++) {
        channel_up(&scene, worker, 1);
        buf_reset(&scene.said);
        TELL(&scene, .kind = EV_EXIT, .worker = worker, .death = GONE_CRASH);
        TELL(&scene, .kind = EV_MEM_BACK, .worker = worker);
        scene.now_ms += 60000;
        TELL(&scene, .kind = EV_TICK);
        expect(&scene, worker == 0 ? "SPAWN w1; " : worker == 1 ? "SPAWN w2; " : "HALT; OVER; ");
    }
    scene_close(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_seat_that_comes_is_filled_at_once),
        cmocka_unit_test(a_seat_on_a_set_that_was_lost_meanwhile_waits_for_its_return),
        cmocka_unit_test(a_set_that_is_given_back_finishes_its_items_and_is_never_used_again),
        cmocka_unit_test(workers_that_are_ended_with_their_set_cost_nobody_a_try),
        cmocka_unit_test(the_loss_of_a_host_that_drains_ends_its_workers),
        cmocka_unit_test(a_lost_set_that_is_given_back_is_not_waited_for),
        cmocka_unit_test(a_run_whose_last_set_is_given_back_waits_for_seats_that_may_come),
        cmocka_unit_test(the_run_goes_on_while_the_last_set_finishes_its_items),
        cmocka_unit_test(a_bad_start_on_a_set_that_is_given_back_tells_nothing_about_others),
        cmocka_unit_test(devices_where_the_command_has_only_failed_are_filled_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
