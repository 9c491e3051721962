/* SPDX-License-Identifier: Apache-2.0
 *
 * The feeder's decisions when a worker says what cannot be read, or what one item alone is to blame for.
 */
#include "scene.h"

static void exit_and_return(struct scene *scene, enum feed_death death)
{
    TELL(scene, .kind = EV_EXIT, .death = death);
    scene->now_ms += 60000;
    TELL(scene, .kind = EV_MEM_BACK);
}

static void a_message_that_cannot_be_read_makes_suspects_of_what_is_in_hand(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){
                           .n_workers = 1, .n_devices = 1, .retries = 0, .no_reissue = true});
    TELL(&scene, .kind = EV_INPUT, .count = 2, .flag = true);
    channel_up(&scene, 0, 2);
    buf_reset(&scene.said);
    TELL(&scene, .kind = EV_STRAY);
    expect(&scene, "TERMINATE w0; ");
    exit_and_return(&scene, GONE_ENDED);
    channel_up(&scene, 0, 2);
    expect(&scene, "NOTE; SPAWN w0; SEND w0 0+1; ");
    TELL(&scene, .kind = EV_DONE, .item = 0);
    expect(&scene, "COMMIT w0 0+1; SEND w0 1+1; ");
    TELL(&scene, .kind = EV_STRAY);
    exit_and_return(&scene, GONE_ENDED);
    expect(&scene, "TERMINATE w0; SET_ASIDE w0 1 after 1; ");
    scene_close(&scene);
}

static void the_first_item_of_one_device_may_be_the_one_that_cannot_be_read(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){
                           .n_workers = 1, .n_devices = 1, .retries = 2, .no_reissue = true});
    TELL(&scene, .kind = EV_INPUT, .count = 2, .flag = true);
    for (int life = 0; life < 3; life++) {
        channel_up(&scene, 0, 1);
        buf_reset(&scene.said);
        TELL(&scene, .kind = EV_STRAY);
        exit_and_return(&scene, GONE_ENDED);
    }
    expect(&scene, "TERMINATE w0; SET_ASIDE w0 0 after 3; SPAWN w0; ");
    channel_up(&scene, 0, 1);
    expect(&scene, "SEND w0 1+1; ");
    scene_close(&scene);
}

static void a_worker_that_gives_up_without_items_is_no_fault_of_items(void **state)
{
    (void)state;
    struct scene scene;
    int lives = 0;
    scene_open(&scene, &(struct feed_config){
                           .n_workers = 1, .n_devices = 1, .retries = 2, .no_reissue = true});
    TELL(&scene, .kind = EV_INPUT, .count = 9, .flag = true);
    channel_up(&scene, 0, 1);
    TELL(&scene, .kind = EV_DONE, .item = 0);
    exit_and_return(&scene, GONE_CRASH);
    for (; lives < 20 && !strstr(buf_text(&scene.said), "HALT"); lives++) {
        channel_up(&scene, 0, 0); /* it says that it loads, and then that it cannot */
        TELL(&scene, .kind = EV_STRAY);
        exit_and_return(&scene, GONE_ENDED);
    }
    assert_in_range(lives, 2, 10);
    scene_close(&scene);
}

static void a_worker_that_can_never_be_read_ends_the_run(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){
                           .n_workers = 1, .n_devices = 1, .retries = 2, .no_reissue = true});
    TELL(&scene, .kind = EV_INPUT, .count = 1000, .flag = true);
    int n_lives = 0;
    for (; !strstr(buf_text(&scene.said), "HALT") && n_lives < 100; n_lives++) {
        channel_up(&scene, 0, 100);
        TELL(&scene, .kind = EV_STRAY);
        exit_and_return(&scene, GONE_ENDED);
    }
    assert_in_range(n_lives, 3, 10);
    scene_close(&scene);
}

/* A device on which workers have given results is not benched for its items. */
static void items_that_cannot_be_read_do_not_bench_a_device_that_works(void **state)
{
    bool has_item = *state != NULL;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){
                           .n_workers = 1, .n_devices = 1, .retries = 2, .no_reissue = true});
    TELL(&scene, .kind = EV_INPUT, .count = 20, .flag = true);
    channel_up(&scene, 0, 1);
    TELL(&scene, .kind = EV_DONE, .item = 0);
    TELL(&scene, .kind = EV_COMMITTED, .item = 0, .count = 1);
    for (int life = 0; life < 3 * 19; life++) {
        channel_up(&scene, 0, 1);
        const char *sent = strstr(buf_text(&scene.said), "SEND w0 ");
        assert_non_null(sent);
        uint64_t item = strtoull(sent + strlen("SEND w0 "), NULL, 10);
        TELL(&scene, .kind = EV_STRAY, .item = item, .flag = has_item);
        buf_reset(&scene.said);
        exit_and_return(&scene, GONE_ENDED);
        assert_null(strstr(buf_text(&scene.said), "BENCH"));
        assert_null(strstr(buf_text(&scene.said), "HALT"));
    }
    struct feed_counts counts;
    feed_counts(scene.feed, &counts);
    assert_int_equal(counts.aside, 19);
    scene_close(&scene);
}

static void what_cannot_be_read_before_the_first_item_is_a_failure_to_start(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){.n_workers = 1, .n_devices = 1});
    TELL(&scene, .kind = EV_INPUT, .count = 9, .flag = true);
    for (int life = 0; life < 2; life++) {
        channel_up(&scene, 0, 0);
        TELL(&scene, .kind = EV_STRAY);
        buf_reset(&scene.said);
        exit_and_return(&scene, GONE_ENDED);
    }
    expect(&scene, "HALT; OVER; ");
    scene_close(&scene);
}

static void an_item_that_is_known_to_be_to_blame_is_charged_alone(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){
                           .n_workers = 1, .n_devices = 1, .retries = 1, .no_reissue = true});
    TELL(&scene, .kind = EV_INPUT, .count = 9, .flag = true);
    channel_up(&scene, 0, 9);
    buf_reset(&scene.said);
    TELL(&scene, .kind = EV_STRAY, .item = 4, .flag = true);
    exit_and_return(&scene, GONE_ENDED);
    expect(&scene, "TERMINATE w0; SPAWN w0; ");
    for (uint64_t item = 0; item < 9; item++)
        assert_int_equal(feed_item_failures(scene.feed, item), item == 4);
    scene_close(&scene);
}

static void a_filters_line_without_an_end_charges_its_item_and_mismatches_nothing(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){
                           .n_workers = 1, .n_devices = 1, .retries = 4, .no_reissue = true});
    TELL(&scene, .kind = EV_INPUT, .count = 3, .flag = true);
    for (int life = 0; life < 5; life++) {
        TELL(&scene, .kind = EV_STARTED);
        TELL(&scene, .kind = EV_ROOM, .count = 100);
        buf_reset(&scene.said);
        TELL(&scene, .kind = EV_STRAY, .item = 0, .flag = true);
        exit_and_return(&scene, GONE_ENDED);
    }
    expect(&scene, "TERMINATE w0; SET_ASIDE w0 0 after 5; SPAWN w0; ");
    scene_close(&scene);
}

static void a_failed_line_of_a_filter_is_passed_over_and_the_others_keep_their_places(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){
                           .n_workers = 1, .n_devices = 1, .retries = 0, .no_reissue = true});
    TELL(&scene, .kind = EV_INPUT, .count = 4, .flag = true);
    TELL(&scene, .kind = EV_STARTED);
    TELL(&scene, .kind = EV_ROOM, .count = 1);
    TELL(&scene, .kind = EV_ANSWERS, .count = 1);
    TELL(&scene, .kind = EV_ROOM, .count = 100);
    buf_reset(&scene.said);
    TELL(&scene, .kind = EV_IDLE);
    buf_reset(&scene.said);
    TELL(&scene, .kind = EV_FAIL, .item = 1);
    TELL(&scene, .kind = EV_PASSED, .count = 1);
    assert_non_null(strstr(buf_text(&scene.said), "SET_ASIDE w0 1 after 1; "));
    TELL(&scene, .kind = EV_ANSWERS, .count = 2);
    buf_reset(&scene.said);
    TELL(&scene, .kind = EV_EXIT, .death = GONE_CLEAN);
    expect(&scene, "COMMIT w0 0+1; COMMIT w0 2+2; ");
    scene_close(&scene);
}

static void a_failure_of_an_item_far_away_is_noted_at_most(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){.n_workers = 1, .n_devices = 1});
    TELL(&scene, .kind = EV_INPUT, .count = 9, .flag = true);
    channel_up(&scene, 0, 1);
    buf_reset(&scene.said);
    TELL(&scene, .kind = EV_FAIL, .item = UINT64_MAX);
    TELL(&scene, .kind = EV_DONE, .item = UINT64_MAX);
    expect(&scene, "NOTE w0; DROP w0; NOTE w0; ");
    TELL(&scene, .kind = EV_STRAY, .item = UINT64_MAX - 1, .flag = true);
    TELL(&scene, .kind = EV_EXIT, .death = GONE_ENDED);
    expect(&scene, "TERMINATE w0; SET_ASIDE w0 0 after 1; "); /* what it has in hand */
    scene_close(&scene);
}

int main(void)
{
    bool has_item = true;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_that_cannot_be_read_makes_suspects_of_what_is_in_hand),
        cmocka_unit_test(the_first_item_of_one_device_may_be_the_one_that_cannot_be_read),
        cmocka_unit_test(a_worker_that_gives_up_without_items_is_no_fault_of_items),
        cmocka_unit_test(a_worker_that_can_never_be_read_ends_the_run),
        cmocka_unit_test(items_that_cannot_be_read_do_not_bench_a_device_that_works),
        cmocka_unit_test_prestate(items_that_cannot_be_read_do_not_bench_a_device_that_works,
                                  &has_item),
        cmocka_unit_test(what_cannot_be_read_before_the_first_item_is_a_failure_to_start),
        cmocka_unit_test(an_item_that_is_known_to_be_to_blame_is_charged_alone),
        cmocka_unit_test(a_filters_line_without_an_end_charges_its_item_and_mismatches_nothing),
        cmocka_unit_test(a_failed_line_of_a_filter_is_passed_over_and_the_others_keep_their_places),
        cmocka_unit_test(a_failure_of_an_item_far_away_is_noted_at_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
