/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "graph/ranks.h"

enum {
    N_ENTITIES = 7,
    N_RELATIONS = 2,
    N_TRUE = 30
};

static void rank_is(double expected, uint32_t answer, struct known_answers known,
                    enum rank_ties ties)
{
    static const float scores[] = {5, 3, 3, 9, 3, -INFINITY, 1};
    double rank = 0;
    assert_int_equal(rank_of(scores, countof(scores), answer, SIDE_TAIL, known, ties, &rank, NULL),
                     0);
    assert_true(rank == expected);
}

static void a_rank_counts_what_is_better_and_its_share_of_what_is_equal(void **state)
{
    (void)state;
    const struct known_answers none = {0};
    rank_is(1, 3, none, TIES_MEAN);
    rank_is(2, 0, none, TIES_MEAN);
    rank_is(4, 2, none, TIES_MEAN);
    rank_is(3, 2, none, TIES_OPTIMISTIC);
    rank_is(5, 2, none, TIES_PESSIMISTIC);
    rank_is(7, 5, none, TIES_MEAN);
}

static void other_true_answers_do_not_count_against_one(void **state)
{
    (void)state;
    static const struct triple known[] = {{0, 0, 1}, {0, 0, 2}, {0, 0, 3}, {0, 0, 6}};
    const struct known_answers answers = {known, countof(known)};
    rank_is(2.5, 2, answers, TIES_MEAN); /* 0 is better, 4 is equal; 1 and 3 are true */
    rank_is(2, 2, answers, TIES_OPTIMISTIC);
    rank_is(3, 2, answers, TIES_PESSIMISTIC);
    rank_is(3, 6, answers, TIES_MEAN); /* 0 and 4 are better */
}

static void a_score_that_is_no_number_is_an_error(void **state)
{
    (void)state;
    static const float scores[] = {1, NAN};
    double rank;
    struct err err = {0};
    const struct known_answers none = {0};
    assert_int_equal(rank_of(scores, 2, 0, SIDE_HEAD, none, TIES_MEAN, &rank, &err), ERR_DATA);
    assert_non_null(strstr(err.text, "not a number"));
}

/* A model that has few different scores, and so many ties. */
static float stub_score(struct triple triple)
{
    return (float)(mix64(triple.head * 49 + triple.relation * 7 + triple.tail) % 4);
}

static int stub_scores(void *context, enum rank_side side, const struct triple *questions, size_t n,
                       float *scores, struct err *err)
{
    (void)err;
    size_t *n_asked = context;
    *n_asked += n;
    for (size_t i = 0; i < n; i++) {
        for (uint32_t e = 0; e < N_ENTITIES; e++) {
            struct triple asked = questions[i];
            *(side == SIDE_TAIL ? &asked.tail : &asked.head) = e;
            scores[i * N_ENTITIES + e] = stub_score(asked);
        }
    }
    return 0;
}

static bool is_true(const struct triple *all, struct triple triple)
{
    for (size_t i = 0; i < N_TRUE; i++)
        if (memcmp(&all[i], &triple, sizeof(triple)) == 0)
            return true;
    return false;
}

/* The mean of the best and the worst place that the answer has in some order by scores. */
static double naive_rank(const struct triple *all, struct triple test, bool asks_head)
{
    double best = 1, worst = 1;
    for (uint32_t e = 0; e < N_ENTITIES; e++) {
        struct triple other = test;
        *(asks_head ? &other.head : &other.tail) = e;
        if (is_true(all, other))
            continue;
        best += stub_score(other) > stub_score(test);
        worst += stub_score(other) >= stub_score(test);
    }
    return (best + worst) / 2;
}

static void on_progress(void *context, uint64_t n_done, uint64_t n_questions)
{
    uint64_t *said = context;
    assert_true(n_done > *said && n_questions == 20);
    *said = n_done;
}

static void metrics_agree_with_a_look_at_every_triple(void **state)
{
    (void)state;
    struct rng rng = {3};
    struct triple all[N_TRUE];
    for (size_t i = 0; i < N_TRUE; i++)
        all[i] = (struct triple){(uint32_t)rng_below(&rng, N_ENTITIES),
                                 (uint32_t)rng_below(&rng, N_RELATIONS),
                                 (uint32_t)rng_below(&rng, N_ENTITIES)};
    struct known known;
    known_build(&known, all, N_TRUE);
    double reciprocal[2] = {0}, hits1 = 0, mean = 0;
    for (size_t i = 0; i < 10; i++) {
        for (int head = 0; head < 2; head++) {
            double rank = naive_rank(all, all[i], head);
            reciprocal[head] += 1 / rank / 10;
            mean += rank / 20;
            hits1 += (rank <= 1) / 20.0;
        }
    }
    for (size_t at_once = 1; at_once <= 11; at_once += 5) {
        struct rank_metrics metrics[SIDE_N + 1];
        size_t n_asked = 0;
        uint64_t said = 0;
        const struct ranks_opts opts = {.n_entities = N_ENTITIES,
                                        .known = &known,
                                        .questions_at_once = at_once,
                                        .progress = on_progress,
                                        .progress_context = &said};
        assert_int_equal(ranks_run(&opts, all, 10, stub_scores, &n_asked, metrics, NULL), 0);
        assert_int_equal(n_asked, 20);
        assert_int_equal(said, 20);
        assert_int_equal(metrics[SIDE_N].n, 20);
        assert_true(fabs(metrics[SIDE_TAIL].mean_reciprocal - reciprocal[0]) < 1e-12);
        assert_true(fabs(metrics[SIDE_HEAD].mean_reciprocal - reciprocal[1]) < 1e-12);
        assert_true(fabs(metrics[SIDE_N].mean - mean) < 1e-12);
        assert_true(fabs(metrics[SIDE_N].hits[0] - hits1) < 1e-12);
        assert_true(metrics[SIDE_N].hits[2] == 1); /* of 7 entities nobody is 11th */
    }
    known_release(&known);
}

static void heads_may_be_left_out_and_nothing_filtered(void **state)
{
    (void)state;
    const struct triple tests[] = {{0, 0, 1}, {1, 0, 2}};
    struct rank_metrics metrics[SIDE_N + 1];
    size_t n_asked = 0;
    const struct ranks_opts opts = {.n_entities = N_ENTITIES, .tails_only = true};
    assert_int_equal(ranks_run(&opts, tests, 2, stub_scores, &n_asked, metrics, NULL), 0);
    assert_int_equal(n_asked, 2);
    assert_int_equal(metrics[SIDE_HEAD].n, 0);
    assert_true(metrics[SIDE_TAIL].mean == metrics[SIDE_N].mean && metrics[SIDE_TAIL].mean >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_counts_what_is_better_and_its_share_of_what_is_equal),
        cmocka_unit_test(other_true_answers_do_not_count_against_one),
        cmocka_unit_test(a_score_that_is_no_number_is_an_error),
        cmocka_unit_test(metrics_agree_with_a_look_at_every_triple),
        cmocka_unit_test(heads_may_be_left_out_and_nothing_filtered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
