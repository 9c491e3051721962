/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs that need each other, and how they end. dag_scene.h says what the scenes mean.
 */
#include "unit/core/dag_scene.h"

/* ---- needs ---- */

static void a_job_starts_when_all_that_it_needs_is_done(void **state)
{
    (void)state;
    struct scene scene = SCENE(DEVICES(2));
    ADD(&scene, ONE);
    ADD(&scene, ONE);
    ADD(&scene, ONE, NEEDS(0, 1));
    play(&scene, "tick 0", "0@0, 1@1");
    play(&scene, "end 1 well", "1 done");
    assert_int_equal(dag_job_view(scene.dag, 2).n_needs_left, 1);
    play(&scene, "end 0 well", "0 done, 2@0");
    play(&scene, "end 2 well", "2 done, over");
    scene_close(&scene);
}

static void ready_jobs_that_are_more_urgent_are_counted(void **state)
{
    (void)state;
    struct scene scene = SCENE(DEVICES(1));
    for (int32_t i = 0; i < 5; i++)
        ADD(&scene, ONE, .priority = i % 3); /* 0 1 2 0 1 */
    ADD(&scene, ONE, NEEDS(0), .priority = 9);
    play(&scene, "tick 0", "2@0");
    assert_int_equal(dag_ready_before(scene.dag, 1), 0);
    assert_int_equal(dag_ready_before(scene.dag, 3), 3); /* 1, 4, and 0 of the same priority */
    play(&scene, "hold 4", "");
    assert_int_equal(dag_ready_before(scene.dag, 3), 2);
    scene_close(&scene);
}

static void nothing_to_do_is_over_at_once(void **state)
{
    (void)state;
    struct scene scene = SCENE(DEVICES(1));
    play(&scene, "tick 0", "over");
    play(&scene, "tick 10", "");
    ADD(&scene, ONE);
    play(&scene, "tick 0", "0@0");
    scene_close(&scene);
}

static void what_needs_a_job_that_failed_is_blocked_and_all_else_goes_on(void **state)
{
    (void)state;
    struct scene scene = SCENE(DEVICES(2));
    ADD(&scene, ONE, .n_retries = 1);
    ADD(&scene, ONE);
    ADD(&scene, ONE, NEEDS(0));
    ADD(&scene, ONE, NEEDS(1, 2));
    ADD(&scene, ONE, NEEDS(1));
    play(&scene, "tick 0", "0@0, 1@1");
    play(&scene, "end 0 failed", "0@0");
    play(&scene, "end 0 failed", "0 failed");
    is_in(&scene, 2, DAG_BLOCKED);
    is_in(&scene, 3, DAG_BLOCKED);
    is_in(&scene, 4, DAG_WAITS);
    assert_int_equal(dag_job_view(scene.dag, 3).first_culprit, 2);
    play(&scene, "end 1 well", "1 done, 4@0");
    play(&scene, "retry 0", "0@1");
    is_in(&scene, 2, DAG_WAITS);
    is_in(&scene, 3, DAG_WAITS);
    play(&scene, "end 0 well, end 4 well", "0 done, 2@1, 4 done");
    play(&scene, "end 2 well, end 3 well", "2 done, 3@0, 3 done, over");
    scene_close(&scene);
}

static void a_job_that_an_earlier_session_did_is_not_run(void **state)
{
    (void)state;
    struct scene scene = SCENE(DEVICES(1));
    ADD(&scene, ONE, .is_done = true);
    ADD(&scene, ONE, NEEDS(0));
    play(&scene, "tick 0", "1@0");
    ADD(&scene, ONE, NEEDS(0, 1));
    play(&scene, "end 1 well", "1 done, 2@0");
    scene_close(&scene);
}

/* ---- ends ---- */

static void a_job_is_tried_again_while_it_has_retries(void **state)
{
    (void)state;
    struct scene scene = SCENE(DEVICES(1));
    ADD(&scene, ONE, .n_retries = 2);
    play(&scene, "tick 0, end 0 failed, end 0 failed, end 0 failed",
         "0@0, 0@0, 0@0, 0 failed, over");
    assert_int_equal(dag_job_view(scene.dag, 0).n_attempts, 3);
    assert_int_equal(dag_job_view(scene.dag, 0).n_failures, 3);
    play(&scene, "end 0 well", "");
    play(&scene, "retry 0, end 0 failed, end 0 well", "0@0, 0@0, 0 done, over");
    scene_close(&scene);
}

static void a_command_that_cannot_work_is_not_tried_again(void **state)
{
    (void)state;
    struct scene scene = SCENE(DEVICES(1));
    ADD(&scene, ONE, .n_retries = 9);
    play(&scene, "tick 0, end 0 fatal", "0@0, 0 failed, over");
    scene_close(&scene);
}

static void what_two_failures_block_waits_for_both(void **state)
{
    (void)state;
    struct scene scene = SCENE(DEVICES(2));
    ADD(&scene, ONE);
    ADD(&scene, ONE);
    ADD(&scene, ONE, NEEDS(0, 1, 1));
    play(&scene, "tick 0, end 0 failed, end 1 failed", "0@0, 1@1, 0 failed, 1 failed, over");
    play(&scene, "retry 1", "1@0");
    is_in(&scene, 2, DAG_BLOCKED);
    play(&scene, "end 1 well", "1 done, over");
    is_in(&scene, 2, DAG_BLOCKED);
    play(&scene, "retry 0, end 0 well, end 2 well", "0@0, 0 done, 2@0, 2 done, over");
    scene_close(&scene);
}

static void a_lost_job_runs_again_but_not_without_end(void **state)
{
    (void)state;
    struct scene scene = SCENE(DEVICES(1));
    ADD(&scene, ONE, .n_retries = 1);
    play(&scene, "tick 0", "0@0");
    for (int i = 0; i < 20; i++)
        play(&scene, "end 0 lost", "0@0");
    assert_int_equal(dag_job_view(scene.dag, 0).n_failures, 0);
    play(&scene, "end 0 lost", "0@0");
    play(&scene, "end 0 lost", "0 failed, over");
    scene_close(&scene);
}

static void after_a_failure_nothing_starts_if_it_is_to_halt(void **state)
{
    (void)state;
    struct scene scene = SCENE(.devices = plain, .n_devices = 2);
    for (int i = 0; i < 4; i++)
        ADD(&scene, ONE);
    play(&scene, "tick 0, end 0 failed", "0@0, 1@1, 0 failed");
    play(&scene, "end 1 well", "1 done, over");
    is_in(&scene, 2, DAG_READY);
    play(&scene, "retry 0", "0@0, 2@1");
    scene_close(&scene);
}

/* ---- out of memory ---- */

static const struct dag_device of_two_sizes[] = {{0, 24 * GIB, true}, {0, 80 * GIB, true}};

static void the_steps_after_a_job_ran_out_of_memory(void **state)
{
    (void)state;
    struct scene scene = SCENE(.devices = of_two_sizes, .n_devices = 2, .keeps_going = true);
    ADD(&scene, .want = {1, 1, 0, 10 * GIB, 0, 0}, .n_batch_steps = 2);
    play(&scene, "tick 0", "0@0");
    static const struct step {
        enum dag_oom_step step;
        uint32_t device, n_halvings;
    } steps[] = {{OOM_STEP_ALONE, 0, 0},
                 {OOM_STEP_LARGER, 1, 0},
                 {OOM_STEP_BATCH, 1, 1},
                 {OOM_STEP_BATCH, 1, 2}};
    for (size_t i = 0; i < countof(steps); i++) {
        play(&scene, "end 0 oom", steps[i].device == 0 ? "0@0" : "0@1");
        assert_int_equal(dag_placement(scene.dag, 0).oom_step, steps[i].step);
        assert_int_equal(dag_placement(scene.dag, 0).n_halvings, steps[i].n_halvings);
        assert_int_equal(dag_device_view(scene.dag, steps[i].device).share_used, DAG_SHARE_WHOLE);
    }
    play(&scene, "end 0 oom", "0 failed, over");
    play(&scene, "retry 0", "0@0");
    assert_int_equal(dag_placement(scene.dag, 0).oom_step, OOM_STEP_NONE);
    scene_close(&scene);
}

static void a_batch_that_was_halved_in_an_earlier_session_is_so_at_first(void **state)
{
    (void)state;
    struct scene scene = SCENE(.devices = of_two_sizes, .n_devices = 2, .keeps_going = true);
    ADD(&scene, .want = {1, 1, 0, 10 * GIB, 0, 0}, .n_batch_steps = 2, .n_halvings = 1);
    ADD(&scene, .want = {1, 1, 0, 10 * GIB, 0, 0}, .n_halvings = 1);
    play(&scene, "tick 0", "0@1, 1@0");
    assert_int_equal(dag_placement(scene.dag, 0).oom_step, OOM_STEP_BATCH);
    assert_int_equal(dag_placement(scene.dag, 0).n_halvings, 1);
    assert_int_equal(dag_device_view(scene.dag, 1).share_used, DAG_SHARE_WHOLE);
    assert_int_equal(dag_placement(scene.dag, 1).oom_step, OOM_STEP_NONE); /* it has no batch */
    play(&scene, "end 0 oom", "0@1");
    assert_int_equal(dag_placement(scene.dag, 0).n_halvings, 2);
    play(&scene, "end 0 oom, retry 0", "0 failed, 0@0");
    assert_int_equal(dag_placement(scene.dag, 0).n_halvings, 0);
    scene_close(&scene);
}

static void a_job_that_was_alone_goes_to_a_larger_device_at_once(void **state)
{
    (void)state;
    struct scene scene = SCENE(.devices = of_two_sizes, .n_devices = 2, .keeps_going = true);
    ADD(&scene, ONE, .n_retries = 5);
    ADD(&scene, ONE);
    play(&scene, "tick 0, end 0 oom", "0@0, 1@1");
    play(&scene, "end 1 well", "1 done, 0@1");
    assert_int_equal(dag_placement(scene.dag, 0).oom_step, OOM_STEP_LARGER);
    play(&scene, "end 0 oom", "0 failed, over");
    assert_int_equal(dag_job_view(scene.dag, 0).n_failures, 1);
    scene_close(&scene);
}

/* ---- ill devices ---- */

static void a_job_that_found_its_device_ill_goes_elsewhere(void **state)
{
    (void)state;
    struct scene scene = SCENE(DEVICES(2));
    ADD(&scene, ONE);
    play(&scene, "tick 0, end 0 ill 0", "0@0, 0@1");
    play(&scene, "down 1, end 0 lost", "0@0");
    play(&scene, "up 1, end 0 ill 0", "0@1");
    play(&scene, "end 0 well", "0 done, over");
    assert_false(dag_device_view(scene.dag, 0).is_benched);
    scene_close(&scene);
}

static void a_device_that_two_jobs_found_ill_is_benched(void **state)
{
    (void)state;
    struct scene scene = SCENE(DEVICES(2));
    ADD(&scene, ONE);
    ADD(&scene, .want = {2, 2, 0, 0, 0, 0});
    ADD(&scene, ONE);
    play(&scene, "tick 0", "1@0+1");
    play(&scene, "end 1 ill 1", "1@0+1");
    play(&scene, "end 1 lost", "1@0+1");
    play(&scene, "end 1 well", "1 done, 0@0, 2@1");
    play(&scene, "end 2 ill 1", "bench 1");
    assert_true(dag_device_view(scene.dag, 1).is_benched);
    play(&scene, "down 1, up 1", "");
    play(&scene, "end 0 well", "0 done, 2@0");
    ADD(&scene, .want = {2, 2, 0, 0, 0, 0});
    play(&scene, "tick 0", "3 unfit");
    scene_close(&scene);
}

static void if_it_is_not_said_which_all_devices_may_be_ill(void **state)
{
    (void)state;
    struct scene scene = SCENE(.devices = plain, .n_devices = 4, .strikes = 1, .keeps_going = true);
    ADD(&scene, .want = {2, 2, 0, 0, 0, 0});
    play(&scene, "tick 0, end 0 ill", "0@0+1, bench 0, bench 1, 0@2+3");
    scene_close(&scene);
}

/* ---- what somebody asks for ---- */

static void a_job_that_runs_is_cancelled_when_it_has_ended(void **state)
{
    (void)state;
    struct scene scene = SCENE(DEVICES(2));
    ADD(&scene, ONE, .n_retries = 3);
    ADD(&scene, ONE);
    ADD(&scene, ONE, NEEDS(0));
    play(&scene, "tick 0, cancel 0, cancel 0", "0@0, 1@1, end 0");
    is_in(&scene, 0, DAG_ENDS);
    play(&scene, "end 0 failed", "0 cancelled");
    is_in(&scene, 2, DAG_BLOCKED);
    play(&scene, "cancel 1, end 1 well", "end 1, 1 done, over");
    play(&scene, "retry 0, end 0 ended", "0@0, 0@0");
    scene_close(&scene);
}

static void a_job_that_is_being_ended_can_be_retried(void **state)
{
    (void)state;
    struct scene scene = SCENE(DEVICES(1));
    ADD(&scene, ONE);
    ADD(&scene, ONE, NEEDS(0));
    play(&scene, "tick 0, cancel 0, retry 0", "0@0, end 0");
    is_in(&scene, 0, DAG_ENDS);
    play(&scene, "end 0 ended", "0@0");
    play(&scene, "cancel 0, retry 0, cancel 0, end 0 ended", "end 0, 0 cancelled, over");
    is_in(&scene, 1, DAG_BLOCKED);
    play(&scene, "retry 0, cancel 0, retry 0, end 0 well", "0@0, end 0, 0 done, 1@0");
    scene_close(&scene);
}

static void a_job_that_has_failed_can_be_cancelled(void **state)
{
    (void)state;
    struct scene scene = SCENE(DEVICES(1));
    ADD(&scene, ONE);
    ADD(&scene, ONE, NEEDS(0));
    play(&scene, "tick 0, end 0 failed", "0@0, 0 failed, over");
    play(&scene, "cancel 0", "0 cancelled");
    is_in(&scene, 0, DAG_CANCELLED);
    is_in(&scene, 1, DAG_BLOCKED);
    play(&scene, "retry 0, end 0 well", "0@0, 0 done, 1@0");
    scene_close(&scene);
}

static void a_job_that_waits_is_cancelled_at_once(void **state)
{
    (void)state;
    struct scene scene = SCENE(DEVICES(1));
    ADD(&scene, ONE);
    ADD(&scene, ONE, .is_held = true);
    ADD(&scene, ONE, NEEDS(1));
    play(&scene, "tick 0, cancel 1", "0@0, 1 cancelled");
    is_in(&scene, 2, DAG_BLOCKED);
    assert_int_equal(dag_view(scene.dag).n_held, 0);
    play(&scene, "cancel 2", "2 cancelled");
    play(&scene, "retry 1", "");
    is_in(&scene, 2, DAG_CANCELLED);
    scene_close(&scene);
}

static void a_held_job_does_not_start(void **state)
{
    (void)state;
    struct scene scene = SCENE(DEVICES(1));
    ADD(&scene, ONE, .is_held = true);
    ADD(&scene, ONE);
    ADD(&scene, ONE);
    play(&scene, "tick 0, hold 2, hold 2", "1@0");
    assert_int_equal(dag_view(scene.dag).n_held, 2);
    play(&scene, "hold 1, end 1 lost", "over");
    assert_int_equal(dag_view(scene.dag).n_held, 3);
    play(&scene, "release 2", "2@0");
    play(&scene, "release 1, release 0, release 0, end 2 well", "2 done, 0@0");
    play(&scene, "end 0 well", "0 done, 1@0");
    scene_close(&scene);
}

static void after_a_stop_nothing_starts(void **state)
{
    (void)state;
    struct scene scene = SCENE(DEVICES(2));
    for (int i = 0; i < 3; i++)
        ADD(&scene, ONE, .n_retries = 1);
    play(&scene, "tick 0, stop, end 0 failed", "0@0, 1@1");
    is_in(&scene, 0, DAG_READY);
    play(&scene, "kill, kill", "end 1");
    play(&scene, "end 1 ended", "over");
    is_in(&scene, 1, DAG_READY);
    assert_true(dag_view(scene.dag).is_stopped);
    play(&scene, "retry 1, up 0", "");
    scene_close(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_starts_when_all_that_it_needs_is_done),
        cmocka_unit_test(ready_jobs_that_are_more_urgent_are_counted),
        cmocka_unit_test(nothing_to_do_is_over_at_once),
        cmocka_unit_test(what_needs_a_job_that_failed_is_blocked_and_all_else_goes_on),
        cmocka_unit_test(a_job_that_an_earlier_session_did_is_not_run),
        cmocka_unit_test(a_job_is_tried_again_while_it_has_retries),
        cmocka_unit_test(a_command_that_cannot_work_is_not_tried_again),
        cmocka_unit_test(what_two_failures_block_waits_for_both),
        cmocka_unit_test(a_lost_job_runs_again_but_not_without_end),
        cmocka_unit_test(after_a_failure_nothing_starts_if_it_is_to_halt),
        cmocka_unit_test(the_steps_after_a_job_ran_out_of_memory),
        cmocka_unit_test(a_batch_that_was_halved_in_an_earlier_session_is_so_at_first),
        cmocka_unit_test(a_job_that_was_alone_goes_to_a_larger_device_at_once),
        cmocka_unit_test(a_job_that_found_its_device_ill_goes_elsewhere),
        cmocka_unit_test(a_device_that_two_jobs_found_ill_is_benched),
        cmocka_unit_test(if_it_is_not_said_which_all_devices_may_be_ill),
        cmocka_unit_test(a_job_that_runs_is_cancelled_when_it_has_ended),
        cmocka_unit_test(a_job_that_is_being_ended_can_be_retried),
        cmocka_unit_test(a_job_that_has_failed_can_be_cancelled),
        cmocka_unit_test(a_job_that_waits_is_cancelled_at_once),
        cmocka_unit_test(a_held_job_does_not_start),
        cmocka_unit_test(after_a_stop_nothing_starts),
    };
    return cmocka_run_group_tests_name("dag", tests, NULL, NULL);
}
