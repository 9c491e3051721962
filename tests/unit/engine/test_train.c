/* SPDX-License-Identifier: Apache-2.0
 *
 * A step of training: its gradients against differences of its own loss, the same bits for any
 * number of threads, the same numbers on devices that are played, and batches that hold each
 * question once.
 */
#include "unit/test.h"

#include <string.h>

#include "base/xalloc.h"
#include "unit/engine/train_kit.h"

static double loss_of(struct scene *scene)
{
    struct conve_gradients unused;
    conve_gradients_init(&unused, &scene->model->shape, scene->weights.dtype);
    double loss = step_run(scene, &unused);
    conve_gradients_release(&unused);
    return loss;
}

static void gradient_is_difference(struct scene *scene, const struct conve_gradients *gradients,
                                   enum conve_param param, size_t i)
{
    double *at = (double *)scene->weights.owned[param] + i, was = *at, step = 1e-5;
    *at = was + step;
    double above = loss_of(scene);
    *at = was - step;
    double below = loss_of(scene);
    *at = was;
    double expected = (above - below) / (2 * step), found = ((double *)gradients->at[param])[i];
    if (!(fabs(found - expected) <= 1e-7 * (1 + fabs(expected))))
        fail_msg("%s[%zu]: gradient %.12g, difference %.12g", conve_param_name(param, NAMING_PLAIN),
                 i, found, expected);
}

static void gradients_are_differences(void **state)
{
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct scene scene;
        struct conve_gradients gradients;
        struct rng rng = {.state = 3};
        scene_begin(&scene, &kit_shapes[i], &drops[i], host("ref"), NUM_F64, 2);
        conve_gradients_init(&gradients, &kit_shapes[i], NUM_F64);
        step_run(&scene, &gradients);
        for (unsigned param = 0; param < PARAM_N_TRAINED; param++) {
            size_t n = conve_param_dims(&kit_shapes[i], (enum conve_param)param).n_elements;
            for (size_t trial = 0; trial < MIN(n, (size_t)12); trial++)
                gradient_is_difference(&scene, &gradients, (enum conve_param)param,
                                       n <= 12 ? trial : rng_below(&rng, n));
        }
        conve_gradients_release(&gradients);
        scene_end(&scene);
    }
}

static void threads_change_no_bit(void **state)
{
    (void)state;
    static const char *const backends[] = {"ref", NULL};
    for (size_t i = 0; i < countof(backends); i++) {
        struct buf once = bytes_of(&large, &drops[0], host(backends[i]), NUM_F32, 1);
        for (unsigned n_threads = 2; n_threads < 6; n_threads++) {
            struct buf again = bytes_of(&large, &drops[0], host(backends[i]), NUM_F32, n_threads);
            assert_int_equal(once.len, again.len);
            assert_memory_equal(once.at, again.at, once.len);
            buf_release(&again);
        }
        buf_release(&once);
    }
}

static void bytes_agree(const struct buf *found, enum num_dtype dtype, double bound)
{
    struct buf exact = bytes_of(&large, &drops[0], host("ref"), NUM_F64, 2);
    double error = gradients_error(found, dtype, &exact);
    print_message("# error %.2g of the gradients\n", error);
    assert_true(error < bound && loss_error(found, &exact) < bound);
    buf_release(&exact);
}

static void backends_agree(void **state)
{
    (void)state;
    struct buf fast = bytes_of(&large, &drops[0], host(NULL), NUM_F32, 2);
    bytes_agree(&fast, NUM_F32, 1e-5);
    buf_release(&fast);
}

static void devices_agree_and_nothing_is_touched_behind_their_backs(void **state)
{
    (void)state;
    const struct {
        struct num_backend be;
        enum num_dtype dtype;
        double bound;
    } cases[] = {{guarded(0), NUM_F64, 1e-12},
                 {guarded(0), NUM_F32, 1e-5},
                 {emulated(), NUM_F64, 1e-12},
                 {emulated(), NUM_F32, 1e-5}};
    for (size_t i = 0; i < countof(cases); i++) {
        struct buf found = bytes_of(&large, &drops[0], cases[i].be, cases[i].dtype, 1);
        bytes_agree(&found, cases[i].dtype, cases[i].bound);
        buf_release(&found);
    }
}

/* After some updates. Takes the backend. */
static struct conve *trained(struct num_backend be, size_t n_updates)
{
    struct triple triples[TRIPLES];
    struct conve *model = kit_model(&kit_shapes[1], 77);
    struct thread_pool *pool = thread_pool_open(1);
    struct trainer trainer;
    const struct train_opts opts = {
        .mode = drops[0], .batch_size = 16, .accumulate = 2, .learning_rate = 1e-3, .decay = 1};
    kit_triples(&kit_shapes[1], 5, triples, TRIPLES);
    assert_int_equal(trainer_open(&trainer, model, &opts, triples, TRIPLES, &be, pool, NULL), 0);
    trainer_epoch_prepare(&trainer);
    for (size_t i = 0; i < n_updates; i++) {
        assert_int_equal(trainer_update(&trainer, NULL), 0);
        if (trainer_epoch_is_over(&trainer))
            trainer_epoch_next(&trainer);
    }
    assert_int_equal(trainer_fetch(&trainer, NULL), 0);
    trainer_close(&trainer);
    thread_pool_close(pool);
    num_close(&be);
    return model;
}

static void a_device_trains_the_same_model(void **state)
{
    (void)state;
    struct num_backend devices[] = {guarded(0), emulated()};
    struct conve *expected = trained(host("ref"), 7), *first = kit_model(&kit_shapes[1], 77);
    for (size_t d = 0; d < countof(devices); d++) {
        struct conve *found = trained(devices[d], 7);
        for (unsigned param = 0; param < PARAM_N; param++) {
            enum conve_param which = (enum conve_param)param;
            size_t n = conve_param_dims(&kit_shapes[1], which).n_elements;
            double off = 0, moved = 0;
            for (size_t i = 0; i < n; i++) {
                double to = (double)expected->at[param][i];
                off = fmax(off, fabs((double)found->at[param][i] - to));
                moved = fmax(moved, fabs(to - (double)first->at[param][i]));
            }
            /* Biases before a norm have gradients of rounding errors, which Adam makes steps of. */
            bool is_idle = which == PARAM_BN0_BIAS || which == PARAM_CONV_BIAS ||
                           which == PARAM_FC_BIAS || which == PARAM_BN1_MEAN ||
                           which == PARAM_BN2_MEAN;
            if (n > 0 && !is_idle && !(moved > 1e-4 && off <= 0.02 * moved))
                fail_msg("%s: off by %g, moved by %g", conve_param_name(which, NAMING_PLAIN), off,
                         moved);
        }
        conve_free(found);
    }
    conve_free(expected);
    conve_free(first);
}

static void a_device_without_room_is_a_sentence(void **state)
{
    (void)state;
    struct triple triples[TRIPLES];
    const struct train_opts opts = {
        .mode = drops[0], .batch_size = 16, .accumulate = 1, .learning_rate = 1e-3, .decay = 1};
    kit_triples(&kit_shapes[1], 5, triples, TRIPLES);
    for (uint64_t limit = 1 << 10; limit < 1 << 17; limit *= 2) {
        struct num_backend be = guarded(limit);
        struct conve *model = kit_model(&kit_shapes[1], 77);
        struct thread_pool *pool = thread_pool_open(1);
        struct trainer trainer;
        struct err err = {0};
        int rc = trainer_open(&trainer, model, &opts, triples, TRIPLES, &be, pool, &err);
        trainer_close(&trainer);
        thread_pool_close(pool);
        conve_free(model);
        num_close(&be); /* which finds what was not released */
        assert_true(rc == ERR_UNAVAILABLE || limit > 1 << 12);
        if (rc != 0)
            assert_non_null(strstr(err.text, "a smaller --batch-size takes less"));
    }
}

static void dropout_depends_on_the_seed_alone(void **state)
{
    (void)state;
    struct scene scene;
    scene_begin(&scene, &kit_shapes[3], &drops[0], host("ref"), NUM_F64, 2);
    double once = loss_of(&scene);
    assert_true(loss_of(&scene) == once);
    scene.seed = 10;
    assert_true(loss_of(&scene) != once);
    scene_end(&scene);
}

static int by_index(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

/* Of n triples, by threes of one head and relation: each triple of `size` a batch. */
static void batches_hold_each_question_once(void **state)
{
    (void)state;
    for (size_t n = 2; n < 40; n++)
        for (size_t size = 2; size < 12; size++)
            for (int is_grouped = 0; is_grouped < 2; is_grouped++) {
                struct triple triples[40];
                struct batches batches;
                uint32_t seen[40];
                size_t n_seen = 0;
                for (size_t i = 0; i < n; i++)
                    triples[i] = (struct triple){(uint32_t)i / 3, 1, (uint32_t)i};
                int rc = batches_init(&batches, triples, n, is_grouped, size, NULL);
                if (is_grouped && n <= 3) {
                    assert_int_equal(rc, ERR_USAGE);
                    continue;
                }
                assert_int_equal(rc, 0);
                batches_shuffle(&batches, 1, 2);
                for (size_t b = 0; b < batches.n_batches; b++) {
                    struct train_batch batch = batches_at(&batches, b);
                    assert_in_range(batch.n, 2, batches_n_max(&batches));
                    for (size_t i = 0; i < batch.n; i++)
                        for (size_t t = batch.begins[i]; t < batch.begins[i + 1]; t++) {
                            assert_int_equal(batch.positives[t] / 3, batch.questions[i].head);
                            seen[n_seen++] = batch.positives[t];
                        }
                }
                assert_int_equal(n_seen, n);
                qsort(seen, n, sizeof(*seen), by_index);
                for (size_t i = 0; i < n; i++)
                    assert_int_equal(seen[i], i);
                batches_release(&batches);
            }
}

static void epochs_have_orders_of_their_own(void **state)
{
    (void)state;
    struct batches batches;
    struct triple triples[50] = {0};
    uint32_t first[50];
    assert_int_equal(batches_init(&batches, triples, 50, false, 8, NULL), 0);
    batches_shuffle(&batches, 1, 0);
    memcpy(first, batches.order, sizeof(first));
    batches_shuffle(&batches, 1, 1);
    assert_memory_not_equal(first, batches.order, sizeof(first));
    batches_shuffle(&batches, 1, 0);
    assert_memory_equal(first, batches.order, sizeof(first));
    batches_shuffle(&batches, 2, 0);
    assert_memory_not_equal(first, batches.order, sizeof(first));
    batches_release(&batches);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_differences),
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(backends_agree),
        cmocka_unit_test(devices_agree_and_nothing_is_touched_behind_their_backs),
        cmocka_unit_test(a_device_trains_the_same_model),
        cmocka_unit_test(a_device_without_room_is_a_sentence),
        cmocka_unit_test(dropout_depends_on_the_seed_alone),
        cmocka_unit_test(batches_hold_each_question_once),
        cmocka_unit_test(epochs_have_orders_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
