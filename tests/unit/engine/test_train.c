/* SPDX-License-Identifier: Apache-2.0
 *
 * A step of training: its gradients against differences of its own loss, the same bits for any
 * number of threads, and batches that hold each question once.
 */
#include "unit/test.h"

#include <string.h>

#include "base/xalloc.h"
#include "train/batches.h"
#include "unit/engine/kit.h"

enum {
    TRIPLES = 90,
    BATCH = 40 /* more than one piece of rows */
};

struct scene {
    struct num_backend be;
    struct crew *crew;
    struct conve *model;
    struct conve_weights weights;
    struct batches batches;
    struct train_step *step;
    uint64_t seed;
};

static const struct train_mode drops[] = {
    {{0.2, 0.3, 0.3}, true, 0.1},
    {{0.2, 0.3, 0.3}, false, 0},
    {{0, 0, 0}, false, 0.1},
};

static void scene_begin(struct scene *scene, const struct conve_shape *shape,
                        const struct train_mode *mode, const char *backend, enum num_dtype dtype,
                        unsigned n_threads)
{
    struct triple triples[TRIPLES];
    *scene = (struct scene){.seed = 9};
    assert_int_equal(num_open(&scene->be, backend, NULL), 0);
    scene->crew = crew_open(n_threads);
    scene->model = kit_model(shape, 77);
    conve_weights_init(&scene->weights, scene->model, dtype);
    kit_triples(shape, 5, triples, TRIPLES);
    assert_int_equal(batches_init(&scene->batches, triples, TRIPLES, true, BATCH, NULL), 0);
    scene->step = train_step_new(&scene->be, scene->crew, &scene->weights, mode,
                                 batches_n_max(&scene->batches));
}

static void scene_end(struct scene *scene)
{
    train_step_free(scene->step);
    batches_release(&scene->batches);
    conve_weights_release(&scene->weights);
    conve_free(scene->model);
    crew_close(scene->crew);
    num_close(&scene->be);
}

static double loss_of(struct scene *scene, struct conve_gradients *gradients)
{
    struct train_batch batch = batches_at(&scene->batches, 0);
    struct conve_gradients unused;
    if (gradients)
        return train_step_run(scene->step, &batch, scene->seed, 1, false, gradients);
    conve_gradients_init(&unused, &scene->model->shape, scene->weights.dtype);
    double loss = train_step_run(scene->step, &batch, scene->seed, 1, false, &unused);
    conve_gradients_release(&unused);
    return loss;
}

static void gradient_is_difference(struct scene *scene, const struct conve_gradients *gradients,
                                   enum conve_param param, size_t i)
{
    double *at = (double *)scene->weights.owned[param] + i, was = *at, step = 1e-5;
    *at = was + step;
    double above = loss_of(scene, NULL);
    *at = was - step;
    double below = loss_of(scene, NULL);
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
        scene_begin(&scene, &kit_shapes[i], &drops[i], "ref", NUM_F64, 2);
        conve_gradients_init(&gradients, &kit_shapes[i], NUM_F64);
        loss_of(&scene, &gradients);
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

/* All gradients and the loss as bytes. */
static struct buf bytes_of(const struct conve_shape *shape, const char *backend,
                           enum num_dtype dtype, unsigned n_threads)
{
    struct buf bytes = BUF_INIT;
    struct scene scene;
    struct conve_gradients gradients;
    scene_begin(&scene, shape, &drops[0], backend, dtype, n_threads);
    conve_gradients_init(&gradients, shape, dtype);
    double loss = loss_of(&scene, &gradients);
    buf_add(&bytes, &loss, sizeof(loss));
    for (unsigned param = 0; param < PARAM_N_TRAINED; param++)
        if (gradients.at[param])
            buf_add(&bytes, gradients.at[param],
                    conve_param_dims(shape, (enum conve_param)param).n_elements * num_bytes(dtype));
    conve_gradients_release(&gradients);
    scene_end(&scene);
    return bytes;
}

/* Several tiles of entities, and several of fc's columns. */
static const struct conve_shape large = {2500, 3, 10, 20, 8, 3, 3, LAYOUT_HEIGHT, true, 1e-5};

static void threads_change_no_bit(void **state)
{
    (void)state;
    static const char *const backends[] = {"ref", NULL};
    for (size_t i = 0; i < countof(backends); i++) {
        struct buf once = bytes_of(&large, backends[i], NUM_F32, 1);
        for (unsigned n_threads = 2; n_threads < 6; n_threads++) {
            struct buf again = bytes_of(&large, backends[i], NUM_F32, n_threads);
            assert_int_equal(once.len, again.len);
            assert_memory_equal(once.at, again.at, once.len);
            buf_release(&again);
        }
        buf_release(&once);
    }
}

static void backends_agree(void **state)
{
    (void)state;
    struct buf fast = bytes_of(&large, NULL, NUM_F32, 2);
    struct buf exact = bytes_of(&large, "ref", NUM_F64, 2);
    double difference = 0, length = 0;
    const float *a = (const float *)(const void *)(fast.at + sizeof(double));
    const double *b = (const double *)(const void *)exact.at + 1;
    for (size_t i = 0; i < (fast.len - sizeof(double)) / sizeof(float); i++) {
        difference += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        length += b[i] * b[i];
    }
    print_message("# error %.2g of the gradients\n", sqrt(difference / length));
    assert_true(sqrt(difference / length) < 1e-5);
    assert_true(fabs(*(double *)(void *)fast.at - *(double *)(void *)exact.at) <
                1e-6 * *(double *)(void *)exact.at);
    buf_release(&fast);
    buf_release(&exact);
}

static void dropout_depends_on_the_seed_alone(void **state)
{
    (void)state;
    struct scene scene;
    scene_begin(&scene, &kit_shapes[3], &drops[0], "ref", NUM_F64, 2);
    double once = loss_of(&scene, NULL);
    assert_true(loss_of(&scene, NULL) == once);
    scene.seed = 10;
    assert_true(loss_of(&scene, NULL) != once);
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
        cmocka_unit_test(dropout_depends_on_the_seed_alone),
        cmocka_unit_test(batches_hold_each_question_once),
        cmocka_unit_test(epochs_have_orders_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
