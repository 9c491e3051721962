/* SPDX-License-Identifier: Apache-2.0
 *
 * Factorised influences against gradients of every parameter; what a run hands over, and what it
 * refuses.
 */
#include "unit/test.h"

#include <string.h>

#include "base/xalloc.h"
#include "tracin/topk.h"
#include "unit/engine/tracin_kit.h"

/* ---- exactness ---- */

static void influences_are_exact(const struct tracin_opts *opts, size_t n_checkpoints,
                                 size_t n_pairs, double bound)
{
    for (size_t i = 0; i < countof(kit_shapes); i++) {
        struct scene scene;
        struct tracin_check check;
        struct err err = {0};
        scene_init(&scene, &kit_shapes[i]);
        n_pairs = conve_dim(&kit_shapes[i]) > 100 ? n_pairs / 10 : n_pairs;
        const struct tracin_check_opts check_opts = {.n_pairs = n_pairs, .seed = 11 + i};
        if (tracin_check_run(scene.checkpoints, n_checkpoints, opts, &check_opts, scene.train,
                             N_TRAIN, scene.tests, N_TESTS, &check, &err) != 0)
            fail_msg("%s", err.text);
        assert_int_equal(check.n_pairs, n_pairs);
        print_message("# shape %zu, params %#x, %s: %.2g\n", i, opts->params,
                      opts->dtype == NUM_F64 ? "float64" : "float32", check.max_relative);
        if (!(check.max_relative <= bound))
            fail_msg("shape %zu, seed %zu: (%u %u %u) on (%u %u %u): %.12g, expected %.12g", i,
                     11 + i, check.train.head, check.train.relation, check.train.tail,
                     check.test.head, check.test.relation, check.test.tail, check.found,
                     check.expected);
        scene_end(&scene);
    }
}

static void influences_are_those_of_all_gradients_in_float64(void **state)
{
    (void)state;
    influences_are_exact(&(struct tracin_opts){.dtype = NUM_F64}, 1, 500, 1e-9);
}

static void influences_are_those_of_all_gradients_in_float32(void **state)
{
    (void)state;
    influences_are_exact(&(struct tracin_opts){.dtype = NUM_F32}, 1, 300, 1e-4);
}

static void influences_of_several_checkpoints_are_the_sum(void **state)
{
    (void)state;
    influences_are_exact(&(struct tracin_opts){.dtype = NUM_F64}, 2, 100, 1e-9);
}

static void influences_of_each_subset_are_exact(void **state)
{
    (void)state;
    for (unsigned param = 0; param <= PARAM_LAST_TRAINED; param++)
        influences_are_exact(&(struct tracin_opts){.dtype = NUM_F64, .params = 1u << param}, 1, 40,
                             1e-9);
}

static void influences_by_the_training_loss_are_exact(void **state)
{
    (void)state;
    struct tracin_opts opts = {.dtype = NUM_F64, .loss = TRACIN_ONE_VS_ALL, .label_smoothing = 0.1};
    influences_are_exact(&opts, 1, 300, 1e-9);
    opts.params = 1u << PARAM_ENTITY | 1u << PARAM_ENTITY_BIAS;
    influences_are_exact(&opts, 1, 100, 1e-9);
}

/* ---- what is handed over ---- */

/*
 * Tiles and blocks of any size, any number of threads: which pairs there are, and what the best
 * are.
 */
static void pieces_make_up_the_whole(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene, &kit_shapes[1]);
    struct tracin_opts whole = {.dtype = NUM_F64, .top_k = 25, .n_threads = 1};
    struct matrix *expected = matrix_of(&scene, &whole, NULL, 0);
    static const uint64_t memory[] = {1 << 16, 1 << 18, 1 << 20};
    for (size_t i = 0; i < countof(memory); i++) {
        struct tracin_opts cut = whole;
        cut.memory_bytes = memory[i];
        cut.n_threads = 3;
        struct tracin_plan plan;
        assert_int_equal(tracin_plan(scene.checkpoints, 2, &cut, N_TESTS, N_TRAIN, &plan, NULL), 0);
        assert_true(plan.memory_bytes <= memory[i]);
        print_message("# %zu tests at once, tiles of %zu, %u threads\n", plan.tests_at_once,
                      plan.train_tile, plan.n_threads);
        struct matrix *found = matrix_of(&scene, &cut, NULL, 0);
        for (size_t test = 0; test < N_TESTS; test++) {
            assert_int_equal(found->n_columns[test], N_TRAIN);
            for (size_t t = 0; t < N_TRAIN; t++)
                assert_true(fabs(found->value[test][t] - expected->value[test][t]) <=
                            1e-12 * (1 + fabs(expected->value[test][t])));
            for (size_t k = 0; k < 25; k++)
                assert_true(fabs(found->top[test][k].value - expected->top[test][k].value) <=
                            1e-12 * (1 + fabs(expected->top[test][k].value)));
        }
        free(found);
    }
    free(expected);
    scene_end(&scene);
}

/* A piece of the training triples that goes into its place in a matrix of all of them. */
struct session_piece {
    struct matrix *matrix;
    size_t begin;
};

static int take_piece(void *context, size_t test, size_t begin, const double *values, size_t n,
                      struct err *err)
{
    const struct session_piece *piece = context;
    (void)err;
    memcpy(&piece->matrix->value[test][piece->begin + begin], values, n * sizeof(*values));
    return 0;
}

static int refuse_row(void *context, size_t test, size_t begin, const double *values, size_t n,
                      struct err *err)
{
    (void)context, (void)test, (void)begin, (void)values, (void)n;
    return fail(err, ERR_FAILED, "no");
}

/* With all test triples in memory, whose factors are kept, and with a few at a time. */
static void pieces_of_a_session_make_up_the_run(void **state)
{
    (void)state;
    static const uint64_t memory[] = {64 << 20, 1 << 18};
    enum {
        PIECE = 256
    };
    struct scene scene;
    scene_init(&scene, &kit_shapes[1]);
    struct tracin_test tests[N_TESTS] = {{{0}}};
    for (size_t i = 0; i < N_TESTS; i++)
        tests[i].triple = scene.tests[i];
    for (size_t m = 0; m < countof(memory); m++) {
        const struct tracin_opts opts = {
            .dtype = NUM_F64, .n_threads = 2, .memory_bytes = memory[m]};
        const struct tracin_sink refusing = {.row = refuse_row};
        struct matrix *expected = matrix_of(&scene, &opts, NULL, 0);
        struct matrix *found = xcalloc(1, sizeof(*found));
        struct tracin_session *session;
        struct err err = {0};
        assert_int_equal(
            tracin_session_open(&session, scene.checkpoints, 2, &opts, PIECE, tests, N_TESTS, &err),
            0);
        for (size_t begin = 0; begin < N_TRAIN; begin += PIECE) {
            struct session_piece piece = {found, begin};
            const struct tracin_sink sink = {.context = &piece, .row = take_piece};
            size_t n = MIN((size_t)PIECE, N_TRAIN - begin);
            assert_int_equal(tracin_session_run(session, scene.train + begin, n, &refusing, &err),
                             ERR_FAILED);
            assert_int_equal(tracin_session_run(session, scene.train + begin, n, &sink, &err), 0);
        }
        tracin_session_close(session);
        for (size_t test = 0; test < N_TESTS; test++)
            for (size_t t = 0; t < N_TRAIN; t++)
                assert_true(fabs(found->value[test][t] - expected->value[test][t]) <=
                            1e-12 * (1 + fabs(expected->value[test][t])));
        free(found);
        free(expected);
    }
    scene_end(&scene);
}

static void threads_do_not_change_a_bit(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene, &kit_shapes[3]);
    struct tracin_opts opts = {.top_k = 10, .n_threads = 1, .memory_bytes = 64 << 20};
    struct matrix *one = matrix_of(&scene, &opts, NULL, 0);
    for (unsigned n = 2; n <= 5; n++) {
        opts.n_threads = n;
        struct matrix *several = matrix_of(&scene, &opts, NULL, 0);
        assert_memory_equal(one, several, sizeof(*one));
        free(several);
    }
    free(one);
    scene_end(&scene);
}

/*
 * Without rows to hand over, triples of one head and relation are put together and share their
 * features.
 */
static void what_is_shared_changes_nothing(void **state)
{
    (void)state;
    for (size_t shape = 0; shape < 3; shape++) {
        struct scene scene;
        scene_init(&scene, &kit_shapes[shape]);
        for (size_t i = 0; i < N_TRAIN; i++)
            scene.train[i].head %= 4;
        struct tracin_opts opts = {.dtype = NUM_F64, .top_k = N_TRAIN, .n_threads = 1};
        struct matrix *apart = matrix_of(&scene, &opts, NULL, 0), *shared = tops_of(&scene, &opts);
        for (size_t test = 0; test < N_TESTS; test++) {
            assert_int_equal(shared->n_top[test], N_TRAIN);
            for (size_t k = 0; k < N_TRAIN; k++) {
                const struct tracin_influence *at = &shared->top[test][k];
                double expected = apart->value[test][at->train_index];
                assert_true(fabs(at->value - expected) <= 1e-12 * (1 + fabs(expected)));
            }
        }
        opts.n_threads = 4;
        opts.dtype = NUM_F32;
        struct matrix *four = tops_of(&scene, &opts);
        opts.n_threads = 1;
        struct matrix *one = tops_of(&scene, &opts);
        assert_memory_equal(one, four, sizeof(*one));
        free(apart);
        free(shared);
        free(one);
        free(four);
        scene_end(&scene);
    }
}

static void the_best_are_those_of_the_matrix(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene, &kit_shapes[0]);
    /* The same triple twice: equal influences, of which the first counts first. */
    for (size_t i = 0; i < N_TRAIN / 2; i++)
        scene.train[N_TRAIN / 2 + i] = scene.train[i];
    for (enum tracin_order order = TRACIN_BY_MAGNITUDE; order <= TRACIN_BY_VALUE; order++) {
        struct tracin_opts opts = {.top_k = 51, .order = order};
        struct matrix *m = matrix_of(&scene, &opts, NULL, 0);
        for (size_t test = 0; test < N_TESTS; test++) {
            bool is_taken[N_TRAIN] = {false};
            assert_int_equal(m->n_top[test], 51);
            assert_true(fabs(m->self[test] - m->selves[test]) <= 1e-6 * m->self[test]);
            for (size_t k = 0; k < 51; k++) {
                size_t best = N_TRAIN;
                for (size_t t = 0; t < N_TRAIN; t++) {
                    double value = m->value[test][t];
                    double key = order == TRACIN_BY_VALUE ? value : fabs(value);
                    double kept = best == N_TRAIN ? -HUGE_VAL : m->value[test][best];
                    double best_key =
                        order == TRACIN_BY_VALUE || best == N_TRAIN ? kept : fabs(kept);
                    if (!is_taken[t] && key > best_key)
                        best = t;
                }
                is_taken[best] = true;
                assert_int_equal(m->top[test][k].train_index, best);
                assert_true(m->top[test][k].value == m->value[test][best]);
            }
        }
        free(m);
    }
    scene_end(&scene);
}

static void a_filter_leaves_out_and_changes_nothing_else(void **state)
{
    (void)state;
    struct scene scene;
    uint32_t kept[N_TRAIN / 7];
    scene_init(&scene, &kit_shapes[2]);
    for (size_t i = 0; i < countof(kept); i++)
        kept[i] = (uint32_t)(7 * i + 3);
    struct tracin_opts opts = {.top_k = N_TRAIN};
    struct matrix *all = matrix_of(&scene, &opts, NULL, 0);
    struct matrix *some = matrix_of(&scene, &opts, kept, countof(kept));
    for (size_t test = 0; test < N_TESTS; test++) {
        assert_int_equal(some->n_top[test], test % 2 ? countof(kept) : N_TRAIN);
        for (size_t t = 0; t < N_TRAIN; t++)
            if (test % 2 == 0 || (t % 7 == 3 && t / 7 < countof(kept)))
                assert_true(some->value[test][t] == all->value[test][t]);
            else
                assert_true(isnan(some->value[test][t]));
    }
    free(all);
    free(some);
    scene_end(&scene);
}

/* A triple's influence on itself is the square of its gradient: the diagonal of the matrix. */
static void self_influence_is_the_diagonal(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(kit_shapes); i++)
        for (enum tracin_loss loss = TRACIN_POSITIVE; loss <= TRACIN_ONE_VS_ALL; loss++) {
            struct scene scene;
            scene_init(&scene, &kit_shapes[i]);
            memcpy(scene.train, scene.tests, sizeof(scene.tests));
            struct tracin_opts opts = {.dtype = NUM_F64, .top_k = 1, .loss = loss};
            struct matrix *m = matrix_of(&scene, &opts, NULL, 0);
            assert_int_equal(m->n_selves, N_TESTS);
            for (size_t t = 0; t < N_TESTS; t++) {
                assert_true(fabs(m->selves[t] - m->value[t][t]) <= 1e-12 * m->value[t][t]);
                assert_true(fabs(m->self[t] - m->value[t][t]) <= 1e-12 * m->value[t][t]);
            }
            free(m);
            scene_end(&scene);
        }
}

/* ---- what is refused ---- */

static int end_early(void *context, size_t test, double self, const struct tracin_influence *at,
                     size_t n, struct err *err)
{
    (void)context, (void)self, (void)at, (void)n;
    return test == 3 ? fail(err, ERR_STOPPED, "no room for test 3") : 0;
}

struct refusal {
    const struct tracin_checkpoint *checkpoints;
    size_t n_checkpoints;
    struct tracin_opts opts;
    const struct triple *train;
    size_t n_train;
    struct tracin_test test;
    int rc;
    const char *says;
};

static void refused(struct refusal of)
{
    struct err err = {0};
    struct tracin_sink sink = {0};
    if (of.opts.top_k == 0)
        of.opts.top_k = 1;
    int rc = tracin_run(of.checkpoints, of.n_checkpoints, &of.opts, of.train, of.n_train, &of.test,
                        1, &sink, &err);
    if (rc != of.rc || !strstr(err.text, of.says))
        fail_msg("%d \"%s\", expected %d with \"%s\"", rc, err.text, of.rc, of.says);
}

static void what_does_not_fit_is_a_sentence(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene, &kit_shapes[0]);
    struct conve *other = kit_model(&kit_shapes[1], 1);
    struct tracin_checkpoint mixed[] = {scene.checkpoints[0], {other, 0.1}};
    struct tracin_checkpoint rateless[] = {{scene.models[0], 0}};
    uint32_t disorder[] = {3, 3};
    struct triple outside[] = {{0, 3, 0}};
    const struct refusal plain = {scene.checkpoints, 1, {0}, scene.train, 9,
                                  {scene.tests[0]},  0, NULL};
    struct refusal of;
    refused((of = plain, of.n_checkpoints = 0, of.rc = ERR_USAGE, of.says = "no checkpoint", of));
    refused((of = plain, of.checkpoints = rateless, of.rc = ERR_USAGE,
             of.says = "learning rate above 0", of));
    refused((of = plain, of.checkpoints = mixed, of.n_checkpoints = 2, of.rc = ERR_DATA,
             of.says = "different sizes", of));
    refused((of = plain, of.n_train = 0, of.rc = ERR_USAGE, of.says = "no training triple", of));
    refused((of = plain, of.opts.top_k = 10, of.rc = ERR_USAGE, of.says = "best 10 of 9", of));
    refused((of = plain, of.train = outside, of.n_train = 1, of.rc = ERR_DATA,
             of.says = "training triple 0: its relation is number 3, the model has 3", of));
    refused((of = plain, of.test.triple.head = 11, of.rc = ERR_DATA,
             of.says = "its head is number 11, the model has 11", of));
    refused((of = plain, of.test.train_indices = disorder, of.rc = ERR_USAGE,
             of.says = "leaves no training triple", of));
    refused((of = plain, of.test.train_indices = disorder, of.test.n_train_indices = 2,
             of.rc = ERR_USAGE, of.says = "not in order", of));
    refused(
        (of = plain, of.opts.memory_bytes = 100, of.rc = ERR_USAGE, of.says = "too little", of));
    refused((of = plain, of.opts.label_smoothing = 1, of.rc = ERR_USAGE,
             of.says = "label smoothing", of));
    conve_free(other);
    scene_end(&scene);
}

static void a_sink_that_fails_ends_the_run(void **state)
{
    (void)state;
    struct scene scene;
    struct tracin_test tests[N_TESTS] = {{{0}}};
    struct err err = {0};
    scene_init(&scene, &kit_shapes[0]);
    for (size_t i = 0; i < N_TESTS; i++)
        tests[i].triple = scene.tests[i];
    struct tracin_sink sink = {.top = end_early};
    assert_int_equal(tracin_run(scene.checkpoints, 1, &(struct tracin_opts){.top_k = 5},
                                scene.train, N_TRAIN, tests, N_TESTS, &sink, &err),
                     ERR_STOPPED);
    assert_string_equal(err.text, "no room for test 3");
    scene_end(&scene);
}

static void numbers_that_overflow_are_no_result(void **state)
{
    (void)state;
    struct scene scene;
    struct err err = {0};
    scene_init(&scene, &kit_shapes[0]);
    for (size_t i = 0; i < conve_dim(&kit_shapes[0]) * kit_shapes[0].n_entities; i++)
        scene.models[0]->at[PARAM_ENTITY][i] = (float)1e30;
    struct tracin_test test = {.triple = scene.tests[0]};
    struct tracin_sink sink = {0};
    assert_int_equal(tracin_run(scene.checkpoints, 1, &(struct tracin_opts){.top_k = 1},
                                scene.train, N_TRAIN, &test, 1, &sink, &err),
                     ERR_DATA);
    assert_non_null(strstr(err.text, "too large for this precision"));
    scene_end(&scene);
}

static void equals_go_by_index_whenever_they_came(void **state)
{
    (void)state;
    static const uint32_t arrivals[][6] = {
        {0, 1, 2, 3, 4, 5}, {5, 4, 3, 2, 1, 0}, {3, 0, 5, 1, 4, 2}};
    static const double values[] = {1, -2, 2, 2, -2, 1};
    for (size_t a = 0; a < countof(arrivals); a++) {
        struct topk top;
        topk_init(&top, 3, TRACIN_BY_MAGNITUDE);
        for (size_t i = 0; i < 6; i++)
            topk_add(&top, arrivals[a][i], values[arrivals[a][i]]);
        topk_sort(&top);
        for (uint32_t i = 0; i < 3; i++)
            assert_int_equal(top.at[i].train_index, i + 1);
        topk_release(&top);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(influences_are_those_of_all_gradients_in_float64),
        cmocka_unit_test(influences_are_those_of_all_gradients_in_float32),
        cmocka_unit_test(influences_of_several_checkpoints_are_the_sum),
        cmocka_unit_test(influences_of_each_subset_are_exact),
        cmocka_unit_test(influences_by_the_training_loss_are_exact),
        cmocka_unit_test(pieces_make_up_the_whole),
        cmocka_unit_test(pieces_of_a_session_make_up_the_run),
        cmocka_unit_test(threads_do_not_change_a_bit),
        cmocka_unit_test(what_is_shared_changes_nothing),
        cmocka_unit_test(the_best_are_those_of_the_matrix),
        cmocka_unit_test(a_filter_leaves_out_and_changes_nothing_else),
        cmocka_unit_test(self_influence_is_the_diagonal),
        cmocka_unit_test(what_does_not_fit_is_a_sentence),
        cmocka_unit_test(a_sink_that_fails_ends_the_run),
        cmocka_unit_test(numbers_that_overflow_are_no_result),
        cmocka_unit_test(equals_go_by_index_whenever_they_came),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
