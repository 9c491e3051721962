/* SPDX-License-Identifier: Apache-2.0
 *
 * Two checkpoints, training and test triples, and everything that a run hands over about them.
 */
#pragma once

#include "unit/test.h"

#include <string.h>

#include "base/xalloc.h"
#include "tracin/tracin.h"
#include "unit/engine/kit.h"

enum {
    N_TRAIN = 600,
    N_TESTS = 40
};

struct scene {
    struct conve *models[2];
    struct tracin_checkpoint checkpoints[2];
    struct triple train[N_TRAIN], tests[N_TESTS];
};

static inline void scene_init(struct scene *scene, const struct conve_shape *shape)
{
    for (size_t i = 0; i < 2; i++) {
        scene->models[i] = kit_model(shape, 100 + i);
        scene->checkpoints[i] = (struct tracin_checkpoint){scene->models[i], 0.1 / (double)(i + 1)};
    }
    kit_triples(shape, 1, scene->train, N_TRAIN);
    kit_triples(shape, 2, scene->tests, N_TESTS);
}

static inline void scene_end(struct scene *scene)
{
    conve_free(scene->models[0]);
    conve_free(scene->models[1]);
}

struct matrix {
    double value[N_TESTS][N_TRAIN], self[N_TESTS], selves[N_TRAIN];
    struct tracin_influence top[N_TESTS][N_TRAIN];
    size_t n_top[N_TESTS], n_columns[N_TESTS], n_selves;
};

static inline int take_row(void *context, size_t test, size_t begin, const double *values, size_t n,
                           struct err *err)
{
    struct matrix *matrix = context;
    (void)err;
    assert_int_equal(begin, matrix->n_columns[test]);
    memcpy(&matrix->value[test][begin], values, n * sizeof(*values));
    matrix->n_columns[test] += n;
    return 0;
}

static inline int take_top(void *context, size_t test, double self,
                           const struct tracin_influence *at, size_t n, struct err *err)
{
    struct matrix *matrix = context;
    (void)err;
    matrix->self[test] = self;
    matrix->n_top[test] = n;
    memcpy(matrix->top[test], at, n * sizeof(*at));
    return 0;
}

static inline int take_selves(void *context, size_t begin, const double *values, size_t n,
                              struct err *err)
{
    struct matrix *matrix = context;
    (void)err;
    assert_int_equal(begin, matrix->n_selves);
    memcpy(&matrix->selves[begin], values, n * sizeof(*values));
    matrix->n_selves += n;
    return 0;
}

static inline struct matrix *matrix_of(struct scene *scene, const struct tracin_opts *opts,
                                       const uint32_t *indices, size_t n_indices)
{
    struct matrix *matrix = xcalloc(1, sizeof(*matrix));
    struct tracin_test tests[N_TESTS];
    struct err err = {0};
    for (size_t i = 0; i < N_TESTS; i++)
        tests[i] =
            (struct tracin_test){scene->tests[i], i % 2 ? indices : NULL, i % 2 ? n_indices : 0};
    struct tracin_sink sink = {.context = matrix, .top = take_top, .row = take_row};
    if (tracin_run(scene->checkpoints, 2, opts, scene->train, N_TRAIN, tests, N_TESTS, &sink,
                   &err) != 0 ||
        tracin_self(scene->checkpoints, 2, opts, scene->tests, N_TESTS, take_selves, matrix,
                    &err) != 0)
        fail_msg("%s", err.text);
    return matrix;
}

static inline struct matrix *tops_of(struct scene *scene, const struct tracin_opts *opts)
{
    struct matrix *matrix = xcalloc(1, sizeof(*matrix));
    struct tracin_test tests[N_TESTS] = {{{0}}};
    struct tracin_sink sink = {.context = matrix, .top = take_top};
    struct err err = {0};
    for (size_t i = 0; i < N_TESTS; i++)
        tests[i].triple = scene->tests[i];
    if (tracin_run(scene->checkpoints, 2, opts, scene->train, N_TRAIN, tests, N_TESTS, &sink,
                   &err) != 0)
        fail_msg("%s", err.text);
    return matrix;
}
