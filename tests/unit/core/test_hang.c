/* SPDX-License-Identifier: Apache-2.0
 *
 * Which of several ranks hangs. Time is told in looks: in a scene, each rank is a letter for what it did until the look.
 *
 *   .  nothing, where most are     o  nothing, at another place     D  nothing, blocked in the kernel
 *   c  computed                    p  is paused                     i  read from a file
 *   g  its device was busy         f  started a process             -  has ended           ?  was not looked at
 */
#include <string.h>

#include "unit/test.h"

#include "base/attr.h"
#include "core/hang.h"

enum {
    AFTER_MS = 300000,
    RANKS_MAX = 16
};

struct scene {
    struct hang *hang;
    uint32_t n_ranks;
    uint64_t now_ms;
    struct hang_look looks[RANKS_MAX];
    struct hang_verdict verdict;
};

static struct scene scene_open(uint32_t n_ranks)
{
    struct scene scene = {
        .hang = hang_new(n_ranks, AFTER_MS, 5000), .n_ranks = n_ranks, .now_ms = 5000};
    assert_non_null(scene.hang);
    for (uint32_t i = 0; i < n_ranks; i++)
        scene.looks[i].busy_percent = -1;
    return scene;
}

static void act(struct hang_look *look, char what, uint64_t pause_ms)
{
    look->cpu_ms += what == 'c' ? pause_ms : pause_ms / 100; /* background threads */
    look->io_bytes += what == 'i' ? pause_ms * 1000 : pause_ms;
    look->family += what == 'f';
    look->place = what == 'o';
    look->is_blocked = what == 'D';
    look->is_paused = what == 'p';
    look->busy_percent = what == 'g' ? 100 : -1;
}

/* So many looks, and the verdict after each. */
static enum hang_kind play(struct scene *scene, const char *ranks, uint32_t n_looks)
{
    assert_int_equal(strlen(ranks), scene->n_ranks);
    for (uint32_t n = 0; n < n_looks; n++) {
        uint64_t every_ms = hang_every_ms(scene->hang);
        scene->now_ms += every_ms;
        for (uint32_t i = 0; i < scene->n_ranks; i++) {
            act(&scene->looks[i], ranks[i], every_ms);
            if (ranks[i] == '-')
                hang_ended(scene->hang, i, 0);
            else if (ranks[i] != '?')
                hang_looked(scene->hang, i, &scene->looks[i], scene->now_ms);
        }
        hang_judge(scene->hang, scene->now_ms, &scene->verdict);
    }
    return scene->verdict.kind;
}

/* "3", "0 2", or "" for none. */
static void names(const struct scene *scene, const char *expected)
{
    char found[12 * RANKS_MAX] = "";
    for (uint32_t i = 0; i < scene->n_ranks; i++)
        if (hang_is_named(scene->hang, i))
            snprintf(found + strlen(found), 12, "%s%u", *found ? " " : "", i);
    assert_string_equal(found, expected);
    assert_int_equal(scene->verdict.n_named, (strlen(expected) + 1) / 2);
    if (*expected)
        assert_int_equal(scene->verdict.first, (unsigned)(expected[0] - '0'));
}

#define JUDGED(ranks, kind_expected, named)                       \
    do {                                                          \
        struct scene scene = scene_open((uint32_t)strlen(ranks)); \
        assert_int_equal(play(&scene, ranks, 31), kind_expected); \
        names(&scene, named);                                     \
        hang_free(scene.hang);                                    \
    } while (0)

static void one_rank_stands_still_and_the_others_spin(void **state)
{
    (void)state;
    JUDGED("ccc.cccc", HANG_OF_SOME, "3");
    JUDGED("gg.g", HANG_OF_SOME, "2");
    JUDGED("c.", HANG_OF_SOME, "1");
    JUDGED("cc..", HANG_OF_SOME, "2 3");
}

static void all_stand_still_and_one_is_elsewhere(void **state)
{
    (void)state;
    JUDGED("...o....", HANG_OF_ALL, "3");
    JUDGED("o..o.", HANG_OF_ALL, "0 3");
    JUDGED("....", HANG_OF_ALL, "");
    JUDGED("oo..", HANG_OF_ALL, ""); /* either may be the wrong place */
    JUDGED(".", HANG_OF_ALL, "");
}

static void who_is_blocked_in_the_kernel_does_not_wait_for_other_ranks(void **state)
{
    (void)state;
    JUDGED("..D.", HANG_OF_ALL, "2");
    JUDGED("DDD.", HANG_OF_ALL, "0 1 2");
    JUDGED("oD..", HANG_OF_ALL, "1");
    JUDGED("DDDD", HANG_OF_ALL, "");
}

static void who_computes_while_most_wait_may_do_what_they_wait_for(void **state)
{
    (void)state;
    JUDGED("...c....", HANG_WAITS_FOR_WORK, "3");
    JUDGED("i...", HANG_WAITS_FOR_WORK, "0");
    JUDGED(".f..", HANG_WAITS_FOR_WORK, "1");
    JUDGED("..g.", HANG_WAITS_FOR_WORK, "2");
    JUDGED("cccc", HANG_NONE, "");
}

static void who_is_paused_does_not_hang(void **state)
{
    (void)state;
    JUDGED("..p.", HANG_IS_PAUSED, "2");
    JUDGED("cpcc", HANG_IS_PAUSED, "1");
}

static void ranks_that_have_ended_are_not_judged(void **state)
{
    (void)state;
    JUDGED("-.--", HANG_OF_ALL, "");
    JUDGED("----", HANG_NONE, "");
    JUDGED("-c-.", HANG_OF_SOME, "3");
}

static void nobody_is_judged_before_the_time_and_looks_begin_at_half_of_it(void **state)
{
    (void)state;
    struct scene scene = scene_open(4);
    assert_int_equal(hang_every_ms(scene.hang), 10000);
    assert_false(hang_wants_looks(scene.hang, 5000 + AFTER_MS / 2 - 1));
    assert_true(hang_wants_looks(scene.hang, 5000 + AFTER_MS / 2));
    assert_int_equal(play(&scene, "....", 29), HANG_NONE);
    assert_int_equal(play(&scene, "....", 1), HANG_OF_ALL);
    assert_int_equal(scene.verdict.silent_ms, AFTER_MS);
    hang_spoke(scene.hang, 2, scene.now_ms);
    assert_false(hang_wants_looks(scene.hang, scene.now_ms + 1));
    assert_int_equal(play(&scene, "....", 29), HANG_NONE);
    assert_int_equal(play(&scene, "....", 1), HANG_OF_ALL);
    assert_int_equal(hang_silent_ms(scene.hang, 2, scene.now_ms), AFTER_MS);
    assert_int_equal(hang_silent_ms(scene.hang, 1, scene.now_ms), 2 * AFTER_MS);
    hang_free(scene.hang);
}

static void who_did_something_lately_is_waited_for(void **state)
{
    (void)state;
    struct scene scene = scene_open(4);
    assert_int_equal(play(&scene, "....", 28), HANG_NONE);
    assert_int_equal(play(&scene, "..c.", 1), HANG_NONE);
    assert_int_equal(play(&scene, "....", 11), HANG_NONE);
    assert_int_equal(play(&scene, "....", 1), HANG_OF_ALL);
    hang_free(scene.hang);
}

static void who_is_not_seen_is_not_judged_and_nobody_else_either(void **state)
{
    (void)state;
    struct scene scene = scene_open(4);
    assert_int_equal(play(&scene, "...?", 40), HANG_NONE);
    assert_int_equal(play(&scene, "...o", 20), HANG_OF_ALL);
    names(&scene, "3");
    assert_int_equal(play(&scene, "...?", 3), HANG_OF_ALL);
    assert_int_equal(play(&scene, "...?", 1), HANG_NONE);
    names(&scene, "");
    assert_int_equal(play(&scene, "...o", 5), HANG_NONE); /* what it did meanwhile is not known */
    hang_free(scene.hang);
}

static void two_looks_at_one_time_say_nothing(void **state)
{
    (void)state;
    struct scene scene = scene_open(1);
    assert_int_equal(play(&scene, ".", 30), HANG_OF_ALL);
    assert_int_equal(hang_motion_of(scene.hang, 0), HANG_STILL);
    hang_looked(scene.hang, 0, &scene.looks[0], scene.now_ms);
    hang_judge(scene.hang, scene.now_ms, &scene.verdict);
    assert_int_equal(scene.verdict.kind, HANG_NONE);
    assert_int_equal(hang_motion_of(scene.hang, 0), HANG_UNKNOWN);
    hang_free(scene.hang);
}

static void times_too_short_for_looks_have_fewer(void **state)
{
    (void)state;
    struct hang *hang = hang_new(1, 400, 0);
    assert_int_equal(hang_every_ms(hang), 100);
    hang_free(hang);
    hang_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_stands_still_and_the_others_spin),
        cmocka_unit_test(all_stand_still_and_one_is_elsewhere),
        cmocka_unit_test(who_is_blocked_in_the_kernel_does_not_wait_for_other_ranks),
        cmocka_unit_test(who_computes_while_most_wait_may_do_what_they_wait_for),
        cmocka_unit_test(who_is_paused_does_not_hang),
        cmocka_unit_test(ranks_that_have_ended_are_not_judged),
        cmocka_unit_test(nobody_is_judged_before_the_time_and_looks_begin_at_half_of_it),
        cmocka_unit_test(who_did_something_lately_is_waited_for),
        cmocka_unit_test(who_is_not_seen_is_not_judged_and_nobody_else_either),
        cmocka_unit_test(two_looks_at_one_time_say_nothing),
        cmocka_unit_test(times_too_short_for_looks_have_fewer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
