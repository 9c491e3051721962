/* SPDX-License-Identifier: Apache-2.0
 *
 * What of the lines of several ranks is shown.
 */
#include <string.h>

#include "unit/test.h"

#include "base/attr.h"
#include "base/cleanup.h"
#include "launch/fold.h"

static void normalises(const char *line, const char *expected)
{
    cleanup_buf struct buf out = BUF_INIT;
    fold_normalise(&out, str_of(line), 4711);
    assert_string_equal(buf_text(&out), expected);
}

static void what_differs_between_ranks_is_not_compared(void **state)
{
    (void)state;
    normalises("", "");
    normalises("[rank3]: Traceback (most recent call last):",
               "[rank#]: Traceback (most recent call last):");
    normalises("Rank 12 of WORLD_SIZE 16, LOCAL_RANK=4", "Rank # of WORLD_SIZE 16, LOCAL_RANK=#");
    normalises("tensor on cuda:7, GPU 0, device=3", "tensor on cuda:#, GPU #, device=#");
    normalises("object at 0x7f3aB0>, 0xg", "object at #>, #g");
    normalises("2026-11-24 20:33:01,123 pid 99: 4711", "# # pid #: #");
    normalises("[W1124 20:33:01.123456789 x.cpp:1234]", "[W1124 # x.cpp:1234]");
    normalises("  File \"train2.py\", line 3, in main\r", "  File \"train2.py\", line 3, in main");
    normalises("loss 0.513 at step 47111", "loss 0.513 at step 47111");
    normalises("x20:33:01", "x20:33:01");
}

struct scene {
    struct fold *fold;
    uint64_t now_ms;
};

static bool is_echo(struct scene *scene, uint32_t rank, const char *line)
{
    return fold_takes(scene->fold, rank, 1000 + rank, str_of(line), scene->now_ms);
}

static void notes(struct scene *scene, bool is_end, uint32_t n_ranks, uint32_t n_least,
                  uint32_t n_most)
{
    struct fold_note note;
    assert_true(fold_note(scene->fold, scene->now_ms, is_end, &note));
    assert_int_equal(note.n_ranks, n_ranks);
    assert_int_equal(note.n_least, n_least);
    assert_int_equal(note.n_most, n_most);
    assert_false(fold_note(scene->fold, scene->now_ms + 1000, true, &note));
}

static void one_traceback_of_several_is_shown_however_they_are_mixed(void **state)
{
    (void)state;
    static const char *const lines[] = {"Traceback:", "  File a, line 1", "  File b, line 2", "",
                                        "Error: rank "};
    struct scene scene = {fold_new(8), 1000};
    size_t at[8] = {0};
    unsigned n_shown = 0, turn = 0;
    for (size_t n_told = 0; n_told < 8 * countof(lines); turn = turn * 5 + 3) {
        uint32_t rank = turn / 7 % 8;
        char line[64];
        while (at[rank] == countof(lines))
            rank = (rank + 1) % 8;
        bool is_last = at[rank] + 1 == countof(lines);
        snprintf(line, sizeof(line), "%s%.0u", lines[at[rank]], is_last ? rank + 1 : 0);
        at[rank]++;
        n_shown += !is_echo(&scene, rank, line);
        n_told++;
    }
    assert_in_range(n_shown, 5, 6); /* an empty line may be shown twice */
    struct fold_note note;
    assert_false(fold_note(scene.fold, scene.now_ms, false, &note));
    scene.now_ms += 400;
    assert_true(fold_note(scene.fold, scene.now_ms, false, &note));
    assert_in_range(note.n_ranks, 7, 8);
    fold_free(scene.fold);
}

static void a_rank_alone_may_say_the_same_as_often_as_it_likes(void **state)
{
    (void)state;
    struct scene scene = {fold_new(2), 1000};
    struct fold_note note;
    for (int i = 0; i < 2000; i++)
        assert_false(is_echo(&scene, 0, "again"));
    assert_false(fold_note(scene.fold, 5000, true, &note));
    fold_free(scene.fold);
}

static void each_line_is_repeated_once_and_in_order(void **state)
{
    (void)state;
    struct scene scene = {fold_new(3), 1000};
    assert_false(is_echo(&scene, 0, "a"));
    assert_false(is_echo(&scene, 0, "b"));
    assert_true(is_echo(&scene, 1, "b"));
    assert_false(is_echo(&scene, 1, "a")); /* it was before b */
    assert_true(is_echo(&scene, 2, "a"));
    assert_true(is_echo(&scene, 2, "b"));
    assert_true(is_echo(&scene, 2, "a")); /* that of rank 1 */
    assert_false(is_echo(&scene, 2, "a"));
    notes(&scene, true, 2, 1, 3);
    fold_free(scene.fold);
}

static void what_comes_later_is_no_echo(void **state)
{
    (void)state;
    struct scene scene = {fold_new(3), 1000};
    assert_false(is_echo(&scene, 0, "step 1"));
    scene.now_ms += 5000;
    assert_true(is_echo(&scene, 1, "step 1"));
    scene.now_ms += 1;
    assert_false(is_echo(&scene, 2, "step 1"));
    assert_false(is_echo(&scene, 1, "step 2"));
    assert_false(is_echo(&scene, 0, ""));
    assert_false(is_echo(&scene, 1, "")); /* not behind an echo */
    notes(&scene, true, 1, 1, 1);
    for (int i = 0; i < 512; i++)
        assert_false(is_echo(&scene, 0, "much else"));
    assert_false(is_echo(&scene, 2, "step 2"));
    fold_free(scene.fold);
    fold_free(NULL);
}

static bool alike(const char *a, const char *b, size_t n_lines)
{
    return fold_ends_alike(str_of(a), 10, str_of(b), 11, n_lines);
}

static void last_words_are_compared_alike(void **state)
{
    (void)state;
    assert_true(alike("x\nError on rank 1\n", "y\nError on rank 2\n", 1));
    assert_true(alike("x\nError on rank 1", "y\nError on rank 2", 1));
    assert_false(alike("x\nError on rank 1\n", "y\nError on rank 2\n", 2));
    assert_true(alike("pid 10: 10\nb\n", "pid 11: 11\nb\n", 12));
    assert_false(alike("a\n", "", 12));
    assert_false(alike("", "", 12));
    assert_false(alike("a\nb\n", "b\n", 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_differs_between_ranks_is_not_compared),
        cmocka_unit_test(one_traceback_of_several_is_shown_however_they_are_mixed),
        cmocka_unit_test(a_rank_alone_may_say_the_same_as_often_as_it_likes),
        cmocka_unit_test(each_line_is_repeated_once_and_in_order),
        cmocka_unit_test(what_comes_later_is_no_echo),
        cmocka_unit_test(last_words_are_compared_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
