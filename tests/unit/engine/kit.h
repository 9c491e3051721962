/* SPDX-License-Identifier: Apache-2.0
 *
 * Small models with random weights, for tests of the engine.
 */
#pragma once

#include <math.h>

#include "base/rng.h"
#include "conve/model.h"
#include "graph/triple.h"

static const struct conve_shape kit_shapes[] = {
    {11, 3, 4, 3, 3, 3, 3, LAYOUT_WIDTH, false, 1e-5},
    {11, 3, 2, 4, 3, 3, 3, LAYOUT_HEIGHT, true, 1e-5},
    {7, 4, 4, 5, 5, 2, 3, LAYOUT_WIDTH, true, 1e-5},
    {23, 2, 10, 20, 4, 3, 3, LAYOUT_HEIGHT, false, 1e-5},
};

/* Weights of both signs, some hundredths to one; variances above a quarter. */
static inline struct conve *kit_model(const struct conve_shape *shape, uint64_t seed)
{
    ASSERT(conve_shape_check(shape, NULL) == 0);
    struct conve *model = conve_new(shape, "random");
    struct rng rng = {.state = seed};
    for (unsigned param = 0; param < PARAM_N; param++) {
        enum conve_param which = (enum conve_param)param;
        struct conve_param_dims dims = conve_param_dims(shape, which);
        bool is_var = which == PARAM_BN0_VAR || which == PARAM_BN1_VAR || which == PARAM_BN2_VAR;
        double scale = which == PARAM_FC_WEIGHT ? 2 / sqrt((double)dims.at[1]) : 0.8;
        for (size_t i = 0; i < dims.n_elements; i++) {
            double draw = 2 * rng_unit(&rng) - 1;
            model->at[param][i] = (float)(is_var ? 0.25 + fabs(draw) : scale * draw);
        }
    }
    return model;
}

/* One in four a loop; few entities, so that rows are shared. */
static inline void kit_triples(const struct conve_shape *shape, uint64_t seed,
                               struct triple *triples, size_t n)
{
    struct rng rng = {.state = seed};
    for (size_t i = 0; i < n; i++) {
        triples[i].head = (uint32_t)rng_below(&rng, shape->n_entities);
        triples[i].relation = (uint32_t)rng_below(&rng, shape->n_relations);
        triples[i].tail = rng_below(&rng, 4) == 0 ? triples[i].head
                                                  : (uint32_t)rng_below(&rng, shape->n_entities);
    }
}
