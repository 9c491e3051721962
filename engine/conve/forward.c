/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/rng.h"
#include "base/xalloc.h"
#include "conve/pass.h"

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

static struct norm_stats stats_of(const struct conve_pass *pass, enum conve_norm which)
{
    return pass->mode.is_training ? (struct norm_stats){pass->mean[which], pass->inv_std[which]}
                                  : conve_running(pass->weights, which);
}

static void norm(struct conve_pass *pass, enum conve_norm which, const void *x, bool relu, void *y)
{
    const struct conve_weights *weights = pass->weights;
    struct conve_norm_params params = conve_norm_params(&weights->shape, which);
    if (pass->mode.is_training)
        pass->be->norm_stats(pass->be, &(struct num_norm_stats){
                                           .dtype = weights->dtype,
                                           .n = pass->n,
                                           .channels = params.channels,
                                           .places = params.places,
                                           .eps = weights->shape.bn_eps,
                                           .x = x,
                                           .mean = pass->mean[which],
                                           .var = pass->var[which],
                                           .inv_std = pass->inv_std[which],
                                       });
    layer_norm(pass->be, weights, which, stats_of(pass, which), pass->n, x, relu, y);
}

void conve_forward(struct conve_pass *pass, const struct triple *triples, size_t n)
{
    const struct conve_weights *weights = pass->weights;
    ASSERT(n <= pass->n_max);
    pass->triples = triples;
    pass->n = n;
    conve_image_gather(pass->be, weights, triples, n, pass->image);
    if (pass->mode.drops_before_bn0)
        drop(pass, DROPOUT_INPUT, pass->image);
    norm(pass, NORM_BN0, pass->image, false, pass->normed);
    if (!pass->mode.drops_before_bn0)
        drop(pass, DROPOUT_INPUT, pass->normed);
    struct num_conv conv = layer_conv(weights, n, pass->normed, pass->maps);
    pass->be->conv(pass->be, &conv);
    norm(pass, NORM_BN1, pass->maps, true, pass->features);
    drop(pass, DROPOUT_FEATURES, pass->features);
    layer_fc(pass->be, weights, n, pass->features, pass->fc);
    drop(pass, DROPOUT_OUTPUT, pass->fc);
    norm(pass, NORM_BN2, pass->fc, true, pass->x);
}

void conve_scores(const struct conve_pass *pass, bool is_all, void *out)
{
    const struct tail_range all = {0, pass->weights->shape.n_entities};
    if (is_all)
        layer_all_tails(pass->be, pass->weights, all, pass->n, pass->x, out);
    else
        layer_tails(pass->be, pass->weights, pass->triples, pass->n, pass->x, out);
}
