/* SPDX-License-Identifier: Apache-2.0
 *
 * The feeder's decisions when workers die, hang, run out of memory or time.
 */
#include "scene.h"

static void a_filter_that_stays_after_its_last_answer_has_answered(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){.n_workers = 1, .n_devices = 1});
    TELL(&scene, .kind = EV_INPUT, .count = 1, .flag = true);
    TELL(&scene, .kind = EV_STARTED);
    TELL(&scene, .kind = EV_ROOM, .count = 100);
    TELL(&scene, .kind = EV_ANSWERS, .count = 1);
    expect(&scene, "SPAWN w0; SEND w0 0+1; END w0; ");
    TELL(&scene, .kind = EV_EXIT, .death = GONE_ENDED);
    expect(&scene, "COMMIT w0 0+1; ");
    scene_close(&scene);
}

static void a_worker_that_goes_on_with_fewer_items_says_how_many_its_device_gets(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){.n_workers = 2, .n_devices = 2, .no_reissue = true});
    TELL(&scene, .kind = EV_INPUT, .count = 100, .flag = true);
    channel_up(&scene, 0, 8);
    channel_up(&scene, 1, 8);
    buf_reset(&scene.said);
    TELL(&scene, .kind = EV_OOM, .worker = 1, .count = 4);
    expect(&scene, "BATCH w1 batch 4; ");
    struct feed_worker_view first, second;
    feed_worker(scene.feed, 0, &first);
    feed_worker(scene.feed, 1, &second);
    assert_int_equal(first.batch, 0);
    assert_int_equal(second.batch, 4);
    TELL(&scene, .kind = EV_OOM, .worker = 1, .count = 1ull << 40); /* it is never raised */
    expect(&scene, "BATCH w1 batch 4; ");
    TELL(&scene, .kind = EV_OOM, .worker = 1, .count = 0);
    expect(&scene, "BATCH w1 batch 1; ");
    scene_close(&scene);
}

static void nothing_ever_succeeding_ends_the_run_early(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){.n_workers = 2, .n_devices = 2});
    TELL(&scene, .kind = EV_INPUT, .count = 100, .flag = true);
    TELL(&scene, .kind = EV_STARTED, .worker = 0);
    TELL(&scene, .kind = EV_STARTED, .worker = 1);
    TELL(&scene, .kind = EV_EXIT, .worker = 0, .death = GONE_CRASH);
    buf_reset(&scene.said);
    TELL(&scene, .kind = EV_EXIT, .worker = 1, .death = GONE_CRASH);
    expect(&scene, "HALT; OVER; ");
    scene_close(&scene);
}

/* With many devices, and few items, all devices would be tried with an item that kills its worker. */
static void an_item_is_spared_once_when_its_worker_dies_on_a_device_without_results(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){.n_workers = 8, .n_devices = 8, .retries = 1});
    TELL(&scene, .kind = EV_INPUT, .count = 1, .flag = true);
    for (uint32_t worker = 0; worker < 3; worker++) {
        channel_up(&scene, worker, 1);
        buf_reset(&scene.said);
        TELL(&scene, .kind = EV_EXIT, .worker = worker, .death = GONE_CRASH);
        scene.now_ms += 60000;
        TELL(&scene, .kind = EV_TICK);
        expect(&scene, worker == 0   ? "SPAWN w1; "
                       : worker == 1 ? "SPAWN w2; "
                                     : "SET_ASIDE w2 0 after 2; ");
    }
    scene_close(&scene);
}

static void a_lost_device_is_benched_and_its_items_go_elsewhere(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){.n_workers = 2, .n_devices = 2, .no_reissue = true});
    TELL(&scene, .kind = EV_INPUT, .count = 4, .flag = true);
    channel_up(&scene, 0, 2);
    channel_up(&scene, 1, 2);
    buf_reset(&scene.said);
    TELL(&scene, .kind = EV_DEVICE_LOST, .worker = 0);
    expect(&scene, "BENCH w0; TERMINATE w0; ");
    TELL(&scene, .kind = EV_EXIT, .worker = 0, .death = GONE_DEVICE_LOST);
    expect(&scene, "");
    TELL(&scene, .kind = EV_READY, .worker = 1, .count = 4);
    expect(&scene, "SEND w1 0+2; ");
    scene_close(&scene);
}

static void a_lost_device_that_comes_back_is_taken_by_the_next_session_only(void **state)
{
    (void)state;
    const struct feed_config config = {.n_workers = 2, .n_devices = 2, .no_reissue = true};
    struct scene scene;
    scene_open(&scene, &config);
    TELL(&scene, .kind = EV_INPUT, .count = 4, .flag = true);
    channel_up(&scene, 0, 2);
    channel_up(&scene, 1, 1);
    buf_reset(&scene.said);
    TELL(&scene, .kind = EV_DEVICE_LOST, .worker = 0);
    TELL(&scene, .kind = EV_MEM_BACK, .worker = 0);
    TELL(&scene, .kind = EV_EXIT, .worker = 0, .death = GONE_DEVICE_LOST);
    scene.now_ms += 1000;
    TELL(&scene, .kind = EV_MEM_BACK, .worker = 0);
    TELL(&scene, .kind = EV_DEVICE_LOST, .worker = 0);
    expect(&scene, "BENCH w0; TERMINATE w0; ");
    scene_close(&scene);
    scene_open(&scene, &config);
    TELL(&scene, .kind = EV_INPUT, .count = 4, .flag = true);
    expect(&scene, "SPAWN w0; SPAWN w1; ");
    scene_close(&scene);
}

static void a_straggler_is_given_to_an_idle_worker_and_the_first_answer_wins(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){.n_workers = 2, .n_devices = 2});
    TELL(&scene, .kind = EV_INPUT, .count = 3, .flag = true);
    channel_up(&scene, 0, 1);
    channel_up(&scene, 1, 1);
    scene.now_ms += 100;
    TELL(&scene, .kind = EV_DONE, .worker = 1, .item = 1);
    TELL(&scene, .kind = EV_READY, .worker = 1, .count = 1);
    scene.now_ms += 100;
    TELL(&scene, .kind = EV_DONE, .worker = 1, .item = 2);
    buf_reset(&scene.said);
    TELL(&scene, .kind = EV_READY, .worker = 1, .count = 1);
    expect(&scene, "NOTE w1; SEND w1 0+1; ");
    TELL(&scene, .kind = EV_DONE, .worker = 1, .item = 0);
    expect(&scene, "COMMIT w1 0+1; ");
    TELL(&scene, .kind = EV_DONE, .worker = 0, .item = 0);
    expect(&scene, "DROP w0; ");
    scene_close(&scene);
}

static void an_item_over_its_limit_is_charged_and_its_neighbours_are_not(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){.n_workers = 1,
                                             .n_devices = 1,
                                             .retries = 0,
                                             .item_limit_ms = 500,
                                             .no_reissue = true});
    TELL(&scene, .kind = EV_INPUT, .count = 3, .flag = true);
    channel_up(&scene, 0, 1);
    TELL(&scene, .kind = EV_DONE, .item = 0);
    TELL(&scene, .kind = EV_READY, .count = 1);
    scene.now_ms += 300;
    TELL(&scene, .kind = EV_READY, .count = 1);
    buf_reset(&scene.said);
    scene.now_ms += 300;
    TELL(&scene, .kind = EV_TICK);
    expect(&scene, "TERMINATE w0; ");
    TELL(&scene, .kind = EV_EXIT, .death = GONE_ENDED);
    expect(&scene, "SET_ASIDE w0 1 after 1; ");
    assert_int_equal(feed_item_failures(scene.feed, 2), 0);
    scene_close(&scene);
}

static void a_limit_is_looked_at_though_nothing_else_happens(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){.n_workers = 1, .n_devices = 1, .item_limit_ms = 500});
    TELL(&scene, .kind = EV_INPUT, .count = 1, .flag = true);
    channel_up(&scene, 0, 1);
    expect(&scene, "SPAWN w0; SEND w0 0+1; ");
    assert_true(feed_next_ms(scene.feed) <= scene.now_ms + 500);
    scene.now_ms = feed_next_ms(scene.feed);
    TELL(&scene, .kind = EV_TICK);
    expect(&scene, "TERMINATE w0; ");
    scene_close(&scene);
}

static void the_oldest_item_of_a_keyed_filter_is_the_one_over_its_limit(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){.n_workers = 1,
                                             .n_devices = 1,
                                             .retries = 0,
                                             .item_limit_ms = 500,
                                             .no_reissue = true});
    TELL(&scene, .kind = EV_INPUT, .count = 3, .flag = true);
    keyed_up(&scene, 0);
    TELL(&scene, .kind = EV_DONE, .item = 0);
    TELL(&scene, .kind = EV_DONE, .item = 2);
    buf_reset(&scene.said);
    scene.now_ms += 600;
    TELL(&scene, .kind = EV_TICK);
    TELL(&scene, .kind = EV_EXIT, .death = GONE_ENDED);
    expect(&scene, "TERMINATE w0; SET_ASIDE w0 1 after 1; ");
    scene_close(&scene);
}

static void an_item_that_waits_behind_another_is_not_over_its_limit(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){
                           .n_workers = 1, .n_devices = 1, .item_limit_ms = 500, .retries = 9});
    TELL(&scene, .kind = EV_INPUT, .count = 4, .flag = true);
    channel_up(&scene, 0, 4); /* all four at once; each takes 400 ms, one after the other */
    buf_reset(&scene.said);
    for (uint64_t item = 0; item < 4; item++) {
        for (uint64_t end_ms = scene.now_ms + 400; feed_next_ms(scene.feed) < end_ms;) {
            scene.now_ms = feed_next_ms(scene.feed);
            TELL(&scene, .kind = EV_TICK);
        }
        scene.now_ms = 1000 + 400 * (item + 1);
        TELL(&scene, .kind = EV_DONE, .item = item);
    }
    expect(&scene, "COMMIT w0 0+1; COMMIT w0 1+1; COMMIT w0 2+1; COMMIT w0 3+1; ");
    scene_close(&scene);
}

static void the_item_sent_first_is_the_one_over_its_limit(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){
                           .n_workers = 1, .n_devices = 1, .retries = 0, .item_limit_ms = 500});
    TELL(&scene, .kind = EV_INPUT, .count = 3, .flag = true);
    TELL(&scene, .kind = EV_STARTED);
    TELL(&scene, .kind = EV_ROOM, .count = 10); /* item 0 goes to its stdin, and comes back */
    TELL(&scene, .kind = EV_READY, .count = 3);
    expect(&scene, "SPAWN w0; SEND w0 0+1; SEND w0 1+2; SEND w0 0+1; ");
    scene.now_ms += 500;
    TELL(&scene, .kind = EV_TICK);
    TELL(&scene, .kind = EV_EXIT, .death = GONE_ENDED);
    expect(&scene, "TERMINATE w0; SET_ASIDE w0 1 after 1; ");
    scene_close(&scene);
}

static void a_second_copy_has_its_own_time_limit(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){
                           .n_workers = 2, .n_devices = 2, .retries = 0, .item_limit_ms = 500});
    TELL(&scene, .kind = EV_INPUT, .count = 2, .flag = true);
    channel_up(&scene, 0, 1);
    channel_up(&scene, 1, 1);
    scene.now_ms += 100;
    TELL(&scene, .kind = EV_DONE, .worker = 1, .item = 1);
    TELL(&scene, .kind = EV_READY, .worker = 1, .count = 1);
    buf_reset(&scene.said);
    scene.now_ms += 300;
    TELL(&scene, .kind = EV_TICK);
    expect(&scene, "NOTE w1; SEND w1 0+1; ");
    scene.now_ms += 100;
    TELL(&scene, .kind = EV_TICK);
    TELL(&scene, .kind = EV_EXIT, .worker = 0, .death = GONE_ENDED);
    scene.now_ms += 200;
    TELL(&scene, .kind = EV_TICK);
    expect(&scene, "TERMINATE w0; "); /* not worker 1, which has had it for a short time only */
    scene_close(&scene);
}

static void the_limits_hold_after_the_end_of_the_input(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){.n_workers = 1,
                                             .n_devices = 1,
                                             .retries = 0,
                                             .item_limit_ms = 500,
                                             .start_limit_ms = 2000});
    TELL(&scene, .kind = EV_INPUT, .count = 2, .flag = true);
    TELL(&scene, .kind = EV_STARTED);
    TELL(&scene, .kind = EV_ROOM, .count = 10);
    TELL(&scene, .kind = EV_ANSWERS, .count = 1);
    TELL(&scene, .kind = EV_IDLE);
    expect(&scene, "SPAWN w0; SEND w0 0+1; SEND w0 1+1; END w0; ");
    scene.now_ms += 500;
    TELL(&scene, .kind = EV_TICK);
    expect(&scene, "TERMINATE w0; ");
    scene_close(&scene);
}

static void the_limit_for_the_start_holds_after_the_end_of_the_input(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene,
               &(struct feed_config){.n_workers = 1, .n_devices = 1, .start_limit_ms = 2000});
    TELL(&scene, .kind = EV_INPUT, .count = 1, .flag = true);
    TELL(&scene, .kind = EV_STARTED);
    TELL(&scene, .kind = EV_ROOM, .count = 10);
    TELL(&scene, .kind = EV_IDLE);
    expect(&scene, "SPAWN w0; SEND w0 0+1; END w0; ");
    scene.now_ms += 2000;
    TELL(&scene, .kind = EV_TICK);
    expect(&scene, "TERMINATE w0; ");
    scene_close(&scene);
}

static void every_item_of_a_hung_worker_is_given_to_others(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){.n_workers = 2, .n_devices = 2});
    TELL(&scene, .kind = EV_INPUT, .count = 12, .flag = true);
    channel_up(&scene, 0, 6);
    channel_up(&scene, 1, 1);
    uint64_t done = 0;
    for (int tries = 0; tries < 500 && done < 12; tries++) { /* worker 0 never answers */
        struct feed_counts counts;
        scene.now_ms += 100;
        for (uint64_t item = 0; item < 12; item++) {
            char sent[40];
            snprintf(sent, sizeof(sent), "SEND w1 %lu+1;", item);
            if (!strstr(buf_text(&scene.said), sent))
                continue;
            buf_reset(&scene.said);
            TELL(&scene, .kind = EV_DONE, .worker = 1, .item = item);
            TELL(&scene, .kind = EV_COMMITTED, .item = item, .count = 1);
            TELL(&scene, .kind = EV_READY, .worker = 1, .count = 1);
            break;
        }
        TELL(&scene, .kind = EV_TICK);
        feed_counts(scene.feed, &counts);
        done = counts.done;
    }
    assert_int_equal(done, 12);
    scene_close(&scene);
}

static void a_second_copy_is_not_given_to_a_filter_that_is_settling(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){.n_workers = 2, .n_devices = 2});
    TELL(&scene, .kind = EV_INPUT, .count = 3, .flag = true);
    for (uint32_t worker = 0; worker < 2; worker++) {
        TELL(&scene, .kind = EV_STARTED, .worker = worker);
        TELL(&scene, .kind = EV_ROOM, .worker = worker, .count = 100);
    }
    scene.now_ms += 1000;
    TELL(&scene, .kind = EV_ANSWERS, .worker = 0, .count = 1);
    scene.now_ms += 1000;
    buf_reset(&scene.said);
    TELL(&scene, .kind = EV_ANSWERS, .worker = 0, .count = 1);
    expect(&scene, "");
    while (scene.said.len == 0) { /* its answers are confirmed before it is given anything else */
        scene.now_ms = feed_next_ms(scene.feed);
        TELL(&scene, .kind = EV_TICK);
    }
    assert_ptr_equal(strstr(buf_text(&scene.said), "COMMIT w0"), buf_text(&scene.said));
    scene_close(&scene);
}

static void an_event_at_the_time_of_a_tick_does_not_swallow_it(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){.n_workers = 2, .n_devices = 2});
    TELL(&scene, .kind = EV_INPUT, .count = 2, .flag = true);
    channel_up(&scene, 0, 1);
    channel_up(&scene, 1, 1);
    scene.now_ms += 100;
    TELL(&scene, .kind = EV_DONE, .worker = 1, .item = 1);
    TELL(&scene, .kind = EV_READY, .worker = 1, .count = 1);
    buf_reset(&scene.said);
    scene.now_ms = feed_next_ms(scene.feed) + 300;
    TELL(&scene, .kind = EV_MEM_BACK, .worker = 1); /* in the tick's stead */
    expect(&scene, "NOTE w1; SEND w1 0+1; ");
    scene_close(&scene);
}

static void a_place_is_not_filled_before_the_memory_of_its_own_worker_is_back(void **state)
{
    (void)state;
    static const uint32_t device_of[] = {0, 0};
    struct scene scene;
    scene_open(&scene, &(struct feed_config){
                           .n_workers = 2, .n_devices = 1, .device_of = device_of, .retries = 3});
    TELL(&scene, .kind = EV_INPUT, .count = 100, .flag = true);
    channel_up(&scene, 0, 1);
    channel_up(&scene, 1, 1);
    TELL(&scene, .kind = EV_DONE, .worker = 0, .item = 0);
    TELL(&scene, .kind = EV_EXIT, .worker = 0, .death = GONE_CRASH);
    TELL(&scene, .kind = EV_MEM_BACK, .worker = 0);
    buf_reset(&scene.said);
    TELL(&scene, .kind = EV_EXIT, .worker = 1, .death = GONE_CRASH);
    expect(&scene, "");
    scene.now_ms += 5000;
    TELL(&scene, .kind = EV_MEM_BACK, .worker = 0);
    expect(&scene, "");
    TELL(&scene, .kind = EV_MEM_BACK, .worker = 1);
    expect(&scene, "SPAWN w1; ");
    scene_close(&scene);
}

static void a_model_that_does_not_fit_charges_no_item(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){.n_workers = 2, .n_devices = 2});
    TELL(&scene, .kind = EV_INPUT, .count = 100, .flag = true);
    for (uint32_t worker = 0; worker < 2; worker++) {
        TELL(&scene, .kind = EV_STARTED, .worker = worker);
        TELL(&scene, .kind = EV_ROOM, .worker = worker, .count = 100);
    }
    buf_reset(&scene.said);
    TELL(&scene, .kind = EV_EXIT, .worker = 0, .death = GONE_OOM);
    TELL(&scene, .kind = EV_EXIT, .worker = 1, .death = GONE_OOM);
    expect(&scene, "HALT; OVER; ");
    scene_close(&scene);
}

static void out_of_memory_with_batches_in_a_queue_halves_the_batch(void **state)
{
    (void)state;
    struct scene scene;
    struct feed_worker_view view;
    scene_open(&scene, &(struct feed_config){.n_workers = 1, .n_devices = 1, .batch = 8});
    TELL(&scene, .kind = EV_INPUT, .count = 100, .flag = true);
    TELL(&scene, .kind = EV_STARTED);
    TELL(&scene, .kind = EV_ROOM, .count = 1000);
    TELL(&scene, .kind = EV_ANSWERS, .count = 8);
    feed_worker(scene.feed, 0, &view);
    assert_int_equal(view.in_flight, 16);
    TELL(&scene, .kind = EV_EXIT, .death = GONE_OOM);
    feed_worker(scene.feed, 0, &view);
    assert_int_equal(view.batch, 4);
    scene_close(&scene);
}

static void a_filter_that_answers_and_dies_each_time_does_not_go_on_forever(void **state)
{
    (void)state;
    struct scene scene;
    struct feed_counts counts = {0};
    scene_open(&scene, &(struct feed_config){
                           .n_workers = 1, .n_devices = 1, .retries = 1, .no_reissue = true});
    TELL(&scene, .kind = EV_INPUT, .count = 2);
    for (int life = 0; life < 20 && counts.aside < 2; life++) {
        scene.now_ms += 5000;
        TELL(&scene, .kind = EV_STARTED);
        TELL(&scene, .kind = EV_ROOM, .count = 100);
        TELL(&scene, .kind = EV_ANSWERS, .count = 1);
        TELL(&scene, .kind = EV_EXIT, .death = GONE_CRASH);
        TELL(&scene, .kind = EV_MEM_BACK);
        feed_counts(scene.feed, &counts);
    }
    assert_int_equal(counts.aside, 2);
    scene_close(&scene);
}

static void a_filter_ended_after_its_last_answer_has_its_answers_counted(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){.n_workers = 1, .n_devices = 1, .batch = 2});
    TELL(&scene, .kind = EV_INPUT, .count = 1, .flag = true);
    TELL(&scene, .kind = EV_STARTED);
    TELL(&scene, .kind = EV_ROOM, .count = 10);
    TELL(&scene, .kind = EV_IDLE);
    TELL(&scene, .kind = EV_ANSWERS, .count = 1);
    buf_reset(&scene.said);
    /* It lingered, and was ended from outside when its time of grace was over. */
    TELL(&scene, .kind = EV_EXIT, .death = GONE_ENDED);
    expect(&scene, "COMMIT w0 0+1; ");
    scene_close(&scene);
}

static void far_ahead_workers_that_die_together_leave_room_for_every_fragment(void **state)
{
    (void)state;
    enum {
        ITEMS = 400000
    };
    struct scene scene;
    scene_open(&scene, &(struct feed_config){.n_workers = 2, .n_devices = 2, .no_reissue = true});
    TELL(&scene, .kind = EV_INPUT, .count = ITEMS);
    channel_up(&scene, 0, 1);
    channel_up(&scene, 1, 1);
    struct feed_event event = {.kind = EV_READY, .count = 1, .now_ms = scene.now_ms};
    const struct feed_action *actions;
    for (uint64_t n = 0; n < ITEMS; n++) { /* turn by turn: no neighbours in one worker */
        event.worker = n % 2;
        (void)!feed_step(scene.feed, &event, &actions);
    }
    event = (struct feed_event){.kind = EV_DEVICE_LOST, .now_ms = scene.now_ms};
    (void)!feed_step(scene.feed, &event, &actions);
    event = (struct feed_event){.kind = EV_EXIT, .death = GONE_ENDED, .now_ms = scene.now_ms};
    (void)!feed_step(scene.feed, &event, &actions);
    struct feed_counts counts;
    feed_counts(scene.feed, &counts);
    assert_in_range(counts.waiting, ITEMS / 2 - 2, ITEMS / 2 + 2);
    scene_close(&scene);
}

static void a_device_that_only_ever_dies_is_given_up_at_the_end_of_the_input_too(void **state)
{
    (void)state;
    struct scene scene;
    int lives = 0;
    scene_open(&scene, &(struct feed_config){
                           .n_workers = 2, .n_devices = 2, .retries = 9, .no_reissue = true});
    TELL(&scene, .kind = EV_INPUT, .count = 2, .flag = true);
    channel_up(&scene, 0, 1);
    TELL(&scene, .kind = EV_DONE, .worker = 0, .item = 0);
    /* Worker 0 asks for no more, and the one item that is left is fatal. */
    for (; lives < 20 && !strstr(buf_text(&scene.said), "BENCH w1"); lives++) {
        scene.now_ms += 60000;
        TELL(&scene, .kind = EV_STARTED, .worker = 1);
        TELL(&scene, .kind = EV_ROOM, .worker = 1, .count = 100);
        TELL(&scene, .kind = EV_IDLE, .worker = 1);
        TELL(&scene, .kind = EV_EXIT, .worker = 1, .death = GONE_CRASH);
        TELL(&scene, .kind = EV_MEM_BACK, .worker = 1);
    }
    assert_int_equal(lives, 6);
    buf_reset(&scene.said);
    TELL(&scene, .kind = EV_DEVICE_LOST, .worker = 1, .flag = true); /* with its host */
    TELL(&scene, .kind = EV_DEVICE_BACK, .worker = 1);
    scene.now_ms += 3600000;
    TELL(&scene, .kind = EV_TICK);
    expect(&scene, ""); /* a host that is back does not cure it */
    scene_close(&scene);
}

static void a_set_that_is_given_back_is_not_given_up_as_well(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){
                           .n_workers = 2, .n_devices = 2, .retries = 9, .no_reissue = true});
    TELL(&scene, .kind = EV_INPUT, .count = 2, .flag = true);
    channel_up(&scene, 0, 1);
    TELL(&scene, .kind = EV_DONE, .worker = 0, .item = 0);
    for (int lives = 0; lives < 6; lives++) {
        scene.now_ms += 60000;
        TELL(&scene, .kind = EV_STARTED, .worker = 1);
        TELL(&scene, .kind = EV_ROOM, .worker = 1, .count = 100);
        TELL(&scene, .kind = EV_IDLE, .worker = 1);
        if (lives == 5)
            TELL(&scene, .kind = EV_SET_DRAIN, .worker = 1);
        TELL(&scene, .kind = EV_EXIT, .worker = 1, .death = GONE_CRASH);
        TELL(&scene, .kind = EV_MEM_BACK, .worker = 1);
    }
    assert_non_null(strstr(buf_text(&scene.said), "VACATED w1; "));
    assert_null(strstr(buf_text(&scene.said), "BENCH"));
    scene_close(&scene);
}

static void a_worker_that_only_lost_races_is_given_what_comes_back(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){.n_workers = 3, .n_devices = 3});
    TELL(&scene, .kind = EV_INPUT, .count = 3, .flag = true);
    for (uint32_t worker = 0; worker < 3; worker++)
        channel_up(&scene, worker, 3);
    scene.now_ms += 100;
    TELL(&scene, .kind = EV_DONE, .worker = 1, .item = 1);
    scene.now_ms += 300;
    TELL(&scene, .kind = EV_TICK);
    TELL(&scene, .kind = EV_DONE, .worker = 1, .item = 0);
    TELL(&scene, .kind = EV_EXIT, .worker = 1, .death = GONE_ENDED);
    buf_reset(&scene.said);
    /* Worker 0 still computes its copy of item 0, and says nothing. */
    TELL(&scene, .kind = EV_EXIT, .worker = 2, .death = GONE_ENDED);
    expect(&scene, "SEND w0 2+1; ");
    scene_close(&scene);
}

static void a_copy_that_came_too_late_is_held_to_the_limit_as_well(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){
                           .n_workers = 2, .n_devices = 2, .retries = 0, .item_limit_ms = 5000});
    TELL(&scene, .kind = EV_INPUT, .count = 3, .flag = true);
    channel_up(&scene, 0, 1);
    channel_up(&scene, 1, 1);
    scene.now_ms += 100;
    TELL(&scene, .kind = EV_DONE, .worker = 1, .item = 1);
    TELL(&scene, .kind = EV_READY, .worker = 1, .count = 1);
    scene.now_ms += 100;
    TELL(&scene, .kind = EV_FAIL, .worker = 1, .item = 2);
    scene.now_ms += 300;
    TELL(&scene, .kind = EV_READY, .worker = 1, .count = 1);
    TELL(&scene, .kind = EV_DONE, .worker = 1, .item = 0);
    buf_reset(&scene.said);
    for (uint64_t end_ms = scene.now_ms + 6000; feed_next_ms(scene.feed) < end_ms;) {
        scene.now_ms = feed_next_ms(scene.feed);
        TELL(&scene, .kind = EV_TICK);
    }
    expect(&scene, "TERMINATE w0; "); /* nothing is in flight, but it is not free either */
    scene_close(&scene);
}

static void an_item_blamed_for_a_timeout_may_be_settled_before_its_worker_is_gone(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, &(struct feed_config){.n_workers = 2,
                                             .n_devices = 2,
                                             .spread_log2 = 1, /* items 3 and 5 share a slot */
                                             .retries = 3,
                                             .item_limit_ms = 5000});
    TELL(&scene, .kind = EV_INPUT, .count = 9, .flag = true);
    TELL(&scene, .kind = EV_STARTED, .worker = 0);
    TELL(&scene, .kind = EV_ROOM, .worker = 0, .count = 2);
    channel_up(&scene, 1, 2);
    TELL(&scene, .kind = EV_ANSWERS, .worker = 0, .count = 1);
    while (!strstr(buf_text(&scene.said), "COMMIT w0 0+1")) {
        scene.now_ms = feed_next_ms(scene.feed);
        TELL(&scene, .kind = EV_TICK);
    }
    TELL(&scene, .kind = EV_COMMITTED, .item = 0, .count = 1);
    TELL(&scene, .kind = EV_DONE, .worker = 1, .item = 1);
    TELL(&scene, .kind = EV_COMMITTED, .item = 1, .count = 1); /* worker 0 hangs on item 3 */
    scene.now_ms += 100;
    for (uint64_t item = 2; item <= 4; item += 2) {
        TELL(&scene, .kind = EV_DONE, .worker = 1, .item = item);
        TELL(&scene, .kind = EV_COMMITTED, .item = item, .count = 1);
        scene.now_ms += 1000 * (item / 4);
        TELL(&scene, .kind = EV_READY, .worker = 1, .count = 1);
    }
    TELL(&scene, .kind = EV_DONE, .worker = 1, .item = 3);
    TELL(&scene, .kind = EV_COMMITTED, .item = 3, .count = 1);
    TELL(&scene, .kind = EV_ROOM, .worker = 0, .count = 100);
    assert_non_null(strstr(buf_text(&scene.said), "SEND w1 3+1; COMMIT w1 3+1; SEND w0 5+1; "));
    scene.now_ms += 9000;
    TELL(&scene, .kind = EV_TICK);
    TELL(&scene, .kind = EV_EXIT, .worker = 0, .death = GONE_ENDED);
    struct feed_counts counts;
    feed_counts(scene.feed, &counts);
    assert_int_equal(counts.retries, 0);
    scene_close(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_filter_that_stays_after_its_last_answer_has_answered),
        cmocka_unit_test(a_worker_that_goes_on_with_fewer_items_says_how_many_its_device_gets),
        cmocka_unit_test(nothing_ever_succeeding_ends_the_run_early),
        cmocka_unit_test(an_item_is_spared_once_when_its_worker_dies_on_a_device_without_results),
        cmocka_unit_test(a_lost_device_is_benched_and_its_items_go_elsewhere),
        cmocka_unit_test(a_lost_device_that_comes_back_is_taken_by_the_next_session_only),
        cmocka_unit_test(a_straggler_is_given_to_an_idle_worker_and_the_first_answer_wins),
        cmocka_unit_test(an_item_over_its_limit_is_charged_and_its_neighbours_are_not),
        cmocka_unit_test(a_limit_is_looked_at_though_nothing_else_happens),
        cmocka_unit_test(the_oldest_item_of_a_keyed_filter_is_the_one_over_its_limit),
        cmocka_unit_test(an_item_that_waits_behind_another_is_not_over_its_limit),
        cmocka_unit_test(the_item_sent_first_is_the_one_over_its_limit),
        cmocka_unit_test(a_second_copy_has_its_own_time_limit),
        cmocka_unit_test(the_limits_hold_after_the_end_of_the_input),
        cmocka_unit_test(the_limit_for_the_start_holds_after_the_end_of_the_input),
        cmocka_unit_test(every_item_of_a_hung_worker_is_given_to_others),
        cmocka_unit_test(a_second_copy_is_not_given_to_a_filter_that_is_settling),
        cmocka_unit_test(an_event_at_the_time_of_a_tick_does_not_swallow_it),
        cmocka_unit_test(a_place_is_not_filled_before_the_memory_of_its_own_worker_is_back),
        cmocka_unit_test(a_model_that_does_not_fit_charges_no_item),
        cmocka_unit_test(out_of_memory_with_batches_in_a_queue_halves_the_batch),
        cmocka_unit_test(a_filter_that_answers_and_dies_each_time_does_not_go_on_forever),
        cmocka_unit_test(a_filter_ended_after_its_last_answer_has_its_answers_counted),
        cmocka_unit_test(far_ahead_workers_that_die_together_leave_room_for_every_fragment),
        cmocka_unit_test(a_device_that_only_ever_dies_is_given_up_at_the_end_of_the_input_too),
        cmocka_unit_test(a_set_that_is_given_back_is_not_given_up_as_well),
        cmocka_unit_test(a_worker_that_only_lost_races_is_given_what_comes_back),
        cmocka_unit_test(a_copy_that_came_too_late_is_held_to_the_limit_as_well),
        cmocka_unit_test(an_item_blamed_for_a_timeout_may_be_settled_before_its_worker_is_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
