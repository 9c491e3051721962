/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/xalloc.h"
#include "conve/pass.h"

enum {
    TRIPLE_IDS = sizeof(struct triple) / sizeof(uint32_t)
};

void conve_gradients_init(struct conve_gradients *gradients, const struct conve_shape *shape,
                          enum num_dtype dtype)
{
    *gradients = (struct conve_gradients){.dtype = dtype};
    for (unsigned param = 0; param < PARAM_N_TRAINED; param++) {
        size_t n = conve_param_dims(shape, (enum conve_param)param).n_elements;
        if (n)
            gradients->at[param] = xcalloc(n, num_bytes(dtype));
    }
}

void conve_gradients_release(struct conve_gradients *gradients)
{
    for (unsigned param = 0; param < PARAM_N_TRAINED; param++)
        free(gradients->at[param]);
    *gradients = (struct conve_gradients){0};
}

static void undrop(const struct conve_pass *pass, enum conve_dropout place, size_t size, void *at)
{
    if (pass->masks[place])
        pass->be->multiply(pass->be, &(struct num_multiply){
                                         .dtype = pass->weights->dtype,
                                         .n = pass->n * size,
                                         .alpha = 1,
                                         .a = at,
                                         .b = pass->masks[place],
                                         .y = at,
                                     });
}

/* In place; y: what came out of a ReLU behind the norm, or NULL. */
static void norm_back(const struct conve_pass *pass, enum conve_norm which, const void *x,
                      const void *y, void *d, struct conve_gradients *gradients)
{
    const struct conve_weights *weights = pass->weights;
    struct conve_norm_params params = conve_norm_params(&weights->shape, which);
    bool is_batch = pass->mode.is_training;
    pass->be->norm_back(pass->be,
                        &(struct num_norm_back){
                            .dtype = weights->dtype,
                            .n = pass->n,
                            .channels = params.channels,
                            .places = params.places,
                            .x = x,
                            .mean = is_batch ? pass->mean[which] : weights->at[params.mean],
                            .inv_std = is_batch ? pass->inv_std[which] : weights->inv_std[which],
                            .weight = weights->at[params.weight],
                            .y = y,
                            .dy = d,
                            .is_batch = is_batch,
                            .d_weight = gradients->at[params.weight],
                            .d_bias = gradients->at[params.bias],
                            .dx = d,
                        });
}

/* Scores of each triple's own tail. */
static void tails_back(const struct conve_pass *pass, const void *slope,
                       struct conve_gradients *gradients, void *dx)
{
    const struct conve_weights *weights = pass->weights;
    size_t dim = conve_dim(&weights->shape);
    struct num_rows op = {
        .dtype = weights->dtype,
        .n = pass->n,
        .pieces = 1,
        .len = dim,
        .from = weights->at[PARAM_ENTITY],
        .from_stride = dim,
        .from_ids = &pass->triples->tail,
        .ids_stride = TRIPLE_IDS,
        .factor = slope,
        .to = dx,
        .to_stride = dim,
    };
    pass->be->rows(pass->be, &op);
    op.from = pass->x;
    op.from_ids = NULL;
    op.to = gradients->at[PARAM_ENTITY];
    op.to_ids = &pass->triples->tail;
    op.add = true;
    pass->be->rows(pass->be, &op);
    if (!gradients->at[PARAM_ENTITY_BIAS])
        return;
    op.len = op.from_stride = op.to_stride = 1;
    op.from = pass->ones;
    op.to = gradients->at[PARAM_ENTITY_BIAS];
    pass->be->rows(pass->be, &op);
}

/* Of packed arrays: dtype, leading dimensions and alpha are filled in. */
static void product(const struct conve_pass *pass, struct num_gemm op)
{
    op.dtype = pass->weights->dtype;
    op.lda = op.trans_a ? op.m : op.k;
    op.ldb = op.ldc = op.n;
    op.alpha = 1;
    pass->be->gemm(pass->be, &op);
}

/* Scores of all entities. */
static void all_back(const struct conve_pass *pass, const void *slope,
                     struct conve_gradients *gradients, void *dx)
{
    const struct conve_weights *weights = pass->weights;
    size_t dim = conve_dim(&weights->shape), n_entities = weights->shape.n_entities;
    product(pass, (struct num_gemm){.m = pass->n,
                                    .n = dim,
                                    .k = n_entities,
                                    .a = slope,
                                    .b = weights->at[PARAM_ENTITY],
                                    .c = dx});
    struct num_gemm op = {
        .trans_a = true, .m = n_entities, .n = dim, .k = pass->n, .beta = 1, .a = slope};
    op.b = pass->x;
    op.c = gradients->at[PARAM_ENTITY];
    product(pass, op);
    op.n = 1;
    op.b = pass->ones;
    op.c = gradients->at[PARAM_ENTITY_BIAS];
    if (op.c)
        product(pass, op);
}

static void conv_back(const struct conve_pass *pass, const void *d_maps,
                      struct conve_gradients *gradients, void *d_image)
{
    const struct conve_shape *shape = &pass->weights->shape;
    pass->be->conv_back(pass->be, &(struct num_conv_back){
                                      .dtype = pass->weights->dtype,
                                      .n = pass->n,
                                      .height = conve_image_height(shape),
                                      .width = conve_image_width(shape),
                                      .n_filters = shape->n_filters,
                                      .kernel_height = shape->kernel_height,
                                      .kernel_width = shape->kernel_width,
                                      .x = pass->normed,
                                      .weight = pass->weights->at[PARAM_CONV_WEIGHT],
                                      .dy = d_maps,
                                      .d_weight = gradients->at[PARAM_CONV_WEIGHT],
                                      .d_sum = gradients->at[PARAM_CONV_BIAS],
                                      .dx = d_image,
                                  });
}

/* du: gradient at fc's output; gives that of the features. */
static void fc_back(const struct conve_pass *pass, const void *du,
                    struct conve_gradients *gradients, void *d_features)
{
    const struct conve_weights *weights = pass->weights;
    size_t dim = conve_dim(&weights->shape), n_features = conve_n_features(&weights->shape);
    struct num_gemm op = {.trans_a = true, .m = dim, .n = n_features, .k = pass->n, .a = du};
    op.b = pass->features;
    op.c = gradients->at[PARAM_FC_WEIGHT];
    product(pass, op);
    op.n = 1;
    op.b = pass->ones;
    op.c = gradients->at[PARAM_FC_BIAS];
    product(pass, op);
    product(pass, (struct num_gemm){.m = pass->n,
                                    .n = n_features,
                                    .k = dim,
                                    .a = du,
                                    .b = weights->at[PARAM_FC_WEIGHT],
                                    .c = d_features});
}

void conve_backward(const struct conve_pass *pass, bool is_all, const void *slope,
                    struct conve_gradients *gradients)
{
    const struct conve_weights *weights = pass->weights;
    const struct conve_shape *shape = &weights->shape;
    size_t dim = conve_dim(shape), image = conve_image_size(shape);
    size_t bytes = pass->n * num_bytes(weights->dtype), n_features = conve_n_features(shape);
    void *d = xmalloc(dim * bytes), *d_features = xmalloc(n_features * bytes);
    void *d_image = xmalloc(image * bytes);
    if (is_all)
        all_back(pass, slope, gradients, d);
    else
        tails_back(pass, slope, gradients, d);
    norm_back(pass, NORM_BN2, pass->fc, pass->x, d, gradients);
    undrop(pass, DROPOUT_OUTPUT, dim, d);
    fc_back(pass, d, gradients, d_features);
    undrop(pass, DROPOUT_FEATURES, n_features, d_features);
    norm_back(pass, NORM_BN1, pass->maps, pass->features, d_features, gradients);
    conv_back(pass, d_features, gradients, d_image);
    if (!pass->mode.drops_before_bn0)
        undrop(pass, DROPOUT_INPUT, image, d_image);
    norm_back(pass, NORM_BN0, pass->image, NULL, d_image, gradients);
    if (pass->mode.drops_before_bn0)
        undrop(pass, DROPOUT_INPUT, image, d_image);
    conve_image_half(pass->be, weights, HALF_HEAD, d_image, pass->n, &pass->triples->head,
                     gradients->at[PARAM_ENTITY]);
    conve_image_half(pass->be, weights, HALF_RELATION, d_image, pass->n, &pass->triples->relation,
                     gradients->at[PARAM_RELATION]);
    free(d);
    free(d_features);
    free(d_image);
}
