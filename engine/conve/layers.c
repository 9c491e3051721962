/* SPDX-License-Identifier: Apache-2.0 */
#include "conve/layers.h"

/* ---- images ---- */

/* Returns the element of an image where the half of the relation begins. */
static size_t half_at(const struct conve_shape *shape)
{
    return shape->layout == LAYOUT_HEIGHT ? conve_dim(shape) : shape->width;
}

void conve_image_gather(const struct num_backend *be, const struct conve_weights *weights,
                        const struct triple *triples, size_t n, void *image)
{
    const struct conve_shape *shape = &weights->shape;
    struct num_rows op = {
        .dtype = weights->dtype,
        .n = n,
        .pieces = shape->height,
        .len = shape->width,
        .from = weights->at[PARAM_ENTITY],
        .from_stride = conve_dim(shape),
        .from_pitch = shape->width,
        .from_ids = &triples->head,
        .ids_stride = TRIPLE_IDS,
        .to = image,
        .to_stride = conve_image_size(shape),
        .to_pitch = conve_image_width(shape),
    };
    be->rows(be, &op);
    op.from = weights->at[PARAM_RELATION];
    op.from_ids = &triples->relation;
    op.to = num_at(weights->dtype, image, half_at(shape));
    be->rows(be, &op);
}

void conve_image_half(const struct num_backend *be, const struct conve_weights *weights,
                      enum conve_half half, const void *image, size_t n, const uint32_t *ids,
                      void *to)
{
    const struct conve_shape *shape = &weights->shape;
    struct num_rows op = {
        .dtype = weights->dtype,
        .n = n,
        .pieces = shape->height,
        .len = shape->width,
        .from = num_at_const(weights->dtype, image, half == HALF_RELATION ? half_at(shape) : 0),
        .from_stride = conve_image_size(shape),
        .from_pitch = conve_image_width(shape),
        .to = to,
        .to_stride = conve_dim(shape),
        .to_pitch = shape->width,
        .to_ids = ids,
        .ids_stride = TRIPLE_IDS,
        .add = ids != NULL,
    };
    be->rows(be, &op);
}

/* ---- products ---- */

void layer_product(const struct num_backend *be, const struct conve_weights *weights,
                   struct num_gemm op)
{
    op.dtype = weights->dtype;
    op.alpha = 1;
    op.rounds = op.format != NUM_FULL;
    op.lda = op.lda ? op.lda : op.trans_a ? op.m : op.k;
    op.ldb = op.ldb ? op.ldb : op.trans_b ? op.k : op.n;
    op.ldc = op.ldc ? op.ldc : op.n;
    be->gemm(be, &op);
}

/* ---- norms ---- */

struct norm_stats conve_running(const struct conve_weights *weights, enum conve_norm norm)
{
    return (struct norm_stats){weights->at[conve_norm_params(&weights->shape, norm).mean],
                               weights->inv_std[norm]};
}

void layer_norm(const struct num_backend *be, const struct conve_weights *weights,
                enum conve_norm norm, struct norm_stats stats, size_t n, const void *x, bool relu,
                void *y)
{
    struct conve_norm_params params = conve_norm_params(&weights->shape, norm);
    be->norm(be, &(struct num_norm){
                     .dtype = weights->dtype,
                     .n = n,
                     .channels = params.channels,
                     .places = params.places,
                     .x = x,
                     .mean = stats.mean,
                     .inv_std = stats.inv_std,
                     .weight = weights->at[params.weight],
                     .bias = weights->at[params.bias],
                     .relu = relu,
                     .y = y,
                 });
}

struct num_norm_back layer_norm_back(const struct conve_weights *weights, enum conve_norm norm,
                                     struct norm_stats stats, size_t n, const void *x,
                                     const void *y, const void *dy)
{
    struct conve_norm_params params = conve_norm_params(&weights->shape, norm);
    return (struct num_norm_back){
        .dtype = weights->dtype,
        .n = n,
        .channels = params.channels,
        .places = params.places,
        .x = x,
        .mean = stats.mean,
        .inv_std = stats.inv_std,
        .weight = weights->at[params.weight],
        .y = y,
        .dy = dy,
    };
}

/* ---- convolution ---- */

struct num_conv layer_conv(const struct conve_weights *weights, size_t n, const void *x, void *y)
{
    const struct conve_shape *shape = &weights->shape;
    return (struct num_conv){
        .dtype = weights->dtype,
        .n = n,
        .height = conve_image_height(shape),
        .width = conve_image_width(shape),
        .n_filters = shape->n_filters,
        .kernel_height = shape->kernel_height,
        .kernel_width = shape->kernel_width,
        .x = x,
        .weight = weights->at[PARAM_CONV_WEIGHT],
        .bias = weights->at[PARAM_CONV_BIAS],
        .y = y,
    };
}

struct num_conv_back layer_conv_back(const struct conve_weights *weights, size_t n, const void *x,
                                     const void *dy)
{
    const struct conve_shape *shape = &weights->shape;
    return (struct num_conv_back){
        .dtype = weights->dtype,
        .n = n,
        .height = conve_image_height(shape),
        .width = conve_image_width(shape),
        .n_filters = shape->n_filters,
        .kernel_height = shape->kernel_height,
        .kernel_width = shape->kernel_width,
        .x = x,
        .weight = weights->at[PARAM_CONV_WEIGHT],
        .dy = dy,
    };
}

/* ---- fc ---- */

void layer_fc(const struct num_backend *be, const struct conve_weights *weights, size_t n,
              const void *features, void *u)
{
    size_t dim = conve_dim(&weights->shape), n_features = conve_n_features(&weights->shape);
    be->rows(be, &(struct num_rows){
                     .dtype = weights->dtype,
                     .n = n,
                     .pieces = 1,
                     .len = dim,
                     .from = weights->at[PARAM_FC_BIAS],
                     .to = u,
                     .to_stride = dim,
                 });
    struct num_gemm op = {.trans_b = true, .m = n, .n = dim, .k = n_features, .beta = 1};
    op.a = features;
    op.b = weights->at[PARAM_FC_WEIGHT];
    op.c = u;
    layer_product(be, weights, op);
}

void layer_fc_back(const struct num_backend *be, const struct conve_weights *weights, size_t n,
                   const void *du, void *d_features)
{
    size_t dim = conve_dim(&weights->shape), n_features = conve_n_features(&weights->shape);
    struct num_gemm op = {.m = n, .n = n_features, .k = dim};
    op.a = du;
    op.b = weights->at[PARAM_FC_WEIGHT];
    op.c = d_features;
    layer_product(be, weights, op);
}

/* ---- scores ---- */

void layer_tails(const struct num_backend *be, const struct conve_weights *weights,
                 const struct triple *triples, size_t n, const void *x, void *scores)
{
    size_t dim = conve_dim(&weights->shape);
    struct num_rows bias = {
        .dtype = weights->dtype,
        .n = n,
        .pieces = 1,
        .len = 1,
        .from = weights->at[PARAM_ENTITY_BIAS],
        .from_stride = 1,
        .from_ids = &triples->tail,
        .ids_stride = TRIPLE_IDS,
        .to = scores,
        .to_stride = 1,
    };
    if (bias.from)
        be->rows(be, &bias);
    else
        be->fill_zero(be, scores, n * num_bytes(weights->dtype));
    be->dots(be, &(struct num_dots){
                     .dtype = weights->dtype,
                     .n = n,
                     .len = dim,
                     .a = x,
                     .a_stride = dim,
                     .b = weights->at[PARAM_ENTITY],
                     .b_stride = dim,
                     .b_ids = &triples->tail,
                     .ids_stride = TRIPLE_IDS,
                     .out = scores,
                 });
}

void layer_tails_back(const struct num_backend *be, const struct conve_weights *weights,
                      const struct triple *triples, size_t n, const void *slopes, void *dx)
{
    size_t dim = conve_dim(&weights->shape);
    be->rows(be, &(struct num_rows){
                     .dtype = weights->dtype,
                     .n = n,
                     .pieces = 1,
                     .len = dim,
                     .from = weights->at[PARAM_ENTITY],
                     .from_stride = dim,
                     .from_ids = &triples->tail,
                     .ids_stride = TRIPLE_IDS,
                     .factor = slopes,
                     .to = dx,
                     .to_stride = dim,
                 });
}

static const void *rows_of(const struct conve_weights *weights, enum conve_param param,
                           size_t width, struct tail_range tails)
{
    const void *at = weights->at[param];
    return at ? num_at_const(weights->dtype, at, tails.begin * width) : NULL;
}

void layer_all_tails(const struct num_backend *be, const struct conve_weights *weights,
                     struct tail_range tails, size_t n, const void *x, void *scores)
{
    size_t dim = conve_dim(&weights->shape);
    const void *bias = rows_of(weights, PARAM_ENTITY_BIAS, 1, tails);
    if (bias)
        be->rows(be, &(struct num_rows){
                         .dtype = weights->dtype,
                         .n = n,
                         .pieces = 1,
                         .len = tails.count,
                         .from = bias,
                         .to = scores,
                         .to_stride = tails.count,
                     });
    struct num_gemm op = {.trans_b = true, .m = n, .n = tails.count, .k = dim};
    op.beta = bias ? 1 : 0;
    op.format = tails.format;
    op.a = x;
    op.b = rows_of(weights, PARAM_ENTITY, dim, tails);
    op.c = scores;
    layer_product(be, weights, op);
}

void layer_all_tails_back(const struct num_backend *be, const struct conve_weights *weights,
                          struct tail_range tails, size_t n, const void *slopes, double beta,
                          void *dx)
{
    size_t dim = conve_dim(&weights->shape);
    struct num_gemm op = {.m = n, .n = dim, .k = tails.count, .beta = beta, .a = slopes};
    op.format = tails.format;
    op.b = rows_of(weights, PARAM_ENTITY, dim, tails);
    op.c = dx;
    layer_product(be, weights, op);
}
