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

#define GIB    (1ull << 30)
#define MIN_MS 60000ull

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

static void near_devices_of_a_late_host_go_together(void **state)
{
    (void)state;
    static const uint8_t distance[] = {0, 9, 1, 9, 0, 9, 1, 9, 0};
    struct scene scene = SCENE(DEVICES(1), .n_devices_max = 4);
    dag_add_host(scene.dag, 1, 8);
    for (uint32_t i = 1; i <= 3; i++)
        assert_int_equal(dag_add_device(scene.dag, &(struct dag_device){.host = 1}, 0), i);
    assert_true(dag_near(scene.dag, 1, 3, distance));
    ADD(&scene, .want = {.n_devices_min = 2, .n_devices_max = 2});
    play(&scene, "up 1, up 2", "over, 0@1+2");
    play(&scene, "up 3, end 0 lost", "0@1+3");
    scene_close(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_starts_when_all_that_it_needs_is_done),
        cmocka_unit_test(nothing_to_do_is_over_at_once),
        cmocka_unit_test(what_needs_a_job_that_failed_is_blocked_and_all_else_goes_on),
        cmocka_unit_test(a_host_that_comes_late_has_its_cpus_and_devices),
        cmocka_unit_test(near_devices_of_a_late_host_go_together),
    };
    return cmocka_run_group_tests_name("dag", tests, NULL, NULL);
}
