/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps of training over small models, for tests of them.
 */
#pragma once

#include "unit/test.h"

#include "base/buf.h"
#include "train/trainer.h"
#include "unit/engine/emulated.h"
#include "unit/engine/guarded.h"
#include "unit/engine/kit.h"

enum {
    TRIPLES = 90,
    BATCH = 40 /* more than one piece of rows */
};

struct scene {
    struct num_backend be;
    struct thread_pool *pool;
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

/* Takes the backend. */
static inline void scene_begin(struct scene *scene, const struct conve_shape *shape,
                               const struct train_mode *mode, struct num_backend be,
                               enum num_dtype dtype, unsigned n_threads)
{
    struct triple triples[TRIPLES];
    *scene = (struct scene){.be = be, .seed = 9};
    scene->pool = thread_pool_open(n_threads);
    scene->model = kit_model(shape, 77);
    assert_int_equal(conve_weights_open(&scene->weights, scene->model, dtype, &scene->be, NULL), 0);
    kit_triples(shape, 5, triples, TRIPLES);
    assert_int_equal(batches_init(&scene->batches, triples, TRIPLES, true, BATCH, NULL), 0);
    const struct train_limits limits = batches_limits(&scene->batches);
    assert_int_equal(
        train_step_new(&scene->step, &scene->be, scene->pool, &scene->weights, mode, &limits, NULL),
        0);
}

static inline struct num_backend host(const char *name)
{
    struct num_backend be;
    assert_int_equal(num_open(&be, name, NULL), 0);
    return be;
}

static inline struct num_backend guarded(uint64_t limit_bytes)
{
    struct num_backend be, inner = host("ref");
    guarded_open(&be, &inner, &(struct guarded_opts){.limit_bytes = limit_bytes});
    return be;
}

static inline struct num_backend emulated(void)
{
    struct num_backend be;
    emulated_open(&be, EMULATED_MIXED);
    return be;
}

static inline void scene_end(struct scene *scene)
{
    train_step_free(scene->step);
    batches_release(&scene->batches);
    conve_weights_close(&scene->weights, &scene->be);
    conve_free(scene->model);
    thread_pool_close(scene->pool);
    num_close(&scene->be);
}

static inline double step_run(struct scene *scene, struct conve_gradients *gradients)
{
    struct train_batch batch = batches_at(&scene->batches, 0);
    double loss = 0;
    assert_int_equal(
        train_step_run(scene->step, &batch, scene->seed, 1, false, gradients, &loss, NULL), 0);
    return loss;
}

/* The loss and all gradients as bytes. Takes the backend. */
static inline struct buf bytes_of(const struct conve_shape *shape, const struct train_mode *mode,
                                  struct num_backend be, enum num_dtype dtype, unsigned n_threads)
{
    struct buf bytes = BUF_INIT;
    struct scene scene;
    struct conve_gradients gradients;
    scene_begin(&scene, shape, mode, be, dtype, n_threads);
    assert_int_equal(conve_gradients_open(&gradients, &scene.be, shape, dtype, NULL), 0);
    double loss = step_run(&scene, &gradients);
    buf_add(&bytes, &loss, sizeof(loss));
    for (unsigned param = 0; param < PARAM_N_TRAINED; param++) {
        size_t size =
            conve_param_dims(shape, (enum conve_param)param).n_elements * num_bytes(dtype);
        buf_reserve(&bytes, size);
        if (gradients.at[param])
            assert_int_equal(
                scene.be.download(&scene.be, bytes.at + bytes.len, gradients.at[param], size, NULL),
                0);
        bytes.len += gradients.at[param] ? size : 0;
    }
    conve_gradients_close(&gradients, &scene.be);
    scene_end(&scene);
    return bytes;
}

/* Several tiles of entities, and several of fc's columns. */
static const struct conve_shape large = {2500, 3, 10, 20, 8, 3, 3, LAYOUT_HEIGHT, true, 1e-5};

/* The length of the difference of all gradients, by that of what is expected in float64. */
static inline double gradients_error(const struct buf *found, enum num_dtype dtype,
                                     const struct buf *exact)
{
    double difference = 0, length = 0;
    const double *expected = (const double *)(const void *)exact->at;
    const void *at = found->at + sizeof(double);
    size_t n = exact->len / sizeof(double) - 1;
    assert_int_equal(found->len, sizeof(double) + n * num_bytes(dtype));
    for (size_t i = 0; i < n; i++) {
        double value = dtype == NUM_F64 ? ((const double *)at)[i] : (double)((const float *)at)[i];
        difference += (value - expected[i + 1]) * (value - expected[i + 1]);
        length += expected[i + 1] * expected[i + 1];
    }
    return sqrt(difference / length);
}

static inline double loss_error(const struct buf *found, const struct buf *exact)
{
    return fabs(
        *(const double *)(const void *)found->at / *(const double *)(const void *)exact->at - 1);
}
