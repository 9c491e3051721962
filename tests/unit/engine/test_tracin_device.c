/* SPDX-License-Identifier: Apache-2.0
 *
 * Influences on devices that are played: nothing but operations touches their memory, the kernels
 * of the GPU compute what all gradients say, and what does not fit is cut smaller.
 */
#include "unit/engine/emulated.h"
#include "unit/engine/guarded.h"
#include "unit/engine/tracin_kit.h"

/* The plain loops, behind a guard. */
static void guarded_ref_open(struct num_backend *be, const struct guarded_opts *opts)
{
    struct num_backend ref;
    assert_int_equal(num_open(&ref, "ref", NULL), 0);
    guarded_open(be, &ref, opts);
}

static void guarded_emulated_open(struct num_backend *be)
{
    struct num_backend emulated;
    emulated_open(&emulated, EMULATED_MIXED);
    guarded_open(be, &emulated, &(struct guarded_opts){0});
}

static void tops_are_equal(const struct matrix *a, const struct matrix *b)
{
    for (size_t test = 0; test < N_TESTS; test++) {
        assert_int_equal(a->n_top[test], b->n_top[test]);
        assert_true(a->self[test] == b->self[test]);
        for (size_t k = 0; k < a->n_top[test]; k++) {
            assert_int_equal(a->top[test][k].train_index, b->top[test][k].train_index);
            assert_true(a->top[test][k].value == b->top[test][k].value);
        }
    }
}

/* Rows, the strongest, selves: to the bit what the host's memory gives. */
static void same_as_on_the_host(struct tracin_opts opts, const struct conve_shape *shape)
{
    struct scene scene;
    struct num_backend ref, guarded;
    uint32_t kept[N_TRAIN / 7];
    scene_init(&scene, shape);
    for (size_t i = 0; i < N_TRAIN; i++)
        scene.train[i].head %= 5; /* features are shared */
    for (size_t i = 0; i < countof(kept); i++)
        kept[i] = (uint32_t)(7 * i + 3);
    assert_int_equal(num_open(&ref, "ref", NULL), 0);
    guarded_ref_open(&guarded, &(struct guarded_opts){0});
    opts.n_threads = 3;
    opts.backend = &ref;
    struct matrix *rows = matrix_of(&scene, &opts, kept, countof(kept));
    struct matrix *tops = tops_of(&scene, &opts);
    opts.backend = &guarded;
    struct matrix *device_rows = matrix_of(&scene, &opts, kept, countof(kept));
    struct matrix *device_tops = tops_of(&scene, &opts);
    assert_memory_equal(rows, device_rows, sizeof(*rows));
    tops_are_equal(tops, device_tops);
    num_close(&guarded);
    num_close(&ref);
    free(rows);
    free(tops);
    free(device_rows);
    free(device_tops);
    scene_end(&scene);
}

static void nothing_but_operations_touches_a_device(void **state)
{
    (void)state;
    const struct tracin_opts cases[] = {
        {.top_k = 10},
        {.top_k = 10, .order = TRACIN_BY_VALUE, .dtype = NUM_F64},
        {.top_k = 128, .loss = TRACIN_ONE_VS_ALL, .label_smoothing = 0.1},
        {.top_k = 129, .loss = TRACIN_ONE_VS_ALL, .dtype = NUM_F64},
        {.top_k = 10, .params = 1u << PARAM_FC_WEIGHT | 1u << PARAM_BN2_BIAS},
        {.top_k = 10, .format = NUM_BF16},
        {.top_k = 10, .format = NUM_FP16, .memory_bytes = 100 << 10},
        {.top_k = 10, .memory_bytes = 400 << 10}, /* several tiles, several blocks of tests, */
        {.top_k = 10, .memory_bytes = 100 << 10}, /* several pieces of these */
    };
    for (size_t shape = 0; shape < 3; shape++)
        for (size_t i = 0; i < countof(cases); i++)
            same_as_on_the_host(cases[i], &kit_shapes[shape]);
}

enum {
    N_MANY = 20000 /* three tiles of a device */
};

static struct matrix *many_tops_of(struct scene *scene, const struct triple *train,
                                   const struct tracin_opts *opts)
{
    struct matrix *matrix = xcalloc(1, sizeof(*matrix));
    struct tracin_test tests[N_TESTS] = {{{0}}};
    const struct tracin_sink sink = {.context = matrix, .top = take_top};
    struct err err = {0};
    for (size_t i = 0; i < N_TESTS; i++)
        tests[i].triple = scene->tests[i];
    if (tracin_run(scene->checkpoints, 2, opts, train, N_MANY, tests, N_TESTS, &sink, &err) != 0)
        fail_msg("%s", err.text);
    return matrix;
}

/* What one thread has asked for is finished before another one reads it, whoever is faster. */
static void threads_of_a_device_wait_for_each_other(void **state)
{
    (void)state;
    SKIP_UNDER_VALGRIND();
    struct scene scene;
    struct num_backend ref, guarded;
    struct triple *train = xcalloc(N_MANY, sizeof(*train));
    scene_init(&scene, &kit_shapes[1]);
    kit_triples(&kit_shapes[1], 9, train, N_MANY);
    assert_int_equal(num_open(&ref, "ref", NULL), 0);
    guarded_ref_open(&guarded, &(struct guarded_opts){0});
    struct tracin_opts opts = {.top_k = 10, .format = NUM_BF16, .n_threads = 3, .backend = &ref};
    struct matrix *expected = many_tops_of(&scene, train, &opts);
    opts.backend = &guarded;
    struct tracin_plan plan;
    assert_int_equal(tracin_plan(scene.checkpoints, 2, &opts, N_TESTS, N_MANY, &plan, NULL), 0);
    assert_int_equal(plan.n_threads, 3);
    for (unsigned round = 0; round < 4; round++) {
        struct matrix *found = many_tops_of(&scene, train, &opts);
        tops_are_equal(expected, found);
        free(found);
    }
    num_close(&guarded);
    num_close(&ref);
    free(expected);
    free(train);
    scene_end(&scene);
}

static void kernels_are_exact_for(const struct conve_shape *shape, uint64_t seed,
                                  const struct tracin_opts *opts, size_t n_pairs, double bound)
{
    struct scene scene;
    struct tracin_check check;
    struct num_backend be;
    struct err err = {0};
    struct tracin_opts on_device = *opts;
    const struct tracin_check_opts check_opts = {.n_pairs = n_pairs, .seed = seed};
    guarded_emulated_open(&be);
    on_device.backend = &be;
    scene_init(&scene, shape);
    if (tracin_check_run(scene.checkpoints, 2, &on_device, &check_opts, scene.train, N_TRAIN,
                         scene.tests, N_TESTS, &check, &err) != 0)
        fail_msg("%s", err.text);
    print_message("# %zu entities, seed %zu: %.2g\n", shape->n_entities, (size_t)seed,
                  check.max_relative);
    if (!(check.max_relative <= bound))
        fail_msg("seed %zu: %.12g, expected %.12g", (size_t)seed, check.found, check.expected);
    scene_end(&scene);
    num_close(&be);
}

static void kernels_are_exact(const struct tracin_opts *opts, size_t n_pairs, double bound)
{
    for (size_t i = 0; i < countof(kit_shapes); i++)
        kernels_are_exact_for(&kit_shapes[i], 21 + i, opts,
                              conve_dim(&kit_shapes[i]) > 100 ? n_pairs / 10 : n_pairs, bound);
}

static void the_kernels_give_what_all_gradients_do_in_float64(void **state)
{
    (void)state;
    kernels_are_exact(&(struct tracin_opts){.dtype = NUM_F64}, 200, 1e-9);
}

static void the_kernels_give_what_all_gradients_do_in_float32(void **state)
{
    (void)state;
    kernels_are_exact(&(struct tracin_opts){.dtype = NUM_F32}, 200, 1e-4);
}

static void the_kernels_are_exact_by_the_training_loss(void **state)
{
    (void)state;
    kernels_are_exact(
        &(struct tracin_opts){.dtype = NUM_F64, .loss = TRACIN_ONE_VS_ALL, .label_smoothing = 0.1},
        200, 1e-9);
}

/* Among many entities few pairs share one: a device computes their products one by one. */
static void the_kernels_are_exact_where_few_pairs_share_an_entity(void **state)
{
    (void)state;
    const struct conve_shape shape = {701, 3, 4, 3, 3, 3, 3, LAYOUT_WIDTH, true, 1e-5};
    kernels_are_exact_for(&shape, 25, &(struct tracin_opts){.dtype = NUM_F64}, 200, 1e-9);
}

static void a_gpu_is_exact_where_one_is(void **state)
{
    (void)state;
    struct num_backend cuda;
    struct scene scene;
    struct err err = {0};
    if (num_open_any(&cuda, "cuda", &err) != 0) {
        print_message("# skipped: %s\n", err.text);
        return;
    }
    for (size_t i = 0; i < countof(kit_shapes); i++)
        for (enum num_dtype dtype = NUM_F32; dtype <= NUM_F64; dtype++)
            for (enum tracin_loss loss = TRACIN_POSITIVE; loss <= TRACIN_ONE_VS_ALL; loss++) {
                const struct tracin_opts opts = {.dtype = dtype, .loss = loss, .backend = &cuda};
                const struct tracin_check_opts check_opts = {.n_pairs = 300, .seed = 31 + i};
                struct tracin_check check;
                scene_init(&scene, &kit_shapes[i]);
                if (tracin_check_run(scene.checkpoints, 2, &opts, &check_opts, scene.train, N_TRAIN,
                                     scene.tests, N_TESTS, &check, &err) != 0)
                    fail_msg("%s", err.text);
                print_message("# shape %zu, dtype %d, loss %d: %.2g\n", i, (int)dtype, (int)loss,
                              check.max_relative);
                if (!(check.max_relative <= (dtype == NUM_F64 ? 1e-9 : 1e-4)))
                    fail_msg("%.12g, expected %.12g", check.found, check.expected);
                scene_end(&scene);
            }
    num_close(&cuda);
}

/* ---- memory that is not there ---- */

static void note_keep(void *context, const char *text)
{
    snprintf(context, sizeof(((struct err *)0)->text), "%s", text);
}

static void what_does_not_fit_on_a_device_is_cut_smaller_with_a_word(void **state)
{
    (void)state;
    struct scene scene;
    struct num_backend be;
    char note[sizeof(((struct err *)0)->text)] = "";
    scene_init(&scene, &kit_shapes[1]);
    guarded_ref_open(&be, &(struct guarded_opts){0});
    struct tracin_opts opts = {.top_k = 10, .backend = &be, .note = note_keep};
    opts.note_context = note;
    struct matrix *expected = tops_of(&scene, &opts);
    struct tracin_plan plan;
    assert_string_equal(note, "");
    assert_int_equal(tracin_plan(scene.checkpoints, 2, &opts, N_TESTS, N_TRAIN, &plan, NULL), 0);
    num_close(&be);
    for (unsigned shift = 1; shift < 6; shift++) {
        uint64_t limit = plan.memory_bytes >> shift;
        note[0] = '\0';
        guarded_ref_open(&be, &(struct guarded_opts){.limit_bytes = limit});
        struct matrix *found = tops_of(&scene, &opts);
        print_message("# %zu KiB: %s\n", (size_t)limit >> 10, note);
        assert_non_null(strstr(note, "going on with tiles of"));
        tops_are_equal(expected, found);
        struct matrix *rows = matrix_of(&scene, &opts, NULL, 0); /* and selves */
        free(rows);
        free(found);
        num_close(&be);
    }
    free(expected);
    scene_end(&scene);
}

static void a_device_without_room_for_a_pair_is_a_sentence(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene, &kit_shapes[1]);
    const struct {
        uint64_t limit;
        const char *words;
    } cases[] = {{1 << 10, "the weights of"}, {3 << 10, "with tiles as small as they get"}};
    for (size_t i = 0; i < countof(cases); i++) {
        struct num_backend be;
        struct err err = {0};
        guarded_ref_open(&be, &(struct guarded_opts){.limit_bytes = cases[i].limit});
        const struct tracin_opts opts = {.top_k = 10, .backend = &be};
        const struct tracin_test test = {scene.tests[0], NULL, 0};
        assert_int_equal(tracin_run(scene.checkpoints, 2, &opts, scene.train, N_TRAIN, &test, 1,
                                    &(struct tracin_sink){0}, &err),
                         ERR_UNAVAILABLE);
        print_message("# %s\n", err.text);
        assert_non_null(strstr(err.text, cases[i].words));
        assert_non_null(strstr(err.text, "has no"));
        num_close(&be);
    }
    scene_end(&scene);
}

/* Any one of the allocations of a run may be the one that fails. */
static void whichever_allocation_fails_nothing_is_left(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene, &kit_shapes[0]);
    const struct tracin_test test = {scene.tests[0], NULL, 0};
    size_t n_failed = 0, n_runs = 0;
    const uint64_t step = getenv("UNDER_VALGRIND") ? 16 << 10 : 1 << 10;
    for (uint64_t limit = 1 << 10; limit <= 256 << 10; limit += step) {
        struct num_backend be;
        struct err err = {0};
        guarded_ref_open(&be, &(struct guarded_opts){.limit_bytes = limit});
        const struct tracin_opts opts = {.top_k = 1, .backend = &be, .memory_bytes = 512 << 10};
        int rc = tracin_run(scene.checkpoints, 2, &opts, scene.train, N_TRAIN, &test, 1,
                            &(struct tracin_sink){0}, &err);
        assert_true(rc == 0 || rc == ERR_UNAVAILABLE);
        n_failed += rc != 0;
        n_runs++;
        num_close(&be); /* which looks for what was not released */
    }
    assert_true(n_failed > n_runs / 50 && n_failed < n_runs);
    scene_end(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_but_operations_touches_a_device),
        cmocka_unit_test(threads_of_a_device_wait_for_each_other),
        cmocka_unit_test(the_kernels_give_what_all_gradients_do_in_float64),
        cmocka_unit_test(the_kernels_give_what_all_gradients_do_in_float32),
        cmocka_unit_test(the_kernels_are_exact_by_the_training_loss),
        cmocka_unit_test(the_kernels_are_exact_where_few_pairs_share_an_entity),
        cmocka_unit_test(a_gpu_is_exact_where_one_is),
        cmocka_unit_test(what_does_not_fit_on_a_device_is_cut_smaller_with_a_word),
        cmocka_unit_test(a_device_without_room_for_a_pair_is_a_sentence),
        cmocka_unit_test(whichever_allocation_fails_nothing_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
