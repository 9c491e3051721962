/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/rng.h"
#include "base/xalloc.h"
#include "conve/pass.h"

enum {
    TRIPLE_IDS = sizeof(struct triple) / sizeof(uint32_t)
};

/* Where the second half begins in an image, and from row to row of one half. */
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

/* ---- room ---- */

static size_t dropped_size(const struct conve_shape *shape, enum conve_dropout place)
{
    switch (place) {
    case DROPOUT_INPUT:
        return conve_image_size(shape);
    case DROPOUT_FEATURES:
        return conve_n_features(shape);
    case DROPOUT_OUTPUT:
        return conve_dim(shape);
    case DROPOUT_N:
        break;
    }
    BUG("dropout %d", (int)place);
}

void conve_pass_init(struct conve_pass *pass, const struct num_backend *be,
                     const struct conve_weights *weights, const struct conve_mode *mode,
                     size_t n_max)
{
    const struct conve_shape *shape = &weights->shape;
    size_t bytes = n_max * num_bytes(weights->dtype);
    *pass = (struct conve_pass){.be = be, .weights = weights, .mode = *mode, .n_max = n_max};
    const struct {
        void **at;
        size_t size;
    } arrays[] = {
        {&pass->image, conve_image_size(shape)},
        {&pass->normed, conve_image_size(shape)},
        {&pass->maps, conve_n_features(shape)},
        {&pass->features, conve_n_features(shape)},
        {&pass->fc, conve_dim(shape)},
        {&pass->x, conve_dim(shape)},
        {&pass->ones, 1},
    };
    for (size_t i = 0; i < countof(arrays); i++)
        *arrays[i].at = xcalloc(arrays[i].size, bytes);
    for (size_t i = 0; i < n_max; i++)
        if (weights->dtype == NUM_F64)
            ((double *)pass->ones)[i] = 1;
        else
            ((float *)pass->ones)[i] = 1;
    for (unsigned place = 0; place < DROPOUT_N; place++)
        if (mode->is_training && mode->dropout[place] > 0)
            pass->masks[place] = xcalloc(dropped_size(shape, (enum conve_dropout)place), bytes);
    for (unsigned norm = 0; mode->is_training && norm < NORM_N; norm++) {
        size_t channels = conve_norm_params(shape, (enum conve_norm)norm).channels;
        pass->mean[norm] = xcalloc(channels, num_bytes(weights->dtype));
        pass->var[norm] = xcalloc(channels, num_bytes(weights->dtype));
        pass->inv_std[norm] = xcalloc(channels, num_bytes(weights->dtype));
    }
}

void conve_pass_release(struct conve_pass *pass)
{
    void *arrays[] = {pass->image, pass->normed, pass->maps, pass->features,
                      pass->fc,    pass->x,      pass->ones};
    for (size_t i = 0; i < countof(arrays); i++)
        free(arrays[i]);
    for (unsigned place = 0; place < DROPOUT_N; place++)
        free(pass->masks[place]);
    for (unsigned norm = 0; norm < NORM_N; norm++) {
        free(pass->mean[norm]);
        free(pass->var[norm]);
        free(pass->inv_std[norm]);
    }
    *pass = (struct conve_pass){0};
}

/* ---- forward ---- */

/* Whole maps of features, single numbers of the rest. */
static void mask_draw(struct conve_pass *pass, enum conve_dropout place)
{
    const struct conve_shape *shape = &pass->weights->shape;
    size_t size = dropped_size(shape, place);
    size_t together = place == DROPOUT_FEATURES ? size / shape->n_filters : 1;
    double p = pass->mode.dropout[place];
    struct rng rng = {.state = item_seed(pass->mode.seed, place)};
    double keep = 0;
    for (size_t i = 0; i < pass->n * size; i++) {
        if (i % together == 0)
            keep = rng_unit(&rng) < p ? 0 : 1 / (1 - p);
        if (pass->weights->dtype == NUM_F64)
            ((double *)pass->masks[place])[i] = keep;
        else
            ((float *)pass->masks[place])[i] = (float)keep;
    }
}

static void drop(struct conve_pass *pass, enum conve_dropout place, void *at)
{
    if (!pass->masks[place])
        return;
    mask_draw(pass, place);
    pass->be->multiply(pass->be, &(struct num_multiply){
                                     .dtype = pass->weights->dtype,
                                     .n = pass->n * dropped_size(&pass->weights->shape, place),
                                     .alpha = 1,
                                     .a = at,
                                     .b = pass->masks[place],
                                     .y = at,
                                 });
}

static void norm(struct conve_pass *pass, enum conve_norm which, const void *x, bool relu, void *y)
{
    const struct conve_weights *weights = pass->weights;
    struct conve_norm_params params = conve_norm_params(&weights->shape, which);
    struct num_norm op = {
        .dtype = weights->dtype,
        .n = pass->n,
        .channels = params.channels,
        .places = params.places,
        .x = x,
        .mean = weights->at[params.mean],
        .inv_std = weights->inv_std[which],
        .weight = weights->at[params.weight],
        .bias = weights->at[params.bias],
        .relu = relu,
        .y = y,
    };
    if (pass->mode.is_training) {
        op.mean = pass->mean[which];
        op.inv_std = pass->inv_std[which];
        pass->be->norm_stats(pass->be, &(struct num_norm_stats){
                                           .dtype = op.dtype,
                                           .n = op.n,
                                           .channels = op.channels,
                                           .places = op.places,
                                           .eps = weights->shape.bn_eps,
                                           .x = x,
                                           .mean = pass->mean[which],
                                           .var = pass->var[which],
                                           .inv_std = pass->inv_std[which],
                                       });
    }
    pass->be->norm(pass->be, &op);
}

/* y = rows of the bias, then += x W^T */
static void fc(struct conve_pass *pass)
{
    const struct conve_weights *weights = pass->weights;
    const struct conve_shape *shape = &weights->shape;
    size_t dim = conve_dim(shape), n_features = conve_n_features(shape);
    pass->be->rows(pass->be, &(struct num_rows){
                                 .dtype = weights->dtype,
                                 .n = pass->n,
                                 .pieces = 1,
                                 .len = dim,
                                 .from = weights->at[PARAM_FC_BIAS],
                                 .to = pass->fc,
                                 .to_stride = dim,
                             });
    pass->be->gemm(pass->be, &(struct num_gemm){
                                 .dtype = weights->dtype,
                                 .trans_b = true,
                                 .m = pass->n,
                                 .n = dim,
                                 .k = n_features,
                                 .lda = n_features,
                                 .ldb = n_features,
                                 .ldc = dim,
                                 .alpha = 1,
                                 .beta = 1,
                                 .a = pass->features,
                                 .b = weights->at[PARAM_FC_WEIGHT],
                                 .c = pass->fc,
                             });
}

void conve_forward(struct conve_pass *pass, const struct triple *triples, size_t n)
{
    const struct conve_weights *weights = pass->weights;
    const struct conve_shape *shape = &weights->shape;
    ASSERT(n <= pass->n_max);
    pass->triples = triples;
    pass->n = n;
    conve_image_gather(pass->be, weights, triples, n, pass->image);
    if (pass->mode.drops_before_bn0)
        drop(pass, DROPOUT_INPUT, pass->image);
    norm(pass, NORM_BN0, pass->image, false, pass->normed);
    if (!pass->mode.drops_before_bn0)
        drop(pass, DROPOUT_INPUT, pass->normed);
    pass->be->conv(pass->be, &(struct num_conv){
                                 .dtype = weights->dtype,
                                 .n = n,
                                 .height = conve_image_height(shape),
                                 .width = conve_image_width(shape),
                                 .n_filters = shape->n_filters,
                                 .kernel_height = shape->kernel_height,
                                 .kernel_width = shape->kernel_width,
                                 .x = pass->normed,
                                 .weight = weights->at[PARAM_CONV_WEIGHT],
                                 .bias = weights->at[PARAM_CONV_BIAS],
                                 .y = pass->maps,
                             });
    norm(pass, NORM_BN1, pass->maps, true, pass->features);
    drop(pass, DROPOUT_FEATURES, pass->features);
    fc(pass);
    drop(pass, DROPOUT_OUTPUT, pass->fc);
    norm(pass, NORM_BN2, pass->fc, true, pass->x);
}

/* ---- scores ---- */

static void scores_of_tails(const struct conve_pass *pass, void *out)
{
    const struct conve_weights *weights = pass->weights;
    size_t dim = conve_dim(&weights->shape);
    struct num_rows bias = {
        .dtype = weights->dtype,
        .n = pass->n,
        .pieces = 1,
        .len = 1,
        .from = weights->at[PARAM_ENTITY_BIAS],
        .from_stride = 1,
        .from_ids = &pass->triples->tail,
        .ids_stride = TRIPLE_IDS,
        .to = out,
        .to_stride = 1,
    };
    if (bias.from)
        pass->be->rows(pass->be, &bias);
    else
        memset(out, 0, pass->n * num_bytes(weights->dtype));
    pass->be->dots(pass->be, &(struct num_dots){
                                 .dtype = weights->dtype,
                                 .n = pass->n,
                                 .len = dim,
                                 .a = pass->x,
                                 .a_stride = dim,
                                 .b = weights->at[PARAM_ENTITY],
                                 .b_stride = dim,
                                 .b_ids = &pass->triples->tail,
                                 .ids_stride = TRIPLE_IDS,
                                 .out = out,
                             });
}

static void scores_of_all(const struct conve_pass *pass, void *out)
{
    const struct conve_weights *weights = pass->weights;
    size_t dim = conve_dim(&weights->shape), n_entities = weights->shape.n_entities;
    const void *bias = weights->at[PARAM_ENTITY_BIAS];
    if (bias)
        pass->be->rows(pass->be, &(struct num_rows){
                                     .dtype = weights->dtype,
                                     .n = pass->n,
                                     .pieces = 1,
                                     .len = n_entities,
                                     .from = bias,
                                     .to = out,
                                     .to_stride = n_entities,
                                 });
    pass->be->gemm(pass->be, &(struct num_gemm){
                                 .dtype = weights->dtype,
                                 .trans_b = true,
                                 .m = pass->n,
                                 .n = n_entities,
                                 .k = dim,
                                 .lda = dim,
                                 .ldb = dim,
                                 .ldc = n_entities,
                                 .alpha = 1,
                                 .beta = bias ? 1 : 0,
                                 .a = pass->x,
                                 .b = weights->at[PARAM_ENTITY],
                                 .c = out,
                             });
}

void conve_scores(const struct conve_pass *pass, bool is_all, void *out)
{
    if (is_all)
        scores_of_all(pass, out);
    else
        scores_of_tails(pass, out);
}
