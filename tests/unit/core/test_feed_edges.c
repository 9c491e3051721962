/* SPDX-License-Identifier: Apache-2.0
 *
 * The feeder's edges: what is said by the wrong kind of worker, too late, twice, or of nothing; limits
 * that are just not reached. tools/coverage tells which branches need such scenes.
 */
#include "scene.h"

#define ONE_WORKER (&(struct feed_config){.n_workers = 1, .n_devices = 1, .no_reissue = true})

static void a_channel_worker_is_not_heard_as_a_filter(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, ONE_WORKER);
    TELL(&scene, .kind = EV_INPUT, .count = 9, .flag = true);
    channel_up(&scene, 0, 2);
    expect(&scene, "SPAWN w0; SEND w0 0+2; ");
    TELL(&scene, .kind = EV_ROOM, .count = 100);
    TELL(&scene, .kind = EV_ANSWERS, .count = 2);
    TELL(&scene, .kind = EV_IDLE, .flag = true);
    TELL(&scene, .kind = EV_FULL);
    TELL(&scene, .kind = EV_KEYED);
    TELL(&scene, .kind = EV_PASSED, .count = 1);
    TELL(&scene, .kind = EV_LOADED);
    expect(&scene, "");
    scene_close(&scene);
}

static void a_keyed_filter_is_not_counted_by_order(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, ONE_WORKER);
    TELL(&scene, .kind = EV_INPUT, .count = 9, .flag = true);
    keyed_up(&scene, 0);
    buf_reset(&scene.said);
    TELL(&scene, .kind = EV_KEYED);
    TELL(&scene, .kind = EV_ANSWERS, .count = 1);
    TELL(&scene, .kind = EV_PASSED, .count = 1);
    expect(&scene, "");
    scene_close(&scene);
}

static void a_filter_that_has_nothing_is_neither_idle_nor_passed_over(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, ONE_WORKER);
    TELL(&scene, .kind = EV_INPUT, .count = 3, .flag = true);
    TELL(&scene, .kind = EV_STARTED);
    expect(&scene, "SPAWN w0; ");
    TELL(&scene, .kind = EV_IDLE, .flag = true);
    TELL(&scene, .kind = EV_PASSED, .count = 1);
    TELL(&scene, .kind = EV_UNFIT, .item = 1);
    expect(&scene, "");
    scene_close(&scene);
}

static void what_is_said_of_unknown_items_is_noted_at_most(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, ONE_WORKER);
    TELL(&scene, .kind = EV_INPUT, .count = 3, .flag = true);
    channel_up(&scene, 0, 1);
    buf_reset(&scene.said);
    TELL(&scene, .kind = EV_DONE, .item = 1ull << 40);
    expect(&scene, "DROP w0; NOTE w0; ");
    TELL(&scene, .kind = EV_FAIL, .item = 1ull << 40);
    expect(&scene, "NOTE w0; ");
    TELL(&scene, .kind = EV_UNFIT, .item = 1ull << 40);
    expect(&scene, "");
    assert_int_equal(feed_item_failures(scene.feed, 1ull << 40), 0);
    scene_close(&scene);
}

static void a_third_mismatch_after_the_end_halts_nothing(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, ONE_WORKER);
    TELL(&scene, .kind = EV_INPUT, .count = 1, .flag = true);
    for (int life = 0; life < 2; life++) {
        TELL(&scene, .kind = EV_STARTED);
        TELL(&scene, .kind = EV_STRAY);
        TELL(&scene, .kind = EV_EXIT, .death = GONE_ENDED);
        scene.now_ms += 60000;
        TELL(&scene, .kind = EV_MEM_BACK);
    }
    keyed_up(&scene, 0);
    TELL(&scene, .kind = EV_DONE, .item = 0);
    buf_reset(&scene.said);
    TELL(&scene, .kind = EV_COMMITTED, .item = 0, .count = 1);
    expect(&scene, "COMPLETE; END w0; ");
    TELL(&scene, .kind = EV_STRAY);
    expect(&scene, "TERMINATE w0; ");
    TELL(&scene, .kind = EV_EXIT, .death = GONE_ENDED);
    expect(&scene, "OVER; ");
    TELL(&scene, .kind = EV_TICK);
    TELL(&scene, .kind = EV_STOP);
    expect(&scene, "");
    scene_close(&scene);
}

/* Of 100 items so many have failed; true if that was the end of the run. */
static bool is_halted_by(uint64_t n_failed)
{
    struct scene scene;
    const struct feed_config config = {
        .n_workers = 1, .n_devices = 1, .no_reissue = true, .failures_percent = 10};
    scene_open(&scene, &config);
    TELL(&scene, .kind = EV_INPUT, .count = 200, .flag = true);
    channel_up(&scene, 0, 200);
    for (uint64_t item = 0; item < 100; item++) {
        bool fails = item >= 100 - n_failed;
        TELL(&scene, .kind = fails ? EV_FAIL : EV_DONE, .item = item);
        TELL(&scene, .kind = EV_COMMITTED, .item = item, .count = 1);
    }
    bool is_halted = strstr(buf_text(&scene.said), "HALT") != NULL;
    scene_close(&scene);
    return is_halted;
}

static void a_share_of_failures_ends_the_run_only_when_it_is_exceeded(void **state)
{
    (void)state;
    assert_false(is_halted_by(10));
    assert_true(is_halted_by(11));
}

/* Items fail one after the other; how many failed before the run was given up. */
static uint64_t failures_until_halt(const struct feed_config *config, uint64_t n_items,
                                    bool is_final)
{
    struct scene scene;
    uint64_t n_failed = 0;
    scene_open(&scene, config);
    TELL(&scene, .kind = EV_INPUT, .count = n_items, .flag = is_final);
    channel_up(&scene, 0, n_items);
    for (; n_failed < n_items && !strstr(buf_text(&scene.said), "HALT"); n_failed++) {
        TELL(&scene, .kind = EV_FAIL, .item = n_failed);
        TELL(&scene, .kind = EV_COMMITTED, .item = n_failed, .count = 1);
    }
    scene_close(&scene);
    return n_failed;
}

static void a_share_of_all_items_ends_the_run_as_soon_as_it_is_certain(void **state)
{
    (void)state;
    struct feed_config config = {
        .n_workers = 1, .n_devices = 1, .no_reissue = true, .failures_percent = 10};
    assert_int_equal(failures_until_halt(&config, 40, true), 5);
    assert_int_equal(failures_until_halt(&config, 5, true), 1);
    assert_int_equal(failures_until_halt(&config, 40, false), 40);
    assert_int_equal(failures_until_halt(&config, 400, false), 100); /* by the rate */
    config.failed_before = 3;
    config.done = &(struct item_interval){.first = 37, .count = 3};
    config.n_done = 1;
    assert_int_equal(failures_until_halt(&config, 40, true), 2);
}

/* A thousand unfit items behind n_results results, `more` items in hand besides. */
static bool is_unfit(const struct feed_config *config, uint64_t n_results, uint64_t more)
{
    struct scene scene;
    scene_open(&scene, config);
    uint64_t first = config->n_done > 0 ? config->done[0].count : 0;
    uint64_t n_items = first + n_results + 1000 + more;
    TELL(&scene, .kind = EV_INPUT, .count = n_items, .flag = true);
    channel_up(&scene, 0, n_items);
    for (uint64_t item = first; item < first + n_results; item++)
        TELL(&scene, .kind = EV_DONE, .item = item);
    for (uint64_t i = 0; i < 1000; i++)
        TELL(&scene, .kind = EV_UNFIT, .item = first + n_results + i);
    bool is_halted = strstr(buf_text(&scene.said), "HALT") != NULL;
    scene_close(&scene);
    return is_halted;
}

static void nothing_but_unfit_records_ends_the_run(void **state)
{
    (void)state;
    static const struct item_interval done = {0, 1};
    struct feed_config config = *ONE_WORKER;
    assert_true(is_unfit(&config, 0, 10));
    assert_false(is_unfit(&config, 1, 10));
    assert_false(is_unfit(&config, 0, 300));
    config.done = &done;
    config.n_done = 1;
    assert_false(is_unfit(&config, 0, 10));
}

static void a_worker_may_speak_before_its_start_is_told(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, ONE_WORKER);
    TELL(&scene, .kind = EV_INPUT, .count = 1, .flag = true);
    TELL(&scene, .kind = EV_READY, .count = 1);
    expect(&scene, "SPAWN w0; SEND w0 0+1; ");
    TELL(&scene, .kind = EV_STARTED);
    TELL(&scene, .kind = EV_DONE, .item = 0);
    expect(&scene, "COMMIT w0 0+1; ");
    scene_close(&scene);
}

static void the_last_device_may_be_lost_when_all_is_done(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene, ONE_WORKER);
    TELL(&scene, .kind = EV_INPUT, .count = 1, .flag = true);
    channel_up(&scene, 0, 1);
    TELL(&scene, .kind = EV_DONE, .item = 0);
    TELL(&scene, .kind = EV_COMMITTED, .item = 0, .count = 1);
    buf_reset(&scene.said);
    TELL(&scene, .kind = EV_DEVICE_LOST);
    assert_null(strstr(buf_text(&scene.said), "HALT"));
    scene_close(&scene);
}

static void very_many_workers_have_more_room(void **state)
{
    (void)state;
    assert_int_equal(feed_spread_log2(1), 19);
    assert_true(1ull << feed_spread_log2(100000) >= 128ull * 100000);
    feed_free(NULL);
}

/* One worker, whose batches are of 256 items at first. */
static void batches_open(struct scene *scene)
{
    static const uint32_t device_of[] = {0};
    scene_open(scene, &(struct feed_config){.n_workers = 1,
                                            .n_devices = 1,
                                            .device_of = device_of,
                                            .retries = 1,
                                            .batch = 256,
                                            .no_reissue = true});
}

/* As a shard: it does one item in batches of its own, says with which it would go on, and dies. */
static void a_death_of_memory_is_nobodys_fault_while_the_batch_can_be_halved(void **state)
{
    (void)state;
    struct scene scene;
    batches_open(&scene);
    TELL(&scene, .kind = EV_INPUT, .count = 1, .flag = true);
    for (uint64_t batch = 256; batch > 1; batch /= 2) {
        struct feed_counts counts;
        char spawned[40];
        snprintf(spawned, sizeof(spawned), "SPAWN w0 batch %lu; ", batch);
        expect(&scene, spawned);
        channel_up(&scene, 0, 1);
        expect(&scene, "SEND w0 0+1; ");
        TELL(&scene, .kind = EV_OOM, .count = batch / 2);
        snprintf(spawned, sizeof(spawned), "BATCH w0 batch %lu; ", batch / 2);
        expect(&scene, spawned);
        TELL(&scene, .kind = EV_EXIT, .death = GONE_OOM);
        expect(&scene, "");
        feed_counts(scene.feed, &counts);
        assert_int_equal(counts.retries, 0);
        assert_int_equal(feed_item_failures(scene.feed, 0), 0);
        scene.now_ms += 10;
        TELL(&scene, .kind = EV_MEM_BACK, .worker = 0);
    }
    expect(&scene, "SPAWN w0 batch 1; ");
    channel_up(&scene, 0, 1);
    TELL(&scene, .kind = EV_OOM, .count = 1);
    TELL(&scene, .kind = EV_EXIT, .death = GONE_OOM); /* it cannot be smaller */
    struct feed_counts counts;
    feed_counts(scene.feed, &counts);
    assert_int_equal(counts.ooms, 10);
    scene_close(&scene);
}

/* Else a worker could die as often as its batch has items, and never be charged. */
static void a_batch_that_is_hardly_smaller_excuses_no_death(void **state)
{
    (void)state;
    struct scene scene;
    batches_open(&scene);
    TELL(&scene, .kind = EV_INPUT, .count = 2, .flag = true);
    channel_up(&scene, 0, 1);
    TELL(&scene, .kind = EV_DONE, .item = 0);
    TELL(&scene, .kind = EV_READY, .count = 1);
    expect(&scene, "SPAWN w0 batch 256; SEND w0 0+1; COMMIT w0 0+1; SEND w0 1+1; ");
    TELL(&scene, .kind = EV_OOM, .count = 255);
    expect(&scene, "BATCH w0 batch 255; ");
    TELL(&scene, .kind = EV_EXIT, .death = GONE_OOM);
    assert_int_equal(feed_item_failures(scene.feed, 1), 1);
    scene_close(&scene);
}

/* Items that are not neighbours are a range each, of which a filter has at most 256 in flight. */
static void the_unconfirmed_answers_of_a_filter_that_runs_out_of_memory_are_doubted(void **state)
{
    (void)state;
    static const enum feed_death deaths[] = {GONE_OOM, GONE_DEVICE_LOST};
    for (size_t i = 0; i < countof(deaths); i++) {
        struct scene scene;
        scene_open(&scene, ONE_WORKER);
        TELL(&scene, .kind = EV_INPUT, .count = 1, .flag = false);
        TELL(&scene, .kind = EV_STARTED);
        TELL(&scene, .kind = EV_ROOM, .count = 100);
        TELL(&scene, .kind = EV_ANSWERS, .count = 1);
        TELL(&scene, .kind = EV_EXIT, .death = deaths[i]);
        bool is_charged = deaths[i] == GONE_OOM; /* it alone was in hand */
        assert_int_equal(feed_item_failures(scene.feed, 0), is_charged);
        assert_null(strstr(buf_text(&scene.said), "COMMIT"));
        scene_close(&scene);
    }
}

static void a_filter_has_so_many_ranges_in_flight_and_no_more(void **state)
{
    (void)state;
    enum {
        N_ITEMS = 1000
    };
    static uint32_t order[N_ITEMS];
    struct scene scene;
    struct feed_config config = *ONE_WORKER;
    for (uint32_t i = 0; i < N_ITEMS; i++)
        order[i] = N_ITEMS - 1 - i;
    config.order = order;
    config.n_order = N_ITEMS;
    scene_open(&scene, &config);
    TELL(&scene, .kind = EV_INPUT, .count = N_ITEMS, .flag = true);
    TELL(&scene, .kind = EV_STARTED);
    for (int i = 0; i < 8; i++) {
        TELL(&scene, .kind = EV_ROOM, .count = N_ITEMS);
        TELL(&scene, .kind = EV_IDLE);
    }
    struct feed_worker_view view;
    feed_worker(scene.feed, 0, &view);
    assert_int_equal(view.in_flight, 256);
    scene.now_ms += 1;
    TELL(&scene, .kind = EV_ANSWERS, .count = 2);
    TELL(&scene, .kind = EV_ROOM, .count = N_ITEMS);
    feed_worker(scene.feed, 0, &view);
    assert_int_equal(view.in_flight, 256);
    scene_close(&scene);
}

/* To stop because of a command that is wrong would be too early, as it has given results; but not after many deaths. */
static void what_is_left_of_a_run_with_results_fails_item_by_item(void **state)
{
    (void)state;
    const struct item_interval done = {1, 9};
    struct scene scene;
    scene_open(
        &scene,
        &(struct feed_config){
            .n_workers = 1, .n_devices = 1, .done = &done, .n_done = 1, .only_failed_left = true});
    TELL(&scene, .kind = EV_INPUT, .count = 20, .flag = true);
    for (uint32_t n_deaths = 1; n_deaths <= 20; n_deaths++) {
        TELL(&scene, .kind = EV_STARTED, .worker = 0);
        TELL(&scene, .kind = EV_ROOM, .worker = 0, .count = 1);
        buf_reset(&scene.said);
        TELL(&scene, .kind = EV_EXIT, .worker = 0, .death = GONE_CRASH);
        if (n_deaths <= 8)
            assert_non_null(strstr(buf_text(&scene.said), "SET_ASIDE w0 "));
        if (strstr(buf_text(&scene.said), "HALT"))
            break;
        assert_true(n_deaths < 20);
        TELL(&scene, .kind = EV_MEM_BACK, .worker = 0);
        scene.now_ms += 60000;
        TELL(&scene, .kind = EV_TICK);
    }
    assert_non_null(strstr(buf_text(&scene.said), "HALT"));
    scene_close(&scene);
}

/* Of a run that was interrupted: many are left, or so few that all of them may be what kills workers. */
static void the_last_items_of_a_run_with_results_fail_item_by_item(void **state)
{
    (void)state;
    static const struct {
        uint64_t n_done, n_left;
        bool is_halted;
    } cases[] = {{20, 8, false}, {20, 9, true}, {3, 3, false}, {3, 4, true}};
    for (size_t i = 0; i < countof(cases); i++) {
        uint64_t n_done = cases[i].n_done, n_left = cases[i].n_left;
        const struct item_interval done = {0, n_done};
        struct scene scene;
        scene_open(
            &scene,
            &(struct feed_config){
                .n_workers = 1, .n_devices = 1, .done = &done, .n_done = 1, .had_results = true});
        TELL(&scene, .kind = EV_INPUT, .count = n_done + n_left, .flag = true);
        uint64_t n_deaths_max = cases[i].is_halted ? 20 : n_left;
        for (uint64_t n = 0; n < n_deaths_max && !strstr(buf_text(&scene.said), "HALT"); n++) {
            TELL(&scene, .kind = EV_STARTED, .worker = 0);
            TELL(&scene, .kind = EV_ROOM, .worker = 0, .count = 1);
            TELL(&scene, .kind = EV_EXIT, .worker = 0, .death = GONE_CRASH);
            TELL(&scene, .kind = EV_MEM_BACK, .worker = 0);
            scene.now_ms += 60000;
            TELL(&scene, .kind = EV_TICK);
        }
        const char *said = buf_text(&scene.said);
        bool is_halted = strstr(said, "HALT") != NULL;
        bool is_set_aside = strstr(said, "SET_ASIDE w0 ") != NULL;
        if (is_halted != cases[i].is_halted || is_set_aside == cases[i].is_halted)
            fail_msg("%lu done, %lu left: %s", n_done, n_left, said);
        scene_close(&scene);
    }
}

/* All before item 60 is done but 5 and 20, which kill workers. The two devices get them first. */
static void items_that_kill_at_the_front_of_what_is_left_end_no_run_with_results(void **state)
{
    (void)state;
    static const struct item_interval done[] = {{0, 5}, {6, 14}, {21, 39}};
    for (int had_results = 0; had_results < 2; had_results++) {
        struct scene scene;
        uint32_t n_deaths = 0;
        scene_open(&scene, &(struct feed_config){.n_workers = 2,
                                                 .n_devices = 2,
                                                 .retries = 2,
                                                 .done = done,
                                                 .n_done = countof(done),
                                                 .had_results = had_results});
        TELL(&scene, .kind = EV_INPUT, .count = 200, .flag = true);
        for (; n_deaths < 30 && !strstr(buf_text(&scene.said), "HALT"); n_deaths++) {
            uint32_t worker = n_deaths % 2;
            TELL(&scene, .kind = EV_STARTED, .worker = worker);
            TELL(&scene, .kind = EV_READY, .worker = worker, .count = 1);
            TELL(&scene, .kind = EV_EXIT, .worker = worker, .death = GONE_CRASH);
            TELL(&scene, .kind = EV_MEM_BACK, .worker = worker);
            scene.now_ms += 60000;
            TELL(&scene, .kind = EV_TICK);
        }
        bool is_next_tried = strstr(buf_text(&scene.said), " 60+1") != NULL;
        if (is_next_tried != had_results || n_deaths != (had_results ? 9 : 2))
            fail_msg("%u deaths: %s", n_deaths, buf_text(&scene.said));
        scene_close(&scene);
    }
}

/* Eight deaths are too many without any result; this command has one. */
static void deaths_after_a_result_do_not_count_against_what_is_left(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene,
               &(struct feed_config){.n_workers = 1, .n_devices = 1, .only_failed_left = true});
    TELL(&scene, .kind = EV_INPUT, .count = 40, .flag = true);
    for (uint32_t n_deaths = 1; n_deaths <= 12; n_deaths++) {
        uint64_t item = 2 * (n_deaths - 1);
        channel_up(&scene, 0, 2);
        TELL(&scene, .kind = EV_DONE, .worker = 0, .item = item);
        TELL(&scene, .kind = EV_EXIT, .worker = 0, .death = GONE_CRASH);
        assert_null(strstr(buf_text(&scene.said), "HALT"));
        TELL(&scene, .kind = EV_MEM_BACK, .worker = 0);
        scene.now_ms += 60000;
        TELL(&scene, .kind = EV_TICK);
    }
    scene_close(&scene);
}

static void a_worker_that_never_takes_an_item_is_no_fault_of_what_is_left(void **state)
{
    (void)state;
    struct scene scene;
    scene_open(&scene,
               &(struct feed_config){.n_workers = 1, .n_devices = 1, .only_failed_left = true});
    TELL(&scene, .kind = EV_INPUT, .count = 1, .flag = true);
    buf_reset(&scene.said);
    TELL(&scene, .kind = EV_EXIT, .worker = 0, .death = GONE_NOT_STARTED);
    expect(&scene, "HALT; OVER; ");
    scene_close(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_left_of_a_run_with_results_fails_item_by_item),
        cmocka_unit_test(the_last_items_of_a_run_with_results_fail_item_by_item),
        cmocka_unit_test(items_that_kill_at_the_front_of_what_is_left_end_no_run_with_results),
        cmocka_unit_test(deaths_after_a_result_do_not_count_against_what_is_left),
        cmocka_unit_test(a_worker_that_never_takes_an_item_is_no_fault_of_what_is_left),
        cmocka_unit_test(a_death_of_memory_is_nobodys_fault_while_the_batch_can_be_halved),
        cmocka_unit_test(a_batch_that_is_hardly_smaller_excuses_no_death),
        cmocka_unit_test(a_channel_worker_is_not_heard_as_a_filter),
        cmocka_unit_test(a_keyed_filter_is_not_counted_by_order),
        cmocka_unit_test(a_filter_that_has_nothing_is_neither_idle_nor_passed_over),
        cmocka_unit_test(what_is_said_of_unknown_items_is_noted_at_most),
        cmocka_unit_test(a_third_mismatch_after_the_end_halts_nothing),
        cmocka_unit_test(a_share_of_failures_ends_the_run_only_when_it_is_exceeded),
        cmocka_unit_test(a_share_of_all_items_ends_the_run_as_soon_as_it_is_certain),
        cmocka_unit_test(nothing_but_unfit_records_ends_the_run),
        cmocka_unit_test(a_worker_may_speak_before_its_start_is_told),
        cmocka_unit_test(the_last_device_may_be_lost_when_all_is_done),
        cmocka_unit_test(very_many_workers_have_more_room),
        cmocka_unit_test(the_unconfirmed_answers_of_a_filter_that_runs_out_of_memory_are_doubted),
        cmocka_unit_test(a_filter_has_so_many_ranges_in_flight_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
