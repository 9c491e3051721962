/* SPDX-License-Identifier: Apache-2.0
 *
 * A gang of ranks, rule by rule. A scene is text: events, and the actions that must follow.
 *
 *   up N C     node N is there, with places for C ranks     gone N       node N is gone, and its ranks
 *   lost N MS  the same, but its ranks may live so long     empty N      none of them lives
 *   exit R S   rank R ended with status S                   late R S     it was of the generation before
 *   final R S  the same, and the next generation would end so as well
 *   hang R S   rank R stands still, and fails with S        still R S    it was of the generation before
 *   stop       end all ranks                                kill         at once
 *   wait MS    time passes, unnoticed                       tick MS      time passes, and is told
 */
#include <string.h>

#include "unit/test.h"

#include "base/attr.h"
#include "base/buf.h"
#include "core/gang.h"

struct scene {
    struct gang *gang;
    uint64_t now_ms;
    struct buf said;
};

static const char *const action_names[] = {
#define X(kind) [GACT_##kind] = #kind,
    GANG_ACTIONS(X)
#undef X
};

static const char *const outcome_names[] = {
    [GANG_WELL] = "WELL",
    [GANG_FAILED] = "FAILED",
    [GANG_TOO_FEW] = "TOO_FEW",
    [GANG_STOPPED] = "STOPPED",
};

static struct scene scene_open(struct gang_config config)
{
    config.n_nodes_min = MAX(config.n_nodes_min, 1u);
    config.n_nodes_max = MAX(config.n_nodes_max, config.n_nodes_min);
    struct scene scene = {.gang = gang_new(&config), .now_ms = 1000};
    assert_non_null(scene.gang);
    return scene;
}

#define SCENE(...) scene_open((struct gang_config){__VA_ARGS__})

static void scene_close(struct scene *scene)
{
    gang_free(scene->gang);
    buf_release(&scene->said);
}

static void action_add(struct scene *scene, const struct gang_action *action)
{
    struct buf *said = &scene->said;
    buf_addf(said, "%s%s", said->len > 0 ? ", " : "", action_names[action->kind]);
    if (action->kind == GACT_RETRY)
        buf_addf(said, " in %lu%s", action->pause_ms, action->flag ? " for the lost" : "");
    else if (action->kind == GACT_OVER)
        buf_addf(said, " %s", outcome_names[gang_view(scene->gang).outcome]);
    else
        buf_addf(said, " %u%s", action->node, action->flag ? " at once" : "");
}

static void tell(struct scene *scene, struct gang_event event)
{
    const struct gang_action *actions;
    event.now_ms = scene->now_ms;
    size_t n_actions = gang_step(scene->gang, &event, &actions);
    gang_check(scene->gang);
    for (size_t i = 0; i < n_actions; i++)
        action_add(scene, &actions[i]);
}

/* The verbs of a scene. Numbers are `node` and `count`, or `rank` and `status`. */
static const struct verb {
    const char *name;
    enum gang_event_kind kind;
    bool is_told, is_late, flag;
} verbs[] = {
    {"up", GEV_NODE_UP, true, false, false},       {"gone", GEV_NODE_GONE, true, false, false},
    {"lost", GEV_NODE_GONE, true, false, false},   {"exit", GEV_EXIT, true, false, false},
    {"empty", GEV_NODE_EMPTY, true, false, false}, {"late", GEV_EXIT, true, true, false},
    {"final", GEV_EXIT, true, false, true},        {"hang", GEV_HANG, true, false, false},
    {"still", GEV_HANG, true, true, false},        {"stop", GEV_STOP, true, false, false},
    {"kill", GEV_STOP, true, false, true},         {"tick", GEV_TICK, true, false, false},
    {"wait", GEV_TICK, false, false, false},
};

static const struct verb *verb_find(const char *name)
{
    for (size_t i = 0; i < countof(verbs); i++)
        if (!strcmp(verbs[i].name, name))
            return &verbs[i];
    fail_msg("\"%s\" is no verb of a scene", name);
    return NULL;
}

static void sentence_play(struct scene *scene, const char *sentence)
{
    char name[8] = "";
    unsigned first = 0, second = 0;
    assert_true(sscanf(sentence, " %7[a-z] %u %u", name, &first, &second) >= 1);
    const struct verb *verb = verb_find(name);
    if (verb->kind == GEV_TICK)
        scene->now_ms += first;
    bool may_live = strcmp(name, "lost") == 0;
    if (verb->is_told)
        tell(scene,
             (struct gang_event){.kind = verb->kind,
                                 .gone_ms = may_live ? scene->now_ms + second : 0,
                                 .node = first,
                                 .rank = first,
                                 .count = second,
                                 .status = (int)second,
                                 .flag = verb->flag,
                                 .generation = gang_view(scene->gang).generation - verb->is_late});
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

static void wakes_in(const struct scene *scene, uint64_t ms)
{
    assert_int_equal(gang_wake_ms(scene->gang), scene->now_ms + ms);
}

static void waits_for_events(const struct scene *scene)
{
    assert_int_equal(gang_wake_ms(scene->gang), UINT64_MAX);
}

static void failed_by(const struct scene *scene, enum gang_cause cause, uint32_t rank,
                      uint32_t node, int status)
{
    struct gang_failure first = gang_view(scene->gang).first;
    assert_int_equal(first.cause, cause);
    assert_int_equal(first.rank, rank);
    assert_int_equal(first.node, node);
    assert_int_equal(first.status, status);
    assert_int_equal(first.at_ms, scene->now_ms);
    assert_int_equal(first.generation, gang_view(scene->gang).generation);
}

/* ---- nodes gather ---- */

static void all_nodes_that_may_take_part_start_at_once(void **state)
{
    (void)state;
    struct scene scene = SCENE(.n_nodes_min = 1, .n_nodes_max = 3, .more_ms = 5000);
    play(&scene, "up 7 1, up 3 2", "");
    play(&scene, "up 5 1", "START 3, START 5, START 7");
    assert_int_equal(gang_view(scene.gang).generation, 0);
    assert_int_equal(gang_view(scene.gang).n_alive, 4);
    scene_close(&scene);
}

static void a_gang_wants_to_know_the_time_before_anything_else(void **state)
{
    (void)state;
    struct scene scene = SCENE(.join_ms = 500);
    assert_int_equal(gang_wake_ms(scene.gang), 0);
    play(&scene, "tick 0", "");
    wakes_in(&scene, 500);
    scene_close(&scene);
}

static void enough_nodes_start_without_others_that_do_not_come_in_time(void **state)
{
    (void)state;
    struct scene scene = SCENE(.n_nodes_min = 2, .n_nodes_max = 4, .more_ms = 500, .join_ms = 900);
    play(&scene, "up 0 1, wait 800, up 1 1, wait 100, up 2 1", "");
    wakes_in(&scene, 400);
    play(&scene, "tick 399", "");
    play(&scene, "tick 1", "START 0, START 1, START 2");
    scene_close(&scene);
}

static void nodes_that_never_came_are_not_waited_for_beyond_those_that_are_awaited(void **state)
{
    (void)state;
    struct scene scene = SCENE(.n_nodes_min = 1, .n_nodes_max = 4, .n_nodes_awaited = 2,
                               .more_ms = 500, .n_restarts = 9);
    play(&scene, "up 0 1", "");
    play(&scene, "up 2 1", "START 0, START 2");
    play(&scene, "up 3 1", "");
    play(&scene, "gone 2", "FAIL 2, END 0");
    play(&scene, "exit 0 1", "RETRY in 0");
    wakes_in(&scene, 500); /* for the three that were there */
    play(&scene, "up 2 1", "START 0, START 2, START 3");
    scene_close(&scene);
}

static void others_are_waited_for_only_once_in_a_gathering(void **state)
{
    (void)state;
    struct scene scene = SCENE(.n_nodes_min = 2, .n_nodes_max = 3, .more_ms = 500);
    play(&scene, "up 0 1, up 1 1, wait 300, gone 1", "");
    waits_for_events(&scene);
    play(&scene, "up 1 1", "");
    wakes_in(&scene, 200);
    play(&scene, "gone 1, tick 300", "");
    play(&scene, "up 1 1", "START 0, START 1");
    scene_close(&scene);
}

static void too_few_nodes_are_waited_for_until_a_time(void **state)
{
    (void)state;
    struct scene scene = SCENE(.n_nodes_min = 2, .join_ms = 500, .more_ms = 100);
    play(&scene, "tick 0, wait 100, up 0 1", "");
    wakes_in(&scene, 400);
    play(&scene, "tick 399", "");
    play(&scene, "tick 1", "OVER TOO_FEW");
    scene_close(&scene);
}

static void nodes_that_become_too_few_after_that_time_are_given_up_at_once(void **state)
{
    (void)state;
    struct scene scene = SCENE(.n_nodes_min = 2, .n_nodes_max = 3, .join_ms = 500, .more_ms = 900);
    play(&scene, "up 0 1, up 1 1, tick 600", "");
    play(&scene, "gone 0", "OVER TOO_FEW");
    scene_close(&scene);
}

static void without_such_a_time_they_are_waited_for_without_end(void **state)
{
    (void)state;
    struct scene scene = SCENE(.n_nodes_min = 2, .more_ms = 10);
    play(&scene, "up 0 1, tick 1000000000", "");
    waits_for_events(&scene);
    play(&scene, "up 1 1", "START 0, START 1");
    scene_close(&scene);
}

static void a_node_that_is_told_twice_counts_once(void **state)
{
    (void)state;
    struct scene scene = SCENE(.n_nodes_min = 2);
    play(&scene, "up 0 1, up 0 1, gone 5, gone 0, gone 0, up 1 1", "");
    assert_int_equal(gang_view(scene.gang).n_nodes_up, 1);
    play(&scene, "up 2 1", "START 1, START 2");
    scene_close(&scene);
}

/* ---- ranks ---- */

static void ranks_are_counted_through_the_nodes_in_order(void **state)
{
    (void)state;
    struct scene scene = SCENE(.n_nodes_min = 4);
    struct gang_member member = {0};
    uint32_t node, local_rank;
    play(&scene, "up 9 1, up 4 70, up 2 3, up 30 2", "START 2, START 4, START 9, START 30");
    assert_true(gang_member(scene.gang, 4, &member));
    assert_int_equal(member.group_rank, 1);
    assert_int_equal(member.first_rank, 3);
    assert_int_equal(member.n_ranks, 70);
    static const struct {
        uint32_t rank, node, local_rank;
    } places[] = {{0, 2, 0},  {2, 2, 2},   {3, 4, 0},  {72, 4, 69},
                  {73, 9, 0}, {74, 30, 0}, {75, 30, 1}};
    for (size_t i = 0; i < countof(places); i++) {
        assert_true(gang_awaits(scene.gang, places[i].rank));
        gang_place(scene.gang, places[i].rank, &node, &local_rank);
        assert_int_equal(node, places[i].node);
        assert_int_equal(local_rank, places[i].local_rank);
    }
    assert_int_equal(gang_view(scene.gang).world_size, 76);
    play(&scene, "exit 2 0, gone 9", "FAIL 9, END 2, END 4, END 30");
    assert_true(gang_awaits(scene.gang, 1));
    assert_false(gang_awaits(scene.gang, 2));
    assert_false(gang_awaits(scene.gang, 73));
    assert_true(gang_awaits(scene.gang, 74));
    assert_false(gang_member(scene.gang, 3, &member));    /* never came */
    assert_false(gang_member(scene.gang, 4000, &member)); /* beyond all that came */
    scene_close(&scene);
}

static void a_node_too_many_waits_for_the_next_generation(void **state)
{
    (void)state;
    struct scene scene = SCENE(.n_nodes_max = 2, .n_nodes_min = 2, .n_restarts = 1);
    struct gang_member member;
    play(&scene, "up 3 1, up 4 1", "START 3, START 4");
    play(&scene, "up 2 1, up 1 1", "");
    assert_false(gang_member(scene.gang, 2, &member));
    play(&scene, "gone 2, up 2 1", ""); /* it has no ranks to lose */
    play(&scene, "exit 0 1", "FAIL 3, END 4");
    play(&scene, "exit 1 143", "RETRY in 0, START 1, START 2");
    assert_false(gang_member(scene.gang, 3, &member));
    assert_true(gang_member(scene.gang, 2, &member));
    assert_int_equal(member.group_rank, 1);
    scene_close(&scene);
}

static void another_count_of_places_holds_from_the_next_generation_on(void **state)
{
    (void)state;
    struct scene scene = SCENE(.n_restarts = 1);
    play(&scene, "up 0 2", "START 0");
    play(&scene, "up 0 3", "");
    assert_int_equal(gang_view(scene.gang).world_size, 2);
    play(&scene, "exit 1 1, exit 0 143", "FAIL 0, END 0, RETRY in 0, START 0");
    assert_int_equal(gang_view(scene.gang).world_size, 3);
    scene_close(&scene);
}

static void a_gang_is_over_when_all_ranks_have_ended_well(void **state)
{
    (void)state;
    struct scene scene = SCENE(.n_nodes_min = 2);
    play(&scene, "up 0 1, up 1 2", "START 0, START 1");
    play(&scene, "exit 2 0, exit 0 0, tick 1000000", "");
    assert_int_equal(gang_view(scene.gang).n_well, 2);
    waits_for_events(&scene);
    play(&scene, "exit 1 0", "OVER WELL");
    waits_for_events(&scene);
    scene_close(&scene);
}

static void an_exit_counts_once_and_only_in_its_generation(void **state)
{
    (void)state;
    struct scene scene = SCENE(.n_restarts = 3);
    play(&scene, "exit 0 1", ""); /* before there is a generation */
    play(&scene, "up 0 2", "START 0");
    play(&scene, "exit 0 0, exit 0 0, exit 0 1, exit 2 1", "");
    play(&scene, "exit 1 1", "FAIL 0, RETRY in 0, START 0");
    play(&scene, "late 1 1, late 0 0", "");
    assert_int_equal(gang_view(scene.gang).n_alive, 2);
    scene_close(&scene);
}

/* ---- failures ---- */

static void a_rank_that_fails_ends_the_others_and_all_start_again(void **state)
{
    (void)state;
    struct scene scene = SCENE(.n_nodes_min = 3, .n_restarts = 1, .pause_ms = 400);
    play(&scene, "up 0 2, up 1 1, up 2 1", "START 0, START 1, START 2");
    play(&scene, "exit 3 0", "");
    play(&scene, "exit 1 9", "FAIL 0, END 0, END 1"); /* node 2 has no rank left */
    failed_by(&scene, GANG_STATUS, 1, 0, 9);
    play(&scene, "tick 100000, exit 2 1", ""); /* what follows from the end is no failure */
    waits_for_events(&scene);
    play(&scene, "exit 0 0", "RETRY in 400");
    assert_int_equal(gang_view(scene.gang).first.rank, 1);
    wakes_in(&scene, 400);
    play(&scene, "tick 399", "");
    play(&scene, "tick 1", "START 0, START 1, START 2");
    assert_int_equal(gang_view(scene.gang).generation, 1);
    assert_int_equal(gang_view(scene.gang).n_restarts_used, 1);
    assert_int_equal(gang_view(scene.gang).n_well, 0);
    scene_close(&scene);
}

static void a_gang_without_restarts_left_has_failed(void **state)
{
    (void)state;
    struct scene scene = SCENE(.n_restarts = 1);
    play(&scene, "up 0 2", "START 0");
    play(&scene, "exit 0 1, exit 1 1", "FAIL 0, END 0, RETRY in 0, START 0");
    play(&scene, "exit 1 1", "FAIL 0, END 0");
    play(&scene, "exit 0 0", "OVER FAILED");
    scene_close(&scene);
}

static void after_a_failure_that_would_come_again_there_is_no_restart(void **state)
{
    (void)state;
    struct scene scene = SCENE(.n_restarts = 2);
    play(&scene, "up 0 2", "START 0");
    play(&scene, "exit 0 1, final 1 2",
         "FAIL 0, END 0, RETRY in 0, START 0"); /* the first counts */
    play(&scene, "final 1 2, exit 0 1", "FAIL 0, END 0, OVER FAILED");
    failed_by(&scene, GANG_STATUS, 1, 0, 2);
    scene_close(&scene);
}

static void a_node_that_is_lost_with_ranks_fails_its_generation(void **state)
{
    (void)state;
    struct scene scene = SCENE(.n_nodes_min = 2, .n_restarts = 1);
    play(&scene, "up 0 1, up 1 3", "START 0, START 1");
    play(&scene, "exit 1 0", "");
    play(&scene, "gone 1", "FAIL 1, END 0");
    failed_by(&scene, GANG_LOST, 2, 1, 0);
    play(&scene, "exit 3 137", ""); /* late */
    play(&scene, "exit 0 143", "RETRY in 0");
    play(&scene, "up 1 3", "START 0, START 1");
    scene_close(&scene);
}

static void a_node_that_is_lost_when_its_ranks_have_ended_well_is_no_failure(void **state)
{
    (void)state;
    struct scene scene = SCENE(.n_nodes_min = 2);
    play(&scene, "up 0 1, up 1 2", "START 0, START 1");
    play(&scene, "exit 1 0, exit 2 0, gone 1", "");
    play(&scene, "exit 0 0", "OVER WELL");
    scene_close(&scene);
}

static void a_rank_that_stands_still_fails_its_generation(void **state)
{
    (void)state;
    struct scene scene = SCENE(.n_restarts = 1, .pause_ms = 10);
    play(&scene, "hang 0 124, up 0 2, hang 2 124, still 0 124", "START 0");
    play(&scene, "wait 5, hang 1 124", "FAIL 0, END 0");
    failed_by(&scene, GANG_HUNG, 1, 0, 124);
    play(&scene, "hang 0 124, exit 0 143, exit 1 137", "RETRY in 10");
    play(&scene, "tick 10, still 1 124, exit 0 0, hang 0 124", "START 0");
    play(&scene, "exit 1 0", "OVER WELL");
    scene_close(&scene);
}

static void ranks_that_end_much_later_than_the_first_are_a_failure(void **state)
{
    (void)state;
    struct scene scene = SCENE(.n_nodes_min = 3, .linger_ms = 500);
    play(&scene, "up 0 1, up 1 2, up 2 1", "START 0, START 1, START 2");
    waits_for_events(&scene);
    play(&scene, "tick 9999, exit 0 0, wait 100, exit 1 0", "");
    wakes_in(&scene, 400);
    play(&scene, "tick 399", "");
    play(&scene, "tick 1", "FAIL 1, END 1, END 2");
    failed_by(&scene, GANG_LINGERS, 2, 1, 0);
    play(&scene, "exit 2 0, exit 3 0", "OVER FAILED");
    scene_close(&scene);
}

static void the_last_rank_is_in_time_if_its_end_is_told_when_the_time_is_over(void **state)
{
    (void)state;
    struct scene scene = SCENE(.linger_ms = 500);
    play(&scene, "up 0 2", "START 0");
    play(&scene, "exit 0 0, wait 500, exit 1 0", "OVER WELL");
    scene_close(&scene);
}

static void nodes_that_are_lost_while_ranks_are_ended_are_not_waited_for(void **state)
{
    (void)state;
    struct scene scene = SCENE(.n_nodes_min = 3);
    play(&scene, "up 0 1, up 1 2, up 2 1", "START 0, START 1, START 2");
    play(&scene, "exit 0 1", "FAIL 0, END 1, END 2");
    play(&scene, "exit 3 143, gone 1", "OVER FAILED");
    assert_int_equal(gang_view(scene.gang).first.cause, GANG_STATUS);
    scene_close(&scene);
}

/* ---- restarts ---- */

static void the_pause_doubles_up_to_64_times_its_length(void **state)
{
    (void)state;
    struct scene scene = SCENE(.n_restarts = 100, .pause_ms = 10);
    static const unsigned pauses_ms[] = {10, 20, 40, 80, 160, 320, 640, 640, 640};
    play(&scene, "up 0 1", "START 0");
    for (size_t i = 0; i < countof(pauses_ms); i++) {
        char retry[40], tick[40];
        snprintf(retry, sizeof(retry), "FAIL 0, RETRY in %u", pauses_ms[i]);
        snprintf(tick, sizeof(tick), "tick %u", pauses_ms[i]);
        play(&scene, "exit 0 1", retry);
        play(&scene, tick, "START 0");
    }
    scene_close(&scene);
}

static void a_pause_may_last_longer_than_time(void **state)
{
    (void)state;
    struct scene scene = SCENE(.n_restarts = 1, .pause_ms = UINT64_MAX);
    scene.now_ms = UINT64_MAX - 10;
    play(&scene, "up 0 1, exit 0 1", "START 0, FAIL 0, RETRY in 288230376151711743");
    waits_for_events(&scene);
    scene_close(&scene);
}

static void a_generation_that_was_healthy_gives_all_restarts_back(void **state)
{
    (void)state;
    struct scene scene = SCENE(.n_restarts = 2, .pause_ms = 10, .healthy_ms = 1000);
    play(&scene, "up 0 1, exit 0 1", "START 0, FAIL 0, RETRY in 10");
    play(&scene, "tick 10, tick 999, exit 0 1", "START 0, FAIL 0, RETRY in 20");
    play(&scene, "tick 20, tick 1000, exit 0 1", "START 0, FAIL 0, RETRY in 10");
    assert_int_equal(gang_view(scene.gang).n_restarts_used, 1);
    play(&scene, "tick 10, exit 0 1", "START 0, FAIL 0, RETRY in 20");
    play(&scene, "tick 20, exit 0 1", "START 0, FAIL 0, OVER FAILED");
    scene_close(&scene);
}

static void the_time_until_the_failure_counts_not_that_of_the_end(void **state)
{
    (void)state;
    struct scene scene = SCENE(.n_restarts = 1, .healthy_ms = 1000);
    play(&scene, "up 0 2", "START 0");
    play(&scene, "exit 0 1, exit 1 1", "FAIL 0, END 0, RETRY in 0, START 0");
    play(&scene, "tick 999, exit 0 1, tick 5000, exit 1 1", "FAIL 0, END 0, OVER FAILED");
    scene_close(&scene);
}

static void nodes_gather_in_the_pause_but_nothing_is_decided_before_its_end(void **state)
{
    (void)state;
    struct scene scene = SCENE(.n_nodes_min = 2, .n_nodes_max = 3, .n_restarts = 9,
                               .pause_ms = 1000, .join_ms = 100, .more_ms = 1200);
    play(&scene, "up 0 1, up 1 1, up 2 1", "START 0, START 1, START 2");
    play(&scene, "gone 2", "FAIL 2, END 0, END 1");
    play(&scene, "exit 0 1, exit 1 1", "RETRY in 1000");
    wakes_in(&scene, 1200);
    play(&scene, "wait 400, gone 1", "");
    wakes_in(&scene, 600);
    play(&scene, "tick 500, up 1 1", "");
    wakes_in(&scene, 300);
    play(&scene, "up 2 1", "");
    wakes_in(&scene, 100);
    play(&scene, "tick 100", "START 0, START 1, START 2");
    scene_close(&scene);
}

static void nothing_starts_while_ranks_may_live_on_a_node_that_is_lost(void **state)
{
    (void)state;
    struct scene scene = SCENE(.n_nodes_min = 2, .n_restarts = 9, .pause_ms = 100);
    play(&scene, "up 0 1, up 1 1", "START 0, START 1");
    play(&scene, "lost 1 900, tick 300, up 1 1", "FAIL 1, END 0");
    play(&scene, "exit 0 143", "RETRY in 600 for the lost");
    play(&scene, "tick 599", "");
    play(&scene, "tick 1", "START 0, START 1");
    /* It has taken longer than that to end the others; and ranks that have ended do not live. */
    play(&scene, "lost 0 900, tick 800, exit 1 143, up 0 1", "FAIL 0, END 1, RETRY in 200");
    play(&scene, "tick 200, exit 1 0, exit 0 1, lost 1 900",
         "START 0, START 1, FAIL 0, RETRY in 400");
    /* Of two lost nodes one is known to be empty. */
    play(&scene, "tick 400, up 1 1, lost 0 9000, lost 1 900",
         "START 0, START 1, FAIL 0, END 1, RETRY in 9000 for the lost");
    play(&scene, "up 0 1, up 1 1, empty 0, tick 899", "");
    play(&scene, "tick 1", "START 0, START 1");
    scene_close(&scene);
}

static void too_few_nodes_after_a_pause_end_the_gang(void **state)
{
    (void)state;
    struct scene scene = SCENE(.n_nodes_min = 2, .n_restarts = 1, .pause_ms = 1000, .join_ms = 100);
    play(&scene, "up 0 1, up 1 1", "START 0, START 1");
    play(&scene, "gone 1, exit 0 1", "FAIL 1, END 0, RETRY in 1000");
    play(&scene, "tick 999", "");
    play(&scene, "tick 1", "OVER TOO_FEW");
    scene_close(&scene);
}

/* ---- stops ---- */

static void a_stop_while_nodes_gather_ends_the_gang_at_once(void **state)
{
    (void)state;
    struct scene scene = SCENE(.n_nodes_min = 2);
    play(&scene, "up 0 1, stop", "OVER STOPPED");
    scene_close(&scene);
    scene = SCENE(.n_restarts = 1, .pause_ms = 100);
    play(&scene, "up 0 1, exit 0 1, kill", "START 0, FAIL 0, RETRY in 100, OVER STOPPED");
    scene_close(&scene);
}

static void a_stop_ends_all_ranks_first(void **state)
{
    (void)state;
    struct scene scene = SCENE(.n_nodes_min = 2, .n_restarts = 1, .linger_ms = 10);
    play(&scene, "up 0 1, up 1 2", "START 0, START 1");
    play(&scene, "stop", "END 0, END 1");
    play(&scene, "stop, exit 1 0, tick 100", ""); /* nobody lingers now */
    play(&scene, "exit 0 143, exit 2 0", "OVER STOPPED");
    assert_int_equal(gang_view(scene.gang).first.cause, GANG_NO_CAUSE);
    scene_close(&scene);
}

static void a_second_stop_at_once_is_told_to_those_that_are_left(void **state)
{
    (void)state;
    struct scene scene = SCENE(.n_nodes_min = 2);
    play(&scene, "up 0 1, up 1 2", "START 0, START 1");
    play(&scene, "stop", "END 0, END 1");
    play(&scene, "exit 0 143", "");
    play(&scene, "kill", "END 1 at once");
    play(&scene, "kill, stop", "");
    play(&scene, "gone 1", "OVER STOPPED");
    scene_close(&scene);
}

static void a_stop_at_once_is_not_followed_by_a_polite_one(void **state)
{
    (void)state;
    struct scene scene = SCENE(.n_nodes_min = 1);
    play(&scene, "up 0 2", "START 0");
    play(&scene, "kill", "END 0 at once");
    play(&scene, "stop, exit 0 137", "");
    play(&scene, "exit 1 137", "OVER STOPPED");
    scene_close(&scene);
}

static void a_gang_that_was_stopped_too_late_has_ended_well(void **state)
{
    (void)state;
    struct scene scene = SCENE(.n_nodes_min = 1);
    play(&scene, "up 0 2", "START 0");
    play(&scene, "exit 1 0, stop", "END 0");
    play(&scene, "exit 0 0", "OVER WELL");
    scene_close(&scene);
}

static void a_stop_while_a_failed_generation_ends_leaves_no_restart(void **state)
{
    (void)state;
    struct scene scene = SCENE(.n_nodes_min = 2, .n_restarts = 5);
    play(&scene, "up 0 2, up 1 1", "START 0, START 1");
    play(&scene, "exit 0 3", "FAIL 0, END 0, END 1");
    play(&scene, "stop", ""); /* that has been said */
    play(&scene, "exit 2 0, kill", "END 0 at once");
    play(&scene, "exit 1 137", "OVER STOPPED");
    failed_by(&scene, GANG_STATUS, 0, 0, 3);
    scene_close(&scene);
}

static void nothing_happens_when_a_gang_is_over(void **state)
{
    (void)state;
    struct scene scene = SCENE(.n_restarts = 5, .join_ms = 10);
    play(&scene, "up 0 2", "START 0");
    play(&scene, "exit 0 0, exit 1 0", "OVER WELL");
    play(&scene, "tick 1000, up 1 1, gone 0, exit 0 1, stop, kill, up 0 9", "");
    assert_int_equal(gang_view(scene.gang).state, GANG_IS_OVER);
    assert_int_equal(gang_view(scene.gang).outcome, GANG_WELL);
    gang_free(NULL);
    scene_close(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_nodes_that_may_take_part_start_at_once),
        cmocka_unit_test(a_gang_wants_to_know_the_time_before_anything_else),
        cmocka_unit_test(enough_nodes_start_without_others_that_do_not_come_in_time),
        cmocka_unit_test(nodes_that_never_came_are_not_waited_for_beyond_those_that_are_awaited),
        cmocka_unit_test(others_are_waited_for_only_once_in_a_gathering),
        cmocka_unit_test(too_few_nodes_are_waited_for_until_a_time),
        cmocka_unit_test(nodes_that_become_too_few_after_that_time_are_given_up_at_once),
        cmocka_unit_test(without_such_a_time_they_are_waited_for_without_end),
        cmocka_unit_test(a_node_that_is_told_twice_counts_once),
        cmocka_unit_test(ranks_are_counted_through_the_nodes_in_order),
        cmocka_unit_test(a_node_too_many_waits_for_the_next_generation),
        cmocka_unit_test(another_count_of_places_holds_from_the_next_generation_on),
        cmocka_unit_test(a_gang_is_over_when_all_ranks_have_ended_well),
        cmocka_unit_test(an_exit_counts_once_and_only_in_its_generation),
        cmocka_unit_test(a_rank_that_fails_ends_the_others_and_all_start_again),
        cmocka_unit_test(a_gang_without_restarts_left_has_failed),
        cmocka_unit_test(after_a_failure_that_would_come_again_there_is_no_restart),
        cmocka_unit_test(a_node_that_is_lost_with_ranks_fails_its_generation),
        cmocka_unit_test(a_node_that_is_lost_when_its_ranks_have_ended_well_is_no_failure),
        cmocka_unit_test(a_rank_that_stands_still_fails_its_generation),
        cmocka_unit_test(ranks_that_end_much_later_than_the_first_are_a_failure),
        cmocka_unit_test(the_last_rank_is_in_time_if_its_end_is_told_when_the_time_is_over),
        cmocka_unit_test(nodes_that_are_lost_while_ranks_are_ended_are_not_waited_for),
        cmocka_unit_test(the_pause_doubles_up_to_64_times_its_length),
        cmocka_unit_test(a_pause_may_last_longer_than_time),
        cmocka_unit_test(a_generation_that_was_healthy_gives_all_restarts_back),
        cmocka_unit_test(the_time_until_the_failure_counts_not_that_of_the_end),
        cmocka_unit_test(nodes_gather_in_the_pause_but_nothing_is_decided_before_its_end),
        cmocka_unit_test(nothing_starts_while_ranks_may_live_on_a_node_that_is_lost),
        cmocka_unit_test(too_few_nodes_after_a_pause_end_the_gang),
        cmocka_unit_test(a_stop_while_nodes_gather_ends_the_gang_at_once),
        cmocka_unit_test(a_stop_ends_all_ranks_first),
        cmocka_unit_test(a_second_stop_at_once_is_told_to_those_that_are_left),
        cmocka_unit_test(a_stop_at_once_is_not_followed_by_a_polite_one),
        cmocka_unit_test(a_gang_that_was_stopped_too_late_has_ended_well),
        cmocka_unit_test(a_stop_while_a_failed_generation_ends_leaves_no_restart),
        cmocka_unit_test(nothing_happens_when_a_gang_is_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
