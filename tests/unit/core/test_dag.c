/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs and devices, rule by rule. A scene is text: events, and the actions that must follow.
 *
 *   end J HOW [D]  job J ended (well, failed, fatal, oom, ill, lost, ended), device D is ill
 *   up D, down D   a device; hostup H, hostdown H, a host
 *   hold J, release J, cancel J, retry J
 *   await, enough  further devices may come, or none
 *   stop, kill     nothing starts; and what runs is ended
 *   wait MS        time passes, unnoticed; tick MS: and is told
 *
 * "3@0+1" is the start of job 3 on devices 0 and 1, "3@h0" without devices on host 0, "end 3" that it is to be ended,
 * "3 done" that it is settled.
 */
#include <string.h>

#include "unit/test.h"

#include "base/attr.h"
#include "base/buf.h"
#include "core/dag.h"

#define GIB (1ull << 30)

struct scene {
    struct dag *dag;
    uint64_t now_ms;
    struct buf said;
};

static const char *const state_names[] = {
    [DAG_WAITS] = "waits", [DAG_READY] = "ready",         [DAG_RUNS] = "runs",
    [DAG_ENDS] = "ends",   [DAG_DONE] = "done",           [DAG_FAILED] = "failed",
    [DAG_UNFIT] = "unfit", [DAG_CANCELLED] = "cancelled", [DAG_BLOCKED] = "blocked",
};

static const char *const end_names[] = {"well", "failed", "fatal", "oom", "ill", "lost", "ended"};

/* ---- a scene ---- */

static struct scene scene_open(struct dag_config config)
{
    static const uint32_t cpus[] = {8, 8, 8, 8};
    if (!config.host_cpus) {
        config.host_cpus = cpus;
        config.n_hosts = MAX(config.n_hosts, 1u);
    }
    struct scene scene = {.dag = dag_new(&config), .now_ms = 1000};
    assert_non_null(scene.dag);
    return scene;
}

#define SCENE(...) scene_open((struct dag_config){__VA_ARGS__})

static void scene_close(struct scene *scene)
{
    dag_free(scene->dag);
    buf_release(&scene->said);
}

static const struct dag_device plain[] = {{0, 0, true}, {0, 0, true}, {0, 0, true}, {0, 0, true}};
#define DEVICES(n) .devices = plain, .n_devices = (n), .keeps_going = true

/* ADD(&scene, NEEDS(0, 1), .want = …) */
#define NEEDS(...) \
    .needs = (const uint32_t[]){__VA_ARGS__}, .n_needs = countof(((const uint32_t[]){__VA_ARGS__}))
#define ADD(scene, ...) dag_add((scene)->dag, &(struct dag_job){__VA_ARGS__})
#define ONE             .want = {.n_devices_min = 1, .n_devices_max = 1}

static void action_add(struct scene *scene, const struct dag_action *a)
{
    struct buf *said = &scene->said;
    buf_addf(said, "%s", said->len > 0 ? ", " : "");
    if (a->kind == DACT_START) {
        struct dag_placement at = dag_placement(scene->dag, a->job);
        buf_addf(said, "%u@", a->job);
        for (uint32_t i = 0; i < at.n_devices; i++)
            buf_addf(said, "%s%u", i > 0 ? "+" : "", at.devices[i]);
        if (at.n_devices == 0)
            buf_addf(said, "h%u", at.host);
    } else if (a->kind == DACT_END) {
        buf_addf(said, "end %u", a->job);
    } else if (a->kind == DACT_SETTLED) {
        buf_addf(said, "%u %s", a->job, state_names[dag_job_view(scene->dag, a->job).state]);
    } else if (a->kind == DACT_BENCH) {
        buf_addf(said, "bench %u", a->device);
    } else {
        buf_addf(said, "over");
    }
}

static void tell(struct scene *scene, struct dag_event event)
{
    const struct dag_action *actions;
    event.now_ms = scene->now_ms;
    size_t n_actions = dag_step(scene->dag, &event, &actions);
    for (size_t i = 0; i < n_actions; i++)
        action_add(scene, &actions[i]);
}

static const struct verb {
    const char *name;
    enum dag_event_kind kind;
    bool flag;
} verbs[] = {
    {"end", DEV_ENDED, false},        {"up", DEV_DEVICE_UP, false},
    {"down", DEV_DEVICE_DOWN, false}, {"hostup", DEV_HOST_UP, false},
    {"hold", DEV_HOLD, false},        {"hostdown", DEV_HOST_DOWN, false},
    {"release", DEV_RELEASE, false},  {"cancel", DEV_CANCEL, false},
    {"retry", DEV_RETRY, false},      {"await", DEV_AWAIT, true},
    {"enough", DEV_AWAIT, false},     {"stop", DEV_STOP, false},
    {"kill", DEV_STOP, true},         {"tick", DEV_TICK, false},
    {"wait", DEV_TICK, true},
};

static const struct verb *verb_find(const char *name)
{
    for (size_t i = 0; i < countof(verbs); i++)
        if (!strcmp(verbs[i].name, name))
            return &verbs[i];
    fail_msg("\"%s\" is no verb of a scene", name);
    return NULL;
}

static enum dag_end end_find(const char *how)
{
    for (size_t i = 0; i < countof(end_names); i++)
        if (!strcmp(end_names[i], how))
            return (enum dag_end)i;
    fail_msg("\"%s\" is no end", how);
    return DEND_WELL;
}

static void sentence_play(struct scene *scene, const char *sentence)
{
    char name[12] = "", how[12] = "";
    unsigned first = 0, device = UINT32_MAX;
    assert_true(sscanf(sentence, " %11[a-z] %u %11[a-z] %u", name, &first, how, &device) >= 1);
    const struct verb *verb = verb_find(name);
    if (verb->kind == DEV_TICK)
        scene->now_ms += first;
    if (verb->kind == DEV_TICK && verb->flag)
        return;
    tell(scene, (struct dag_event){.kind = verb->kind,
                                   .job = verb->kind == DEV_TICK ? 0 : first,
                                   .device = verb->kind == DEV_ENDED ? device : first,
                                   .end = verb->kind == DEV_ENDED ? end_find(how) : DEND_WELL,
                                   .flag = verb->flag});
}

static void play(struct scene *scene, const char *events, const char *actions)
{
    for (const char *at = events; at; at = strchr(at, ',')) {
        at += *at == ',';
        sentence_play(scene, at);
    }
    if (strcmp(buf_text(&scene->said), actions) != 0)
        fail_msg("after \"%s\": expected \"%s\"\n   found \"%s\"", events, actions,
                 buf_text(&scene->said));
    buf_reset(&scene->said);
}

static void is_in(const struct scene *scene, uint32_t job, enum dag_state state)
{
    enum dag_state found = dag_job_view(scene->dag, job).state;
    if (found != state)
        fail_msg("job %u %s, but %s was expected", job, state_names[found], state_names[state]);
}

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
    struct scene scene =
        SCENE(.devices = plain, .n_devices = 4, .n_running_max = 2, .keeps_going = true);
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

/* ---- views ---- */

static void followers_are_those_that_need_a_job(void **state)
{
    (void)state;
    struct scene scene = SCENE(DEVICES(1));
    ADD(&scene, ONE);
    ADD(&scene, ONE, NEEDS(0));
    ADD(&scene, ONE, NEEDS(1, 0));
    uint32_t n = 9;
    const uint32_t *followers = dag_followers(scene.dag, 0, &n);
    assert_int_equal(n, 2);
    assert_int_equal(followers[0], 1);
    assert_int_equal(followers[1], 2);
    ADD(&scene, ONE, NEEDS(2));
    followers = dag_followers(scene.dag, 2, &n);
    assert_int_equal(n, 1);
    assert_int_equal(followers[0], 3);
    dag_followers(scene.dag, 3, &n);
    assert_int_equal(n, 0);
    scene_close(&scene);
}

static void a_failure_at_the_begin_of_a_long_chain(void **state)
{
    (void)state;
    enum {
        LONG = 1000000
    };
    struct scene scene = SCENE(DEVICES(1));
    for (uint32_t i = 0; i < LONG; i++)
        dag_add(scene.dag, &(struct dag_job){ONE, .needs = (uint32_t[]){i - 1}, .n_needs = i > 0});
    play(&scene, "tick 0, end 0 failed", "0@0, 0 failed, over");
    assert_int_equal(dag_view(scene.dag).n_of[DAG_BLOCKED], LONG - 1);
    assert_int_equal(dag_job_view(scene.dag, 0).path_ms, LONG * (uint64_t)DAG_UNKNOWN_MS);
    play(&scene, "retry 0, end 0 well", "0@0, 0 done, 1@0");
    assert_int_equal(dag_view(scene.dag).n_of[DAG_WAITS], LONG - 2);
    scene_close(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_starts_when_all_that_it_needs_is_done),
        cmocka_unit_test(nothing_to_do_is_over_at_once),
        cmocka_unit_test(what_needs_a_job_that_failed_is_blocked_and_all_else_goes_on),
        cmocka_unit_test(a_job_that_an_earlier_session_did_is_not_run),
        cmocka_unit_test(a_job_is_tried_again_while_it_has_retries),
        cmocka_unit_test(a_command_that_cannot_work_is_not_tried_again),
        cmocka_unit_test(what_two_failures_block_waits_for_both),
        cmocka_unit_test(a_lost_job_runs_again_but_not_without_end),
        cmocka_unit_test(after_a_failure_nothing_starts_if_it_is_to_halt),
        cmocka_unit_test(the_steps_after_a_job_ran_out_of_memory),
        cmocka_unit_test(a_job_that_was_alone_goes_to_a_larger_device_at_once),
        cmocka_unit_test(a_job_that_found_its_device_ill_goes_elsewhere),
        cmocka_unit_test(a_device_that_two_jobs_found_ill_is_benched),
        cmocka_unit_test(if_it_is_not_said_which_all_devices_may_be_ill),
        cmocka_unit_test(a_job_that_runs_is_cancelled_when_it_has_ended),
        cmocka_unit_test(a_job_that_waits_is_cancelled_at_once),
        cmocka_unit_test(a_held_job_does_not_start),
        cmocka_unit_test(after_a_stop_nothing_starts),
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
        cmocka_unit_test(followers_are_those_that_need_a_job),
        cmocka_unit_test(a_failure_at_the_begin_of_a_long_chain),
    };
    return cmocka_run_group_tests_name("dag", tests, NULL, NULL);
}
