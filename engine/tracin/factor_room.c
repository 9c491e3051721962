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
    conve_params params = opts->params ? opts->params : conve_params_all(shape);
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
        .format = opts->format,
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
    size_t bytes; /* bytes of a triple; 0: not needed */
};

struct rooms {
    struct room at[16];
};

static struct rooms factors_rooms(struct factors *f, const struct factor_plan *plan)
{
    size_t real = num_bytes(plan->dtype), dim = conve_dim(&plan->shape) * real;
    size_t n_entities = plan->shape.n_entities;
    return (struct rooms){{
        {&f->ids, sizeof(struct triple)},
        {&f->first_ids, sizeof(struct triple)},
        {&f->features_row, sizeof(uint32_t)},
        {&f->du, dim},
        {&f->features, conve_n_features(&plan->shape) * real},
        {&f->small, plan->n_small * real},
        {&f->head, plan->has_entity ? dim : 0},
        {&f->relation, plan->has_relation ? dim : 0},
        {&f->slope, real},
        {&f->tail, plan->has_entity && !plan->is_all ? dim : 0},
        {&f->slopes, plan->is_all ? n_entities * real : 0},
        {&f->x, plan->is_all ? dim : 0},
        {&f->place, plan->is_all ? sizeof(uint32_t) : 0},
    }};
}

static struct rooms scratch_rooms(struct factor_scratch *s, const struct factor_plan *plan)
{
    size_t real = num_bytes(plan->dtype), dim = conve_dim(&plan->shape) * real;
    size_t image = conve_image_size(&plan->shape) * real, deep = plan->is_deep;
    size_t filters = plan->shape.n_filters * real;
    return (struct rooms){{
        {&s->image, image},
        {&s->normed, image},
        {&s->u, dim},
        {&s->x, dim},
        {&s->d, dim},
        {&s->d_features, deep * conve_n_features(&plan->shape) * real},
        {&s->d_image, deep * image},
        {&s->sums, deep * filters * conve_kernel_size(&plan->shape)},
        {&s->d_sum, deep * filters},
        {&s->scale, filters},
        {&s->shift, filters},
        {&s->spare_image, image},
        {&s->spare_dim, dim},
        {&s->own, plan->is_all ? real : 0},
    }};
}

static struct rooms self_rooms(struct self_scratch *s, const struct factor_plan *plan)
{
    return (struct rooms){{{&s->numbers, num_bytes(plan->dtype)}}};
}

static size_t rooms_bytes(struct rooms rooms, size_t n)
{
    size_t bytes = 0;
    for (size_t i = 0; i < countof(rooms.at); i++)
        bytes += rooms.at[i].bytes * n;
    return bytes;
}

static int rooms_make(const struct num_backend *be, struct rooms rooms, size_t n, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < countof(rooms.at); i++)
        if (rooms.at[i].bytes)
            rc = be->allocate(be, rooms.at[i].bytes * n, rooms.at[i].at, err);
    return rc;
}

static void rooms_free(const struct num_backend *be, struct rooms rooms)
{
    for (size_t i = 0; i < countof(rooms.at); i++)
        if (rooms.at[i].at)
            be->release(be, *rooms.at[i].at);
}

size_t factors_bytes(const struct factor_plan *plan, size_t n)
{
    struct factors factors;
    return rooms_bytes(factors_rooms(&factors, plan), n);
}

size_t factor_scratch_bytes(const struct factor_plan *plan, size_t n)
{
    struct factor_scratch scratch;
    return rooms_bytes(scratch_rooms(&scratch, plan), n);
}

int factors_init(struct factors *factors, const struct num_backend *be,
                 const struct factor_plan *plan, size_t n_max, struct err *err)
{
    *factors = (struct factors){0};
    factors->host.index = xcalloc(n_max, sizeof(*factors->host.index));
    factors->host.firsts = xcalloc(n_max, sizeof(*factors->host.firsts));
    return rooms_make(be, factors_rooms(factors, plan), n_max, err);
}

void factors_release(struct factors *factors, const struct num_backend *be)
{
    rooms_free(be, factors_rooms(factors, &(struct factor_plan){0}));
    free(factors->host.index);
    free(factors->host.firsts);
    *factors = (struct factors){0};
}

int factor_scratch_init(struct factor_scratch *scratch, const struct num_backend *be,
                        const struct factor_plan *plan, size_t n_max, struct err *err)
{
    *scratch = (struct factor_scratch){0};
    return rooms_make(be, scratch_rooms(scratch, plan), n_max, err);
}

void factor_scratch_release(struct factor_scratch *scratch, const struct num_backend *be)
{
    rooms_free(be, scratch_rooms(scratch, &(struct factor_plan){0}));
    *scratch = (struct factor_scratch){0};
}

int self_scratch_init(struct self_scratch *scratch, const struct num_backend *be,
                      const struct factor_plan *plan, size_t n, struct err *err)
{
    *scratch = (struct self_scratch){0};
    scratch->first = xcalloc(n, num_bytes(plan->dtype));
    scratch->second = xcalloc(n, num_bytes(plan->dtype));
    scratch->weights = xcalloc(n, num_bytes(plan->dtype));
    return rooms_make(be, self_rooms(scratch, plan), n, err);
}

void self_scratch_release(struct self_scratch *scratch, const struct num_backend *be)
{
    rooms_free(be, self_rooms(scratch, &(struct factor_plan){0}));
    free(scratch->first);
    free(scratch->second);
    free(scratch->weights);
    *scratch = (struct self_scratch){0};
}
