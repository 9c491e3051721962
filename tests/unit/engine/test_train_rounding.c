/* SPDX-License-Identifier: Apache-2.0
 *
 * Training whose large products are of 16 bits: how near its steps are to those of float32, what
 * is rounded and what is not, and that the error that is told is so.
 */
#include "unit/test.h"

#include <string.h>

#include "base/xalloc.h"
#include "train/rounding.h"
#include "unit/engine/train_kit.h"

/* What rounding to the nearest takes from a number at most, by that number. */
static const double units[] = {[NUM_BF16] = 0x1p-8, [NUM_FP16] = 0x1p-11};

static struct train_mode mode_in(enum num_format format)
{
    struct train_mode mode = drops[0];
    mode.format = format;
    return mode;
}

/*
 * A number goes through six products at most, each of two rounded factors, and their errors are
 * independent: sqrt(12) units, which norms and the few ReLUs that turn may double.
 */
static void gradients_are_near_the_exact_ones(void **state)
{
    (void)state;
    struct buf exact = bytes_of(&large, &drops[0], host("ref"), NUM_F64, 2);
    for (enum num_format format = NUM_BF16; format <= NUM_FP16; format++) {
        struct num_backend backends[] = {host("ref"), host(NULL), guarded(0), emulated()};
        struct train_mode mode = mode_in(format);
        for (size_t i = 0; i < countof(backends); i++) {
            struct buf found = bytes_of(&large, &mode, backends[i], NUM_F32, 1);
            double error = gradients_error(&found, NUM_F32, &exact);
            print_message("# %s, format %d: %.2f units of the gradients, %.2f of the loss\n",
                          backends[i].name, (int)format, error / units[format],
                          loss_error(&found, &exact) / units[format]);
            assert_true(error > units[format] / 10 && error < 7 * units[format]);
            assert_true(loss_error(&found, &exact) < units[format]);
            buf_release(&found);
        }
    }
    buf_release(&exact);
}

static void threads_change_no_bit(void **state)
{
    (void)state;
    for (enum num_format format = NUM_BF16; format <= NUM_FP16; format++) {
        struct train_mode mode = mode_in(format);
        struct buf once = bytes_of(&large, &mode, host(NULL), NUM_F32, 1);
        for (unsigned n_threads = 2; n_threads < 5; n_threads++) {
            struct buf again = bytes_of(&large, &mode, host(NULL), NUM_F32, n_threads);
            assert_int_equal(once.len, again.len);
            assert_memory_equal(once.at, again.at, once.len);
            buf_release(&again);
        }
        buf_release(&once);
    }
}

/* ---- what is rounded ---- */

static struct num_backend watched;
static size_t n_plain, n_rounded;

static void gemm_watched(const struct num_backend *be, const struct num_gemm *op)
{
    (void)be;
    assert_true(op->rounds == (op->format != NUM_FULL));
    n_rounded += op->rounds;
    n_plain += !op->rounds;
    watched.gemm(&watched, op);
}

static void round_refused(const struct num_backend *be, const struct num_round *op)
{
    (void)be, (void)op;
    fail_msg("weights or features were rounded where they lie");
}

/* In float32 nothing; else all products but those that are sums: of biases, by ones. */
static void large_products_are_rounded_and_nothing_else(void **state)
{
    (void)state;
    const size_t tiles = 3, columns = 3; /* of `large` */
    for (enum num_format format = NUM_FULL; format <= NUM_FP16; format++) {
        struct train_mode mode = mode_in(format);
        struct num_backend be = watched = host("ref");
        be.gemm = gemm_watched;
        be.round = round_refused;
        n_plain = n_rounded = 0;
        struct buf bytes = bytes_of(&large, &mode, be, NUM_F32, 1);
        size_t n_large = 3 * tiles + 3 * columns, n_biases = tiles + 1;
        assert_int_equal(n_rounded, format == NUM_FULL ? 0 : n_large);
        assert_int_equal(n_plain, n_biases + (format == NUM_FULL ? n_large : 0));
        buf_release(&bytes);
    }
}

/* Gradients of two batches to an update: on a device what is there goes through another array. */
static void gradients_are_added_to_what_is_there(void **state)
{
    (void)state;
    for (enum num_format format = NUM_BF16; format <= NUM_FP16; format++) {
        struct train_mode mode = mode_in(format);
        struct conve_gradients once, twice;
        struct scene scene;
        double loss = 0;
        scene_begin(&scene, &kit_shapes[1], &mode, emulated(), NUM_F32, 1);
        conve_gradients_init(&once, &kit_shapes[1], NUM_F32);
        conve_gradients_init(&twice, &kit_shapes[1], NUM_F32);
        step_run(&scene, &once);
        step_run(&scene, &twice);
        struct train_batch batch = batches_at(&scene.batches, 0);
        assert_int_equal(
            train_step_run(scene.step, &batch, scene.seed, 1, true, &twice, &loss, NULL), 0);
        for (unsigned param = 0; param < PARAM_N_TRAINED; param++) {
            size_t n = conve_param_dims(&kit_shapes[1], (enum conve_param)param).n_elements;
            const float *a = once.at[param], *b = twice.at[param];
            for (size_t i = 0; i < n; i++)
                assert_true(fabsf(b[i] - 2 * a[i]) <= 1e-6f * (fabsf(a[i]) + 1e-3f));
        }
        conve_gradients_release(&once);
        conve_gradients_release(&twice);
        scene_end(&scene);
    }
}

/* Features of 1e9 would be infinite in fp16, and weights of 1e-9 nothing. */
static double error_of_large_features(enum num_format format)
{
    struct train_mode mode = mode_in(format);
    struct conve_gradients found, expected;
    struct scene scene;
    scene_begin(&scene, &kit_shapes[3], &mode, host("ref"), NUM_F32, 1);
    struct conve *model = scene.model;
    for (size_t i = 0; i < model->shape.n_filters; i++) {
        model->at[PARAM_BN1_WEIGHT][i] *= 1e9f;
        model->at[PARAM_BN1_BIAS][i] *= 1e9f;
    }
    size_t n = conve_param_dims(&model->shape, PARAM_FC_WEIGHT).n_elements;
    for (size_t i = 0; i < n; i++)
        model->at[PARAM_FC_WEIGHT][i] *= 1e-9f;
    conve_gradients_init(&found, &model->shape, NUM_F32);
    conve_gradients_init(&expected, &model->shape, NUM_F32);
    step_run(&scene, &found);
    train_step_format(scene.step, NUM_FULL);
    step_run(&scene, &expected);
    double worst = 0;
    for (unsigned param = 0; param < PARAM_N_TRAINED; param++) {
        const float *a = found.at[param], *b = expected.at[param];
        double difference = 0, length = 0;
        n = conve_param_dims(&model->shape, (enum conve_param)param).n_elements;
        for (size_t i = 0; i < n; i++) {
            difference += pow((double)a[i] - (double)b[i], 2);
            length += pow((double)b[i], 2);
        }
        bool is_idle = param == PARAM_FC_BIAS || param == PARAM_CONV_BIAS ||
                       param == PARAM_BN0_BIAS || param == PARAM_BN0_WEIGHT; /* before a norm */
        if (n > 0 && !is_idle)
            worst = isfinite(difference) ? fmax(worst, sqrt(difference / length)) : HUGE_VAL;
    }
    conve_gradients_release(&found);
    conve_gradients_release(&expected);
    scene_end(&scene);
    return worst;
}

static void nothing_overflows_and_nothing_vanishes_in_fp16(void **state)
{
    (void)state;
    for (enum num_format format = NUM_BF16; format <= NUM_FP16; format++) {
        double error = error_of_large_features(format);
        print_message("# format %d: %.2f units of the worst parameter\n", (int)format,
                      error / units[format]);
        assert_true(error < 4 * units[format]);
    }
}

/* ---- what is told ---- */

struct training {
    struct num_backend be;
    struct thread_pool *pool;
    struct conve *model;
    struct trainer trainer;
};

/* Takes the backend. */
static void training_begin(struct training *training, enum num_format format, struct num_backend be)
{
    struct triple triples[TRIPLES];
    const struct train_opts opts = {.mode = mode_in(format),
                                    .batch_size = 16,
                                    .accumulate = 2,
                                    .learning_rate = 1e-3,
                                    .decay = 1};
    *training = (struct training){.be = be, .model = kit_model(&kit_shapes[1], 77)};
    training->pool = thread_pool_open(1);
    kit_triples(&kit_shapes[1], 5, triples, TRIPLES);
    assert_int_equal(trainer_open(&training->trainer, training->model, &opts, triples, TRIPLES,
                                  &training->be, training->pool, NULL),
                     0);
    trainer_epoch_prepare(&training->trainer);
}

static void training_run(struct training *training, size_t n_updates)
{
    struct trainer *trainer = &training->trainer;
    for (size_t i = 0; i < n_updates; i++) {
        if (trainer_epoch_is_over(trainer))
            trainer_epoch_next(trainer);
        assert_int_equal(trainer_update(trainer, NULL), 0);
    }
    assert_int_equal(trainer_fetch(trainer, NULL), 0);
}

static void training_end(struct training *training)
{
    trainer_close(&training->trainer);
    thread_pool_close(training->pool);
    conve_free(training->model);
    num_close(&training->be);
}

/* At the beginning, within an epoch, and where one is over. */
static void the_error_is_that_of_the_format_and_measuring_it_changes_nothing(void **state)
{
    (void)state;
    for (enum num_format format = NUM_BF16; format <= NUM_FP16; format++) {
        struct training one, other;
        training_begin(&one, format, emulated());
        training_begin(&other, format, guarded(0));
        for (size_t i = 0; i < 6; i++) {
            struct train_rounding error = {0}, unused;
            assert_int_equal(train_rounding_measure(&other.trainer, &unused, NULL), 0);
            assert_int_equal(train_rounding_measure(&one.trainer, &error, NULL), 0);
            assert_int_equal(train_rounding_measure(&one.trainer, &unused, NULL), 0);
            assert_true(error.gradients > 0.1 * units[format]);
            assert_true(error.gradients < 10 * units[format]);
            assert_true(error.loss > 0 && error.loss < units[format]);
            assert_true(unused.gradients == error.gradients && unused.loss == error.loss);
            training_run(&one, 1);
        }
        training_end(&other);
        training_begin(&other, format, emulated());
        training_run(&other, 6);
        for (unsigned param = 0; param < PARAM_N; param++)
            if (one.model->at[param])
                assert_memory_equal(
                    one.model->at[param], other.model->at[param],
                    conve_param_dims(&kit_shapes[1], (enum conve_param)param).n_elements *
                        sizeof(float));
        training_end(&one);
        training_end(&other);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_near_the_exact_ones),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(large_products_are_rounded_and_nothing_else),
        cmocka_unit_test(gradients_are_added_to_what_is_there),
        cmocka_unit_test(nothing_overflows_and_nothing_vanishes_in_fp16),
        cmocka_unit_test(the_error_is_that_of_the_format_and_measuring_it_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
