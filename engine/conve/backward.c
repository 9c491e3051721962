/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/xalloc.h"
#include "conve/pass.h"

/* Computes in place. y: the output of the ReLU after the norm; NULL: there is no ReLU. */
static void norm_back(const struct conve_pass *pass, enum conve_norm which, const void *x,
                      const void *y, void *d, struct conve_gradients *gradients)
{
    const struct conve_weights *weights = pass->weights;
    struct conve_norm_params params = conve_norm_params(&weights->shape, which);
    struct num_norm_back op =
        layer_norm_back(weights, which, conve_running(weights, which), pass->n, x, y, d);
    op.d_weight = gradients->at[params.weight];
    op.d_bias = gradients->at[params.bias];
    op.dx = d;
    pass->be->norm_back(pass->be, &op);
}

/* The backward pass of the scores of each triple's own tail. */
static void tails_back(const struct conve_pass *pass, const void *slope,
                       struct conve_gradients *gradients, void *dx)
{
    const struct conve_weights *weights = pass->weights;
    size_t dim = conve_dim(&weights->shape);
    layer_tails_back(pass->be, weights, pass->triples, pass->n, slope, dx);
    struct num_rows op = {
        .dtype = weights->dtype,
        .n = pass->n,
        .pieces = 1,
        .len = dim,
        .from = pass->x,
        .from_stride = dim,
        .factor = slope,
        .to = gradients->at[PARAM_ENTITY],
        .to_stride = dim,
        .to_ids = &pass->triples->tail,
        .ids_stride = TRIPLE_IDS,
        .add = true,
    };
    pass->be->rows(pass->be, &op);
    if (!gradients->at[PARAM_ENTITY_BIAS])
        return;
    op.len = op.from_stride = op.to_stride = 1;
    op.from = pass->ones;
    op.to = gradients->at[PARAM_ENTITY_BIAS];
    pass->be->rows(pass->be, &op);
}

/* The backward pass of the scores of all entities. */
static void all_back(const struct conve_pass *pass, const void *slope,
                     struct conve_gradients *gradients, void *dx)
{
    const struct conve_weights *weights = pass->weights;
    size_t dim = conve_dim(&weights->shape), n_entities = weights->shape.n_entities;
    layer_all_tails_back(pass->be, weights, (struct tail_range){0, n_entities}, pass->n, slope, 0,
                         dx);
    struct num_gemm op = {
        .trans_a = true, .m = n_entities, .n = dim, .k = pass->n, .beta = 1, .a = slope};
    op.b = pass->x;
    op.c = gradients->at[PARAM_ENTITY];
    layer_product(pass->be, weights, op);
    op.n = 1;
    op.b = pass->ones;
    op.c = gradients->at[PARAM_ENTITY_BIAS];
    if (op.c)
        layer_product(pass->be, weights, op);
}

/* du: the gradient at fc's output. d_features becomes the gradient at the features. */
static void fc_back(const struct conve_pass *pass, const void *du,
                    struct conve_gradients *gradients, void *d_features)
{
    const struct conve_weights *weights = pass->weights;
    size_t dim = conve_dim(&weights->shape), n_features = conve_n_features(&weights->shape);
    struct num_gemm op = {.trans_a = true, .m = dim, .n = n_features, .k = pass->n, .a = du};
    op.b = pass->features;
    op.c = gradients->at[PARAM_FC_WEIGHT];
    layer_product(pass->be, weights, op);
    op.n = 1;
    op.b = pass->ones;
    op.c = gradients->at[PARAM_FC_BIAS];
    layer_product(pass->be, weights, op);
    layer_fc_back(pass->be, weights, pass->n, du, d_features);
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
    fc_back(pass, d, gradients, d_features);
    norm_back(pass, NORM_BN1, pass->maps, pass->features, d_features, gradients);
    struct num_conv_back conv = layer_conv_back(weights, pass->n, pass->normed, d_features);
    conv.d_weight = gradients->at[PARAM_CONV_WEIGHT];
    conv.d_sum = gradients->at[PARAM_CONV_BIAS];
    conv.dx = d_image;
    pass->be->conv_back(pass->be, &conv);
    norm_back(pass, NORM_BN0, pass->image, NULL, d_image, gradients);
    conve_image_half(pass->be, weights, HALF_HEAD, d_image, pass->n, &pass->triples->head,
                     gradients->at[PARAM_ENTITY]);
    conve_image_half(pass->be, weights, HALF_RELATION, d_image, pass->n, &pass->triples->relation,
                     gradients->at[PARAM_RELATION]);
    free(d);
    free(d_features);
    free(d_image);
}
