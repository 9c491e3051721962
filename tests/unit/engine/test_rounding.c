/* SPDX-License-Identifier: Apache-2.0
 *
 * Influences of rounded features and gradients: how far off they are, and that what is said about
 * it is so.
 */
#include "tracin/rounding.h"
#include "unit/engine/tracin_kit.h"

enum {
    SAMPLED = 16
};

static struct tracin_opts rounded_opts(enum num_format format)
{
    return (struct tracin_opts){.top_k = 10, .format = format, .n_threads = 2};
}

static struct rounding_error error_of(struct scene *scene, const struct tracin_opts *opts,
                                      size_t n_tests)
{
    struct rounding_error error;
    struct tracin_test tests[N_TESTS] = {{{0}}};
    struct err err = {0};
    for (size_t i = 0; i < N_TESTS; i++)
        tests[i].triple = scene->tests[i];
    if (rounding_measure(scene->checkpoints, 2, opts, scene->train, N_TRAIN, tests, n_tests, &error,
                         &err) != 0)
        fail_msg("%s", err.text);
    return error;
}

/* 8 significant bits a factor, four factors; cancellation may cost as much again. */
static void the_error_is_that_of_the_formats_digits(void **state)
{
    (void)state;
    const double bounds[] = {[NUM_BF16] = 0x1p-8, [NUM_FP16] = 0x1p-11};
    for (size_t shape = 0; shape < countof(kit_shapes); shape++)
        for (enum num_format format = NUM_BF16; format <= NUM_FP16; format++) {
            struct scene scene;
            scene_init(&scene, &kit_shapes[shape]);
            const struct tracin_opts opts = rounded_opts(format);
            struct rounding_error error = error_of(&scene, &opts, N_TESTS);
            print_message("# shape %zu, format %d: %.1e, at most %.1e, %zu of %zu\n", shape,
                          (int)format, error.median_relative, error.max_relative, error.n_kept,
                          error.n_strongest);
            assert_int_equal(error.n_tests, SAMPLED);
            assert_int_equal(error.n_train, N_TRAIN);
            assert_true(error.median_relative > 0 && error.median_relative < bounds[format]);
            assert_true(error.max_relative >= error.median_relative);
            assert_true(error.max_relative < 100 * bounds[format]);
            assert_int_equal(error.n_strongest, SAMPLED * 10);
            assert_true(error.n_kept * 10 >= error.n_strongest * 9);
            assert_true(error.n_kept <= error.n_strongest);
            scene_end(&scene);
        }
}

/* From whole matrices, and lengths that are the diagonal's. */
static void the_largest_error_is_found_again_in_the_matrix(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene, &kit_shapes[1]);
    const struct tracin_opts rounded = rounded_opts(NUM_BF16), full = rounded_opts(NUM_FULL);
    struct rounding_error error = error_of(&scene, &rounded, SAMPLED); /* all of them */
    struct matrix *a = matrix_of(&scene, &rounded, NULL, 0);
    struct matrix *b = matrix_of(&scene, &full, NULL, 0);
    memcpy(scene.tests, scene.train, sizeof(scene.tests)); /* for their selves */
    struct matrix *own = matrix_of(&scene, &full, NULL, 0);
    double worst = 0;
    for (size_t test = 0; test < SAMPLED; test++) {
        assert_true(a->self[test] == b->self[test]); /* nothing is rounded for these */
        for (size_t t = 0; t < N_TESTS; t++) {
            double lengths = sqrt(b->self[test] * own->selves[t]), value = b->value[test][t];
            double difference = fabs(a->value[test][t] - value);
            worst = fmax(worst, difference / fmax(fabs(value), lengths / 100));
        }
    }
    free(own);
    print_message("# %.3g among %d training triples, %.3g among all\n", worst, N_TESTS,
                  error.max_relative);
    assert_true(worst > 0 && worst <= error.max_relative * (1 + 1e-5));
    free(a);
    free(b);
    scene_end(&scene);
}

static void a_format_without_float32_is_refused(void **state)
{
    (void)state;
    struct scene scene;
    struct err err = {0};
    scene_init(&scene, &kit_shapes[0]);
    struct tracin_opts opts = rounded_opts(NUM_FP16);
    opts.dtype = NUM_F64;
    const struct tracin_test test = {scene.tests[0], NULL, 0};
    assert_int_equal(tracin_run(scene.checkpoints, 2, &opts, scene.train, N_TRAIN, &test, 1,
                                &(struct tracin_sink){0}, &err),
                     ERR_USAGE);
    assert_non_null(strstr(err.text, "goes with float32"));
    scene_end(&scene);
}

/* Features of 1e9 are infinite in fp16, but not as rows of a power of two of their own. */
static void large_features_do_not_overflow_in_fp16(void **state)
{
    (void)state;
    struct scene scene;
    scene_init(&scene, &kit_shapes[0]);
    for (size_t c = 0; c < 2; c++) {
        struct conve *model = scene.models[c];
        for (size_t i = 0; i < model->shape.n_filters; i++) {
            model->at[PARAM_BN1_WEIGHT][i] *= 1e9f;
            model->at[PARAM_BN1_BIAS][i] *= 1e9f;
        }
        size_t n = conve_param_dims(&model->shape, PARAM_FC_WEIGHT).n_elements;
        for (size_t i = 0; i < n; i++)
            model->at[PARAM_FC_WEIGHT][i] *= 1e-9f;
    }
    const struct tracin_opts opts = rounded_opts(NUM_FP16);
    struct rounding_error error = error_of(&scene, &opts, N_TESTS);
    print_message("# %.1e, at most %.1e\n", error.median_relative, error.max_relative);
    assert_true(error.median_relative < 0x1p-11 && error.max_relative < 100 * 0x1p-11);
    scene_end(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_error_is_that_of_the_formats_digits),
        cmocka_unit_test(the_largest_error_is_found_again_in_the_matrix),
        cmocka_unit_test(a_format_without_float32_is_refused),
        cmocka_unit_test(large_features_do_not_overflow_in_fp16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
