/* SPDX-License-Identifier: Apache-2.0 */
#include "conve/weights.h"

#include <math.h>
#include <stdlib.h>

#include "base/xalloc.h"

struct conve_norm_params conve_norm_params(const struct conve_shape *shape, enum conve_norm norm)
{
    switch (norm) {
    case NORM_BN0:
        return (struct conve_norm_params){
            PARAM_BN0_WEIGHT,       PARAM_BN0_BIAS, PARAM_BN0_MEAN, PARAM_BN0_VAR, 1,
            conve_image_size(shape)};
    case NORM_BN1:
        return (struct conve_norm_params){
            PARAM_BN1_WEIGHT, PARAM_BN1_BIAS,   PARAM_BN1_MEAN,
            PARAM_BN1_VAR,    shape->n_filters, conve_map_height(shape) * conve_map_width(shape)};
    case NORM_BN2:
        return (struct conve_norm_params){PARAM_BN2_WEIGHT, PARAM_BN2_BIAS,   PARAM_BN2_MEAN,
                                          PARAM_BN2_VAR,    conve_dim(shape), 1};
    case NORM_N:
        break;
    }
    BUG("norm %d", (int)norm);
}

static void *doubled(const float *from, size_t n)
{
    double *to = xmalloc(MAX(n, (size_t)1) * sizeof(*to));
    for (size_t i = 0; i < n; i++)
        to[i] = (double)from[i];
    return to;
}

static void *inv_std_new(const struct conve *model, enum conve_norm norm, enum num_dtype dtype)
{
    struct conve_norm_params params = conve_norm_params(&model->shape, norm);
    const float *var = model->at[params.var];
    void *out = xmalloc(params.channels * num_bytes(dtype));
    for (size_t c = 0; c < params.channels; c++) {
        double value = 1 / sqrt((double)var[c] + model->shape.bn_eps);
        if (dtype == NUM_F64)
            ((double *)out)[c] = value;
        else
            ((float *)out)[c] = (float)value;
    }
    return out;
}

void conve_weights_init(struct conve_weights *weights, const struct conve *model,
                        enum num_dtype dtype)
{
    *weights = (struct conve_weights){.shape = model->shape, .dtype = dtype};
    for (unsigned param = 0; param < PARAM_N; param++) {
        weights->at[param] = model->at[param];
        if (dtype == NUM_F64 && model->at[param])
            weights->at[param] = weights->owned[param] =
                doubled(model->at[param],
                        conve_param_dims(&model->shape, (enum conve_param)param).n_elements);
    }
    for (unsigned norm = 0; norm < NORM_N; norm++)
        weights->inv_std[norm] = inv_std_new(model, (enum conve_norm)norm, dtype);
}

void conve_weights_release(struct conve_weights *weights)
{
    for (unsigned param = 0; param < PARAM_N; param++)
        free(weights->owned[param]);
    for (unsigned norm = 0; norm < NORM_N; norm++)
        free(weights->inv_std[norm]);
    *weights = (struct conve_weights){0};
}

/* ---- weights on a device ---- */

static int array_move(const struct num_backend *be, const void *from, size_t bytes, void **to,
                      struct err *err)
{
    int rc = be->allocate(be, bytes, to, err);
    if (rc == 0)
        be->upload(be, *to, from, bytes);
    return rc;
}

/* Copies weights of the host to memory of the backend. */
static int weights_move(struct conve_weights *to, const struct conve_weights *from,
                        const struct num_backend *be, struct err *err)
{
    int rc = 0;
    size_t real = num_bytes(from->dtype);
    *to = (struct conve_weights){.shape = from->shape, .dtype = from->dtype};
    for (unsigned param = 0; rc == 0 && param < PARAM_N; param++) {
        size_t n = conve_param_dims(&from->shape, (enum conve_param)param).n_elements;
        if (from->at[param])
            rc = array_move(be, from->at[param], n * real, &to->owned[param], err);
        to->at[param] = to->owned[param];
    }
    for (unsigned norm = 0; rc == 0 && norm < NORM_N; norm++) {
        size_t n = conve_norm_params(&from->shape, (enum conve_norm)norm).channels;
        rc = array_move(be, from->inv_std[norm], n * real, &to->inv_std[norm], err);
    }
    return rc;
}

static void weights_free(struct conve_weights *weights, const struct num_backend *be)
{
    for (unsigned param = 0; param < PARAM_N; param++)
        be->release(be, weights->owned[param]);
    for (unsigned norm = 0; norm < NORM_N; norm++)
        be->release(be, weights->inv_std[norm]);
}

int conve_weights_open(struct conve_weights *weights, const struct conve *model,
                       enum num_dtype dtype, const struct num_backend *be, struct err *err)
{
    struct conve_weights host;
    if (!be->is_device) {
        conve_weights_init(weights, model, dtype);
        return 0;
    }
    conve_weights_init(&host, model, dtype);
    int rc = weights_move(weights, &host, be, err);
    if (rc == 0)
        rc = be->wait(be, err); /* other threads will read them */
    conve_weights_release(&host);
    return rc == 0 ? 0 : wrap(err, rc, "the weights of %s", model->path);
}

void conve_weights_close(struct conve_weights *weights, const struct num_backend *be)
{
    if (be->is_device)
        weights_free(weights, be);
    else
        conve_weights_release(weights);
}
