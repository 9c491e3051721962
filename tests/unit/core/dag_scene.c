/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/core/dag_scene.h"

#include <string.h>

const struct dag_device plain[4] = {{0, 0, true}, {0, 0, true}, {0, 0, true}, {0, 0, true}};

static const char *const state_names[] = {
    [DAG_WAITS] = "waits", [DAG_READY] = "ready",         [DAG_RUNS] = "runs",
    [DAG_ENDS] = "ends",   [DAG_DONE] = "done",           [DAG_FAILED] = "failed",
    [DAG_UNFIT] = "unfit", [DAG_CANCELLED] = "cancelled", [DAG_BLOCKED] = "blocked",
};

static const char *const end_names[] = {"well", "failed", "fatal", "oom", "ill", "lost", "ended"};

/* ---- a scene ---- */

struct scene scene_open(struct dag_config config)
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

void scene_close(struct scene *scene)
{
    dag_free(scene->dag);
    buf_release(&scene->said);
}

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

void tell(struct scene *scene, struct dag_event event)
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

void play(struct scene *scene, const char *events, const char *actions)
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

void is_in(const struct scene *scene, uint32_t job, enum dag_state state)
{
    enum dag_state found = dag_job_view(scene->dag, job).state;
    if (found != state)
        fail_msg("job %u %s, but %s was expected", job, state_names[found], state_names[state]);
}
