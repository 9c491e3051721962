/* SPDX-License-Identifier: Apache-2.0
 *
 * Which job starts first, and where. dag_scene.h says what the scenes mean.
 */
#include "unit/core/dag_scene.h"

/* ---- order ---- */

static void the_longest_path_is_first(void **state)
{
    (void)state;
    struct scene scene = SCENE(DEVICES(1));
    ADD(&scene, ONE, .expected_ms = 50);
    ADD(&scene, ONE, .expected_ms = 10);
    ADD(&scene, ONE, .expected_ms = 30, NEEDS(1));
    ADD(&scene, ONE, NEEDS(1, 2));
    assert_int_equal(dag_add(scene.dag, &(struct dag_job){ONE, .expected_ms = 69}), 4);
    play(&scene, "tick 0", "1@0");
    assert_int_equal(dag_job_view(scene.dag, 1).path_ms, 10 + 30 + (50 + 10 + 30 + 69) / 4);
    play(&scene, "end 1 well", "1 done, 2@0");
    dag_expect(scene.dag, 3, 1000, 0);
    play(&scene, "end 2 well", "2 done, 3@0");
    play(&scene, "end 3 well", "3 done, 4@0");
    scene_close(&scene);
}

static void jobs_of_unknown_length_go_by_the_length_of_their_chain(void **state)
{
    (void)state;
    struct scene scene = SCENE(DEVICES(1));
    ADD(&scene, ONE);
    ADD(&scene, ONE);
    ADD(&scene, ONE, NEEDS(1));
    play(&scene, "tick 0", "1@0");
    assert_int_equal(dag_job_view(scene.dag, 1).path_ms, 2 * DAG_UNKNOWN_MS);
    scene_close(&scene);
}

static void priority_counts_until_another_has_waited_long(void **state)
{
    (void)state;
    struct scene scene = SCENE(.devices = plain, .n_devices = 1, .age_ms = 100);
    ADD(&scene, ONE);
    play(&scene, "tick 0", "0@0");
    ADD(&scene, ONE);
    play(&scene, "tick 0", "");
    ADD(&scene, ONE, .priority = 1);
    play(&scene, "tick 99, end 0 well", "0 done, 2@0");
    ADD(&scene, ONE, .priority = 1);
    play(&scene, "tick 2, end 2 well", "2 done, 1@0");
    scene_close(&scene);
}

static void so_many_run_at_a_time(void **state)
{
    (void)state;
    struct scene scene = SCENE(.devices = plain, .n_devices = 4, .n_running_max = 2,
                               .keeps_going = true, .age_ms = UINT64_MAX, .strikes = 1000);
    for (int i = 0; i < 4; i++)
        ADD(&scene, ONE);
    play(&scene, "tick 0", "0@0, 1@1");
    play(&scene, "end 1 failed", "1 failed, 2@1");
    scene_close(&scene);
}

/* ---- places ---- */

static void shares_add_up_to_a_device(void **state)
{
    (void)state;
    struct scene scene = SCENE(DEVICES(2));
    static const uint32_t shares[] = {600, 500, 400, 500};
    for (size_t i = 0; i < countof(shares); i++)
        ADD(&scene, .want = {1, 1, shares[i], 0, 0, 0});
    ADD(&scene, ONE);
    play(&scene, "tick 0", "4@0, 0@1, 2@1");
    assert_int_equal(dag_device_view(scene.dag, 1).share_used, 1000);
    assert_int_equal(dag_device_view(scene.dag, 1).n_jobs, 2);
    play(&scene, "end 4 well", "4 done, 1@0, 3@0");
    scene_close(&scene);
}

static void memory_adds_up_to_a_device_and_the_fullest_is_filled(void **state)
{
    (void)state;
    static const struct dag_device devices[] = {{0, 80 * GIB, true}, {0, 80 * GIB, true}};
    struct scene scene = SCENE(.devices = devices, .n_devices = 2, .keeps_going = true);
    static const uint64_t gibs[] = {30, 60, 20, 50, 1};
    for (size_t i = 0; i < countof(gibs); i++)
        ADD(&scene, .want = {1, 1, 0, gibs[i] * GIB, 0, 0});
    play(&scene, "tick 0", "1@0, 3@1, 0@1, 2@0");
    assert_int_equal(dag_device_view(scene.dag, 0).mem_reserved_bytes, 80 * GIB);
    ADD(&scene, .want = {1, 1, 0, 81 * GIB, 0, 0});
    play(&scene, "end 2 well", "2 done, 5 unfit, 4@0");
    scene_close(&scene);
}

static void who_may_share_a_device(void **state)
{
    (void)state;
    static const struct dag_device device[] = {{0, 80 * GIB, true}};
    static const struct want_case {
        struct dag_want first, second;
        bool go_together;
    } cases[] = {
        {{1, 1, 0, 0, 0, 0}, {1, 1, 0, 0, 0, 0}, false},
        {{1, 1, 0, GIB, 0, 0}, {1, 1, 0, 0, 0, 0}, false},
        {{1, 1, 0, 0, 0, 0}, {1, 1, 1, GIB, 0, 0}, false},
        {{1, 1, 0, GIB, 0, 0}, {1, 1, 0, GIB, 0, 0}, true},
        {{1, 1, 0, 79 * GIB, 0, 0}, {1, 1, 0, GIB, 0, 0}, true},
        {{1, 1, 0, 79 * GIB, 0, 0}, {1, 1, 0, GIB + 1, 0, 0}, false},
        {{1, 1, 500, 0, 0, 0}, {1, 1, 500, 0, 0, 0}, true},
        {{1, 1, 500, 0, 0, 0}, {1, 1, 501, 0, 0, 0}, false},
        {{1, 1, 500, 0, 0, 0}, {1, 1, 0, GIB, 0, 0}, false},
        {{1, 1, 0, GIB, 0, 0}, {1, 1, 500, 0, 0, 0}, false},
        {{1, 1, 500, GIB, 0, 0}, {1, 1, 0, GIB, 0, 0}, true},
        {{1, 1, 500, GIB, 0, 0}, {1, 1, 500, 0, 0, 0}, true},
        {{1, 1, 500, 40 * GIB, 0, 0}, {1, 1, 500, 41 * GIB, 0, 0}, false},
        {{1, 1, 500, 0, 5, 0}, {1, 1, 500, 0, 4, 0}, false},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct scene scene = SCENE(.devices = device, .n_devices = 1);
        ADD(&scene, .want = cases[i].first, .priority = 1);
        ADD(&scene, .want = cases[i].second);
        print_message("# case %zu\n", i);
        play(&scene, "tick 0", cases[i].go_together ? "0@0, 1@0" : "0@0");
        scene_close(&scene);
    }
}

static void a_device_of_unknown_memory_is_not_shared_by_memory(void **state)
{
    (void)state;
    struct scene scene = SCENE(DEVICES(2));
    for (int i = 0; i < 3; i++)
        ADD(&scene, .want = {1, 1, 0, GIB, 0, 0});
    play(&scene, "tick 0", "0@0, 1@1");
    scene_close(&scene);
}

static void a_set_of_devices_is_near_each_other(void **state)
{
    (void)state;
    static const uint8_t distance[] = {0, 9, 9, 1, 9, 0, 1, 9, 9, 1, 0, 9, 1, 9, 9, 0};
    struct scene scene =
        SCENE(.devices = plain, .n_devices = 4, .distance = distance, .keeps_going = true);
    ADD(&scene, .want = {2, 2, 0, 0, 0, 0});
    ADD(&scene, .want = {2, 2, 0, 0, 0, 0});
    play(&scene, "tick 0", "0@0+3, 1@1+2");
    scene_close(&scene);
}

/* Hosts with three, two and one device. */
static const struct dag_device on_hosts[] = {{0, 0, true}, {0, 0, true}, {0, 0, true},
                                             {1, 0, true}, {1, 0, true}, {2, 0, true}};
#define HOSTS .devices = on_hosts, .n_devices = 6, .n_hosts = 3, .keeps_going = true

static void all_devices_of_a_job_are_on_the_host_with_the_fewest(void **state)
{
    (void)state;
    struct scene scene = SCENE(HOSTS);
    ADD(&scene, .want = {2, 2, 0, 0, 0, 0}, .priority = 3);
    ADD(&scene, ONE, .priority = 2);
    ADD(&scene, .want = {1, 5, 0, 0, 0, 0}, .priority = 1);
    ADD(&scene, .want = {4, 4, 0, 0, 0, 0});
    play(&scene, "tick 0", "3 unfit, 0@3+4, 1@5, 2@0+1+2");
    scene_close(&scene);
}

static void a_job_starts_only_where_it_may(void **state)
{
    (void)state;
    struct scene scene = SCENE(HOSTS);
    dag_allow(scene.dag, 7, 1);
    ADD(&scene, .want = {1, 1, 0, 0, 0, 7});
    ADD(&scene, .want = {0, 0, 0, 0, 1, 7});
    ADD(&scene, .want = {3, 3, 0, 0, 0, 7});
    ADD(&scene, .want = {1, 1, 0, 0, 0, 8});
    play(&scene, "tick 0", "2 unfit, 3 unfit, 0@3, 1@h1");
    scene_close(&scene);
}

static void cpus_are_counted_on_each_host(void **state)
{
    (void)state;
    struct scene scene = SCENE(.n_hosts = 2, .keeps_going = true);
    static const uint32_t n_cpus[] = {6, 6, 3, 2, 0, 9};
    for (size_t i = 0; i < countof(n_cpus); i++)
        ADD(&scene, .want = {0, 0, 0, 0, n_cpus[i], 0}, .priority = -(int32_t)i);
    play(&scene, "tick 0", "5 unfit, 0@h0, 1@h1, 3@h0, 4@h0");
    play(&scene, "end 1 well", "1 done, 2@h1");
    scene_close(&scene);
}

/* ---- devices and hosts that come and go ---- */

static void a_device_that_is_down_is_not_used(void **state)
{
    (void)state;
    struct scene scene = SCENE(DEVICES(2));
    for (int i = 0; i < 3; i++)
        ADD(&scene, ONE);
    play(&scene, "down 1", "0@0");
    play(&scene, "down 0, end 0 lost", "over");
    is_in(&scene, 0, DAG_READY);
    play(&scene, "up 0, up 0", "0@0");
    play(&scene, "up 1", "1@1");
    scene_close(&scene);
}

static void nothing_starts_on_a_host_that_is_down(void **state)
{
    (void)state;
    struct scene scene = SCENE(HOSTS);
    dag_allow(scene.dag, 1, 2);
    ADD(&scene, .want = {1, 1, 0, 0, 0, 1});
    ADD(&scene, .want = {0, 0, 0, 0, 1, 1});
    play(&scene, "hostdown 2", "over");
    play(&scene, "hostup 2", "0@5, 1@h2");
    scene_close(&scene);
}

static void devices_may_be_awaited(void **state)
{
    (void)state;
    struct scene scene = SCENE(.n_devices_max = 1, .keeps_going = true);
    ADD(&scene, ONE);
    ADD(&scene, ONE, NEEDS(0));
    ADD(&scene, .want = {2, 2, 0, 0, 0, 0});
    play(&scene, "await", "over");
    assert_int_equal(dag_add_device(scene.dag, &(struct dag_device){1, GIB, true}, 2), 0);
    assert_int_equal(dag_add_device(scene.dag, &(struct dag_device){1, GIB, true}, 2), UINT32_MAX);
    play(&scene, "tick 0", "");
    play(&scene, "up 0", "0@0");
    play(&scene, "enough", "2 unfit");
    play(&scene, "end 0 well", "0 done, 1@0");
    scene_close(&scene);
}

static void without_devices_jobs_that_want_them_are_unfit(void **state)
{
    (void)state;
    struct scene scene = SCENE(.n_devices_max = 1, .keeps_going = true);
    ADD(&scene, ONE);
    ADD(&scene, .want = {0, 0, 0, 0, 1, 0}, NEEDS(0));
    play(&scene, "tick 0", "0 unfit, over");
    is_in(&scene, 1, DAG_BLOCKED);
    assert_int_equal(dag_job_view(scene.dag, 1).first_culprit, 0);
    dag_add_device(scene.dag, &(struct dag_device){0, 0, true}, 0);
    play(&scene, "up 0, retry 0", "0@0");
    is_in(&scene, 1, DAG_WAITS);
    scene_close(&scene);
}

/* ---- the head ---- */

static void a_short_job_starts_before_the_head_and_a_long_one_does_not(void **state)
{
    (void)state;
    struct scene scene = SCENE(DEVICES(2));
    ADD(&scene, ONE, .expected_ms = 100, .priority = 9);
    ADD(&scene, .want = {2, 2, 0, 0, 0, 0}, .expected_ms = 50, .priority = 8);
    ADD(&scene, ONE, .expected_ms = 2000, .priority = 7);
    ADD(&scene, ONE, .expected_ms = 100, .priority = 6);
    play(&scene, "tick 0", "0@0, 3@1");
    assert_true(dag_job_view(scene.dag, 1).is_head);
    assert_int_equal(dag_job_view(scene.dag, 1).start_by_ms, scene.now_ms + 100);
    play(&scene, "tick 60, end 3 well", "3 done");
    play(&scene, "tick 60, end 0 well", "0 done, 1@0+1");
    play(&scene, "end 1 well", "1 done, 2@0");
    assert_false(dag_job_view(scene.dag, 2).is_head);
    scene_close(&scene);
}

static void a_long_job_starts_where_the_head_leaves_enough(void **state)
{
    (void)state;
    static const struct dag_device device[] = {{0, 80 * GIB, true}};
    struct scene scene = SCENE(.devices = device, .n_devices = 1);
    ADD(&scene, .want = {1, 1, 0, 30 * GIB, 0, 0}, .expected_ms = 100, .priority = 9);
    ADD(&scene, .want = {1, 1, 0, 60 * GIB, 0, 0}, .expected_ms = 50, .priority = 8);
    ADD(&scene, .want = {1, 1, 0, 21 * GIB, 0, 0}, .expected_ms = 900, .priority = 7);
    ADD(&scene, .want = {1, 1, 0, 20 * GIB, 0, 0}, .expected_ms = 900, .priority = 6);
    ADD(&scene, .want = {1, 1, 0, 1 * GIB, 0, 0}, .expected_ms = 901, .priority = 5);
    play(&scene, "tick 0", "0@0, 3@0");
    play(&scene, "tick 100, end 0 well", "0 done, 1@0");
    scene_close(&scene);
}

static void if_times_are_unknown_patience_keeps_devices_free(void **state)
{
    (void)state;
    struct scene scene =
        SCENE(.devices = plain, .n_devices = 2, .patience_ms = 1000, .keeps_going = true);
    ADD(&scene, ONE, .priority = 9);
    ADD(&scene, .want = {2, 2, 0, 0, 0, 0}, .priority = 8);
    for (int i = 0; i < 4; i++)
        ADD(&scene, ONE);
    play(&scene, "tick 0", "0@0, 2@1");
    assert_false(dag_job_view(scene.dag, 1).is_head);
    assert_int_equal(dag_job_view(scene.dag, 1).start_by_ms, 0);
    assert_int_equal(dag_wake_ms(scene.dag), scene.now_ms + 1000);
    play(&scene, "tick 999, end 2 well", "2 done, 3@1");
    play(&scene, "tick 1, end 3 well", "3 done");
    assert_true(dag_job_view(scene.dag, 1).is_head);
    assert_int_equal(dag_wake_ms(scene.dag), UINT64_MAX);
    play(&scene, "end 0 well", "0 done, 1@0+1");
    scene_close(&scene);
}

static void a_head_that_waits_in_vain_gets_the_first_device(void **state)
{
    (void)state;
    struct scene scene =
        SCENE(.devices = plain, .n_devices = 2, .patience_ms = 100, .keeps_going = true);
    const struct dag_want half = {1, 1, 500, 0, 0, 0};
    ADD(&scene, .want = half, .priority = 9); /* it never ends */
    ADD(&scene, .want = half, .priority = 9);
    ADD(&scene, .want = half, .priority = 9);
    ADD(&scene, ONE, .priority = 8);
    for (int i = 0; i < 9; i++)
        ADD(&scene, .want = half);
    play(&scene, "tick 0", "0@0, 1@0, 2@1, 4@1");
    play(&scene, "tick 100, end 1 well", "1 done");
    play(&scene, "tick 300, end 2 well", "2 done, 5@1");
    play(&scene, "tick 100, end 4 well", "4 done");
    play(&scene, "tick 100, end 5 well", "5 done, 3@1, 6@0");
    scene_close(&scene);
}

/* In whatever order they come; one that comes back with fewer CPUs than are in use takes nothing more. */
static void a_host_that_comes_late_has_its_cpus_and_devices(void **state)
{
    (void)state;
    struct scene scene = SCENE(DEVICES(1), .n_devices_max = 2);
    ADD(&scene, .want = {.n_cpus = 16});
    play(&scene, "await", "over");
    is_in(&scene, 0, DAG_READY);
    dag_add_host(scene.dag, 3, 16);
    play(&scene, "tick 0", "0@h3");
    dag_add_host(scene.dag, 2, 4);
    assert_int_equal(dag_add_device(scene.dag, &(struct dag_device){.host = 2}, 0), 1);
    ADD(&scene, .want = {.n_devices_min = 1, .n_devices_max = 1, .n_cpus = 4, .place = 1});
    dag_allow(scene.dag, 1, 2);
    play(&scene, "tick 0", "");
    play(&scene, "up 1", "1@1");
    dag_add_host(scene.dag, 3, 8);
    ADD(&scene, .want = {.n_cpus = 1, .place = 2});
    dag_allow(scene.dag, 2, 3);
    play(&scene, "tick 0", "");
    play(&scene, "end 0 well", "0 done, 2@h3");
    scene_close(&scene);
}

static void near_devices_of_late_hosts_go_together(void **state)
{
    (void)state;
    static const uint8_t distance[] = {0, 9, 1, 9, 0, 9, 1, 9, 0};
    struct scene scene = SCENE(DEVICES(1), .n_devices_max = 7);
    for (uint32_t i = 1; i <= 6; i++) {
        uint32_t host = (i + 2) / 3;
        if (i % 3 == 1)
            dag_add_host(scene.dag, host, 8);
        assert_int_equal(dag_add_device(scene.dag, &(struct dag_device){.host = host}, 0), i);
    }
    assert_true(dag_near(scene.dag, 1, 3, distance));
    assert_true(dag_near(scene.dag, 4, 3, distance));
    ADD(&scene, .want = {.n_devices_min = 2, .n_devices_max = 2});
    play(&scene, "up 1, up 2", "over, 0@1+2");
    play(&scene, "up 3, end 0 lost", "0@1+3");
    play(&scene, "up 4, up 5, up 6", "");
    ADD(&scene, .want = {.n_devices_min = 2, .n_devices_max = 2});
    play(&scene, "tick 0", "1@4+6");
    scene_close(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_path_is_first),
        cmocka_unit_test(jobs_of_unknown_length_go_by_the_length_of_their_chain),
        cmocka_unit_test(priority_counts_until_another_has_waited_long),
        cmocka_unit_test(so_many_run_at_a_time),
        cmocka_unit_test(shares_add_up_to_a_device),
        cmocka_unit_test(memory_adds_up_to_a_device_and_the_fullest_is_filled),
        cmocka_unit_test(who_may_share_a_device),
        cmocka_unit_test(a_device_of_unknown_memory_is_not_shared_by_memory),
        cmocka_unit_test(a_set_of_devices_is_near_each_other),
        cmocka_unit_test(all_devices_of_a_job_are_on_the_host_with_the_fewest),
        cmocka_unit_test(a_job_starts_only_where_it_may),
        cmocka_unit_test(cpus_are_counted_on_each_host),
        cmocka_unit_test(a_device_that_is_down_is_not_used),
        cmocka_unit_test(nothing_starts_on_a_host_that_is_down),
        cmocka_unit_test(devices_may_be_awaited),
        cmocka_unit_test(without_devices_jobs_that_want_them_are_unfit),
        cmocka_unit_test(a_short_job_starts_before_the_head_and_a_long_one_does_not),
        cmocka_unit_test(a_long_job_starts_where_the_head_leaves_enough),
        cmocka_unit_test(if_times_are_unknown_patience_keeps_devices_free),
        cmocka_unit_test(a_head_that_waits_in_vain_gets_the_first_device),
        cmocka_unit_test(a_host_that_comes_late_has_its_cpus_and_devices),
        cmocka_unit_test(near_devices_of_late_hosts_go_together),
    };
    return cmocka_run_group_tests_name("dag places", tests, NULL, NULL);
}
