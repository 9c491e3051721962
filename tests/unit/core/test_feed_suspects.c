/* SPDX-License-Identifier: Apache-2.0
 *
 * Suspects: which of the items that a worker had in hand killed it.
 */
#include "scene.h"

static void a_crash_with_many_in_flight_charges_nobody_and_halves(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){.n_workers = 1, .n_devices = 1, .no_reissue = true});
    TELL(&scene, .kind = EV_INPUT, .count = 9, .flag = true);
    channel_up(&scene, 0, 9);
    TELL(&scene, .kind = EV_DONE, .item = 0);
    buf_reset(&scene.said);
    TELL(&scene, .kind = EV_EXIT, .death = GONE_CRASH);
    TELL(&scene, .kind = EV_MEM_BACK);
    expect(&scene, "NOTE; SPAWN w0; ");
    channel_up(&scene, 0, 9);
    expect(&scene, "SEND w0 1+4; ");
    for (uint64_t item = 1; item <= 8; item++)
        assert_int_equal(feed_item_failures(scene.feed, item), 0);
    scene_close(&scene);
}

static void the_culprit_alone_is_charged_and_set_aside(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){
                           .n_workers = 1, .n_devices = 1, .retries = 0, .no_reissue = true});
    TELL(&scene, .kind = EV_INPUT, .count = 2, .flag = true);
    channel_up(&scene, 0, 1);
    TELL(&scene, .kind = EV_DONE, .item = 0);
    TELL(&scene, .kind = EV_READY, .count = 1);
    buf_reset(&scene.said);
    TELL(&scene, .kind = EV_EXIT, .death = GONE_CRASH);
    expect(&scene, "SET_ASIDE w0 1 after 1; ");
    TELL(&scene, .kind = EV_COMMITTED, .item = 0, .count = 1);
    TELL(&scene, .kind = EV_COMMITTED, .item = 1, .count = 1);
    expect(&scene, "COMPLETE; OVER; ");
    scene_close(&scene);
}

/* What is sent before its first word goes to the stdin of a filter, and comes back when it is none. */
static void a_suspect_stays_one_when_its_worker_turns_out_to_use_the_channel(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){.n_workers = 1, .n_devices = 1, .no_reissue = true});
    TELL(&scene, .kind = EV_INPUT, .count = 10, .flag = true);
    channel_up(&scene, 0, 3);
    TELL(&scene, .kind = EV_DONE, .item = 0);
    buf_reset(&scene.said);
    TELL(&scene, .kind = EV_EXIT, .death = GONE_CRASH);
    expect(&scene, "NOTE; ");
    TELL(&scene, .kind = EV_MEM_BACK);
    TELL(&scene, .kind = EV_STARTED);
    TELL(&scene, .kind = EV_ROOM, .count = 100);
    expect(&scene, "SPAWN w0; SEND w0 1+1; ");
    TELL(&scene, .kind = EV_READY, .count = 3);
    expect(&scene, "SEND w0 2+1; "); /* the other half, alone as well */
    TELL(&scene, .kind = EV_DONE, .item = 2);
    TELL(&scene, .kind = EV_READY, .count = 1);
    expect(&scene, "COMMIT w0 2+1; SEND w0 1+1; ");
    TELL(&scene, .kind = EV_EXIT, .death = GONE_CRASH);
    expect(&scene, "SET_ASIDE w0 1 after 1; ");
    scene_close(&scene);
}

static void suspects_are_not_held_by_a_worker_that_has_no_room(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){.n_workers = 3, .n_devices = 3, .retries = 3});
    TELL(&scene, .kind = EV_INPUT, .count = 5, .flag = true);
    channel_up(&scene, 0, 1); /* its one credit is used up by item 0, on which it hangs */
    channel_up(&scene, 1, 1);
    channel_up(&scene, 2, 1);
    scene.now_ms += 100;
    TELL(&scene, .kind = EV_DONE, .worker = 1, .item = 1);
    TELL(&scene, .kind = EV_READY, .worker = 1, .count = 1);
    TELL(&scene, .kind = EV_DONE, .worker = 1, .item = 3);
    TELL(&scene, .kind = EV_DONE, .worker = 2, .item = 2);
    TELL(&scene, .kind = EV_READY, .worker = 2, .count = 1);
    scene.now_ms += 300;
    TELL(&scene, .kind = EV_READY, .worker = 1, .count = 1);
    TELL(&scene, .kind = EV_DONE, .worker = 1, .item = 0);
    TELL(&scene, .kind = EV_EXIT, .worker = 2, .death = GONE_CRASH);
    scene.now_ms += 5000;
    TELL(&scene, .kind = EV_LOADED, .worker = 0); /* it speaks, but asks for nothing */
    buf_reset(&scene.said);
    TELL(&scene, .kind = EV_READY, .worker = 1, .count = 1);
    expect(&scene, "SEND w1 4+1; ");
    scene_close(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_crash_with_many_in_flight_charges_nobody_and_halves),
        cmocka_unit_test(the_culprit_alone_is_charged_and_set_aside),
        cmocka_unit_test(a_suspect_stays_one_when_its_worker_turns_out_to_use_the_channel),
        cmocka_unit_test(suspects_are_not_held_by_a_worker_that_has_no_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
