/* SPDX-License-Identifier: Apache-2.0
 *
 * What a set of parameters needs of each triple, and the memory for it.
 */
#include <stdlib.h>

#include "base/xalloc.h"
#include "tracin/factor.h"

/* ---- what is needed ---- */

static bool is_small(unsigned param)
{
    return param != PARAM_ENTITY && param != PARAM_RELATION && param != PARAM_ENTITY_BIAS &&
           param != PARAM_FC_WEIGHT;
}

void factor_plan_init(struct factor_plan *plan, const struct conve_shape *shape,
                      const struct tracin_opts *opts)
{
    conve_params params = opts->params ? opts->params : CONVE_PARAMS_ALL;
    const conve_params shallow = 1u << PARAM_FC_WEIGHT | 1u << PARAM_FC_BIAS |
                                 1u << PARAM_BN2_WEIGHT | 1u << PARAM_BN2_BIAS |
                                 1u << PARAM_ENTITY_BIAS;
    *plan = (struct factor_plan){
        .shape = *shape,
        .dtype = opts->dtype,
        .has_fc_weight = params & 1u << PARAM_FC_WEIGHT,
        .has_entity = params & 1u << PARAM_ENTITY,
        .has_relation = params & 1u << PARAM_RELATION,
        .has_bias = shape->has_entity_bias && params & 1u << PARAM_ENTITY_BIAS,
        .is_deep = params & ~shallow,
        .is_all = opts->loss == TRACIN_ONE_VS_ALL,
        .label_smoothing = opts->label_smoothing,
    };
    for (unsigned param = 0; param < PARAM_N_TRAINED; param++) {
        plan->small_at[param] = SIZE_MAX;
        if (!is_small(param) || !(params & 1u << param))
            continue;
        plan->small_at[param] = plan->n_small;
        plan->n_small += conve_param_dims(shape, (enum conve_param)param).n_elements;
    }
}

/* ---- room ---- */

struct room {
    void **at;
    size_t size; /* elements a triple; 0: not needed */
};

struct rooms {
    struct room at[12];
};

static struct rooms factors_rooms(struct factors *f, const struct factor_plan *plan)
{
    size_t dim = conve_dim(&plan->shape), n_entities = plan->shape.n_entities;
    return (struct rooms){{
        {&f->du, dim},
        {&f->features, conve_n_features(&plan->shape)},
        {&f->small, plan->n_small},
        {&f->head, plan->has_entity ? dim : 0},
        {&f->relation, plan->has_relation ? dim : 0},
        {&f->slope, 1},
        {&f->tail, plan->has_entity && !plan->is_all ? dim : 0},
        {&f->slopes, plan->is_all ? n_entities : 0},
        {&f->x, plan->is_all ? dim : 0},
    }};
}

static struct rooms scratch_rooms(struct factor_scratch *s, const struct factor_plan *plan)
{
    size_t dim = conve_dim(&plan->shape), image = conve_image_size(&plan->shape);
    size_t filters = plan->shape.n_filters, deep = plan->is_deep;
    return (struct rooms){{
        {&s->image, image},
        {&s->normed, image},
        {&s->u, dim},
        {&s->x, dim},
        {&s->d, dim},
        {&s->d_features, deep * conve_n_features(&plan->shape)},
        {&s->d_image, deep * image},
        {&s->sums, deep * filters * conve_kernel_size(&plan->shape)},
        {&s->d_sum, deep * filters},
        {&s->scale, filters},
        {&s->shift, filters},
    }};
}

static size_t rooms_bytes(const struct factor_plan *plan, struct rooms rooms, size_t n)
{
    size_t bytes = 0;
    for (size_t i = 0; i < countof(rooms.at); i++)
        bytes += rooms.at[i].size * n * num_bytes(plan->dtype);
    return bytes;
}

static void rooms_make(const struct factor_plan *plan, struct rooms rooms, size_t n)
{
    for (size_t i = 0; i < countof(rooms.at); i++)
        if (rooms.at[i].size)
            *rooms.at[i].at = xmalloc(rooms.at[i].size * n * num_bytes(plan->dtype));
}

static void rooms_free(struct rooms rooms)
{
    for (size_t i = 0; i < countof(rooms.at); i++)
        if (rooms.at[i].at)
            free(*rooms.at[i].at);
}

size_t factors_bytes(const struct factor_plan *plan, size_t n)
{
    struct factors factors;
    return rooms_bytes(plan, factors_rooms(&factors, plan), n);
}

size_t factor_scratch_bytes(const struct factor_plan *plan, size_t n)
{
    struct factor_scratch scratch;
    return rooms_bytes(plan, scratch_rooms(&scratch, plan), n);
}

void factors_init(struct factors *factors, const struct factor_plan *plan, size_t n_max)
{
    *factors = (struct factors){.features_row = xcalloc(n_max, sizeof(uint32_t))};
    rooms_make(plan, factors_rooms(factors, plan), n_max);
}

void factors_release(struct factors *factors)
{
    rooms_free(factors_rooms(factors, &(struct factor_plan){0}));
    free(factors->features_row);
    *factors = (struct factors){0};
}

void factor_scratch_init(struct factor_scratch *scratch, const struct factor_plan *plan,
                         size_t n_max)
{
    *scratch = (struct factor_scratch){0};
    rooms_make(plan, scratch_rooms(scratch, plan), n_max);
}

void factor_scratch_release(struct factor_scratch *scratch)
{
    rooms_free(scratch_rooms(scratch, &(struct factor_plan){0}));
    *scratch = (struct factor_scratch){0};
}
