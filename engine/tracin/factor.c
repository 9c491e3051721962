/* SPDX-License-Identifier: Apache-2.0 */
#include "tracin/factor.h"

#include "conve/layers.h"

struct job {
    const struct num_backend *be;
    const struct factor_plan *plan;
    const struct conve_weights *weights;
    struct factor_scratch *scratch;
    const struct triple *triples; /* in memory of the backend; this code does not read them */
    size_t n, first;              /* first: the job's first row in factors */
    struct factors *factors;
    const void *features_row; /* the row of features of each triple, counted from `first`; NULL:
                               * no rows are shared */
};

/* Returns `array` from the job's first row on; NULL if array is NULL. */
static void *rows_at(const struct job *job, void *array, size_t width)
{
    return array ? num_at(job->plan->dtype, array, job->first * width) : NULL;
}

/* Returns where gradients of a small parameter go; NULL if they are not asked for. */
static void *small_at(const struct job *job, enum conve_param param)
{
    size_t at = job->plan->small_at[param];
    return at == SIZE_MAX ? NULL
                          : num_at(job->plan->dtype, job->factors->small,
                                   job->first * job->plan->n_small + at);
}

static void norm_forward(const struct job *job, enum conve_norm which, const void *x, bool relu,
                         void *y)
{
    layer_norm(job->be, job->weights, which, conve_running(job->weights, which), job->n, x, relu,
               y);
}

/* Computes each sample's own gradients of weight and bias. d becomes the gradient at x. */
static void norm_backward(const struct job *job, enum conve_norm which, const void *x,
                          const void *y, void *d)
{
    const struct conve_weights *w = job->weights;
    struct conve_norm_params params = conve_norm_params(&w->shape, which);
    struct num_norm_back op = layer_norm_back(w, which, conve_running(w, which), job->n, x, y, d);
    op.d_weight = small_at(job, params.weight);
    op.d_bias = small_at(job, params.bias);
    op.dx = d;
    op.d_weight_stride = op.d_bias_stride = job->plan->n_small;
    job->be->norm_back(job->be, &op);
}

/*
 * Computes bn1 as a factor and a summand of the convolution's output: scale = weight inv_std, shift
 * = bias - mean scale.
 */
static void bn1_fold(const struct job *job)
{
    const struct conve_weights *w = job->weights;
    size_t filters = w->shape.n_filters;
    struct num_multiply op = {
        w->dtype, filters, 1, 0, w->at[PARAM_BN1_WEIGHT], w->inv_std[NORM_BN1]};
    op.y = job->scratch->scale;
    job->be->multiply(job->be, &op);
    job->be->copy(job->be, job->scratch->shift, w->at[PARAM_BN1_BIAS],
                  filters * num_bytes(w->dtype));
    job->be->multiply(job->be,
                      &(struct num_multiply){w->dtype, filters, -1, 1, w->at[PARAM_BN1_MEAN],
                                             job->scratch->scale, job->scratch->shift});
}

static void features_compute(const struct job *job)
{
    const struct conve_weights *w = job->weights;
    const struct conve_shape *shape = &w->shape;
    struct factor_scratch *s = job->scratch;
    conve_image_gather(job->be, w, job->triples, job->n, s->image);
    norm_forward(job, NORM_BN0, s->image, false, s->normed);
    bn1_fold(job);
    struct num_conv conv = layer_conv(
        w, job->n, s->normed, rows_at(job, job->factors->features, conve_n_features(shape)));
    conv.scale = s->scale;
    conv.shift = s->shift;
    conv.relu = true;
    job->be->conv(job->be, &conv);
}

static void x_compute(const struct job *job)
{
    size_t n_features = conve_n_features(&job->weights->shape);
    layer_fc(job->be, job->weights, job->n, rows_at(job, job->factors->features, n_features),
             job->scratch->u);
    norm_forward(job, NORM_BN2, job->scratch->u, true, job->scratch->x);
}

/* The slope of TRACIN_POSITIVE. d becomes the gradient at x. */
static void loss_of_tail(const struct job *job)
{
    const struct factor_plan *plan = job->plan;
    size_t dim = conve_dim(&plan->shape);
    void *slope = rows_at(job, job->factors->slope, 1), *x = job->scratch->x;
    layer_tails(job->be, job->weights, job->triples, job->n, x, slope);
    job->be->logistic(job->be,
                      &(struct num_logistic){plan->dtype, job->n, 1, 1, slope, .slope = slope});
    layer_tails_back(job->be, job->weights, job->triples, job->n, slope, job->scratch->d);
    if (job->factors->tail)
        job->be->rows(job->be, &(struct num_rows){
                                   .dtype = plan->dtype,
                                   .n = job->n,
                                   .pieces = 1,
                                   .len = dim,
                                   .from = x,
                                   .from_stride = dim,
                                   .factor = slope,
                                   .to = rows_at(job, job->factors->tail, dim),
                                   .to_stride = dim,
                               });
}

void factors_places(const struct num_backend *be, const struct factor_plan *plan,
                    struct factors *factors, enum factor_end end, size_t at, size_t n)
{
    const struct triple *triples = factors->triples + at;
    uint32_t *places = factors->host.index + at;
    for (size_t i = 0; i < n; i++)
        places[i] = (uint32_t)(i * plan->shape.n_entities +
                               (end == END_HEAD ? triples[i].head : triples[i].tail));
    be->upload(be, (uint32_t *)factors->place + at, places, n * sizeof(*places));
}

/* Copies, for each triple, the element at its place from a matrix to a column or back. */
static void own_move(const struct job *job, const void *from, const void *from_ids, void *to,
                     const void *to_ids)
{
    job->be->rows(job->be, &(struct num_rows){
                               .dtype = job->plan->dtype,
                               .n = job->n,
                               .pieces = 1,
                               .len = 1,
                               .from = from,
                               .from_stride = 1,
                               .from_ids = from_ids,
                               .to = to,
                               .to_stride = 1,
                               .to_ids = to_ids,
                               .ids_stride = 1,
                           });
}

/*
 * A label is smoothing / N, and that of the tail 1 - smoothing more, as the plain implementation
 * trains. The tail's slope is computed separately: computed as the slope of any other entity minus
 * 1, it would lose digits.
 */
static void loss_of_all(const struct job *job)
{
    const struct factor_plan *plan = job->plan;
    size_t dim = conve_dim(&plan->shape), n_entities = plan->shape.n_entities;
    void *slopes = rows_at(job, job->factors->slopes, n_entities), *own = job->scratch->own;
    const uint32_t *place = (const uint32_t *)job->factors->place + job->first;
    double factor = 1 / (double)n_entities, label = plan->label_smoothing * factor;
    double own_label = label + 1 - plan->label_smoothing;
    const struct tail_range all = {0, n_entities};
    layer_all_tails(job->be, job->weights, all, job->n, job->scratch->x, slopes);
    factors_places(job->be, plan, job->factors, END_TAIL, job->first, job->n);
    own_move(job, slopes, place, own, NULL);
    job->be->logistic(
        job->be, &(struct num_logistic){plan->dtype, job->n, own_label, factor, own, .slope = own});
    job->be->logistic(job->be, &(struct num_logistic){plan->dtype, job->n * n_entities, label,
                                                      factor, slopes, .slope = slopes});
    own_move(job, own, NULL, slopes, place);
    job->be->copy(job->be, rows_at(job, job->factors->x, dim), job->scratch->x,
                  job->n * dim * num_bytes(plan->dtype));
    layer_all_tails_back(job->be, job->weights, all, job->n, slopes, 0, job->scratch->d);
}

static void du_keep(const struct job *job)
{
    size_t dim = conve_dim(&job->plan->shape);
    size_t bytes = job->n * dim * num_bytes(job->plan->dtype);
    job->be->copy(job->be, rows_at(job, job->factors->du, dim), job->scratch->d, bytes);
    void *fc_bias = small_at(job, PARAM_FC_BIAS);
    if (fc_bias)
        job->be->rows(job->be, &(struct num_rows){
                                   .dtype = job->plan->dtype,
                                   .n = job->n,
                                   .pieces = 1,
                                   .len = dim,
                                   .from = job->scratch->d,
                                   .from_stride = dim,
                                   .to = fc_bias,
                                   .to_stride = job->plan->n_small,
                               });
}

/* Goes back through fc and the convolution, to the rows of head and relation. */
static void convolution_back(const struct job *job)
{
    const struct conve_weights *w = job->weights;
    const struct conve_shape *shape = &w->shape;
    struct factor_scratch *s = job->scratch;
    size_t kernel = conve_kernel_size(shape), filters = shape->n_filters;
    struct num_conv_back back = layer_conv_back(w, job->n, s->normed, s->d_features);
    back.scale = s->scale;
    back.y = rows_at(job, job->factors->features, conve_n_features(shape));
    back.y_rows = job->features_row;
    back.d_weight = s->sums;
    back.d_sum = s->d_sum;
    back.dx = s->d_image;
    back.d_weight_stride = filters * kernel;
    back.d_sum_stride = filters;
    job->be->conv_back(job->be, &back);
    job->be->conv_norm(job->be, &(struct num_conv_norm){
                                    .dtype = w->dtype,
                                    .n = job->n,
                                    .n_filters = filters,
                                    .kernel = kernel,
                                    .d_weight_sum = s->sums,
                                    .d_sum = s->d_sum,
                                    .weight = w->at[PARAM_CONV_WEIGHT],
                                    .bias = w->at[PARAM_CONV_BIAS],
                                    .mean = w->at[PARAM_BN1_MEAN],
                                    .inv_std = w->inv_std[NORM_BN1],
                                    .norm_weight = w->at[PARAM_BN1_WEIGHT],
                                    .d_weight = small_at(job, PARAM_CONV_WEIGHT),
                                    .d_bias = small_at(job, PARAM_CONV_BIAS),
                                    .d_norm_weight = small_at(job, PARAM_BN1_WEIGHT),
                                    .d_norm_bias = small_at(job, PARAM_BN1_BIAS),
                                    .stride = job->plan->n_small,
                                });
}

static void deep_back(const struct job *job)
{
    const struct conve_weights *w = job->weights;
    struct factor_scratch *s = job->scratch;
    size_t dim = conve_dim(&w->shape);
    layer_fc_back(job->be, w, job->n, s->d, s->d_features);
    convolution_back(job);
    norm_backward(job, NORM_BN0, s->image, NULL, s->d_image);
    if (job->factors->head)
        conve_image_half(job->be, w, HALF_HEAD, s->d_image, job->n, NULL,
                         rows_at(job, job->factors->head, dim));
    if (job->factors->relation)
        conve_image_half(job->be, w, HALF_RELATION, s->d_image, job->n, NULL,
                         rows_at(job, job->factors->relation, dim));
}

/* ---- what is shared ---- */

/* firsts: the first of neighbours with the same head and relation. Returns the number of firsts. */
static size_t rows_share(const struct triple *triples, size_t n, struct triple *firsts,
                         uint32_t *features_row)
{
    size_t n_rows = 0;
    for (size_t i = 0; i < n; i++) {
        const struct triple *last = n_rows ? &firsts[n_rows - 1] : NULL;
        if (!last || last->head != triples[i].head || last->relation != triples[i].relation)
            firsts[n_rows++] = triples[i];
        features_row[i] = (uint32_t)(n_rows - 1);
    }
    return n_rows;
}

/* Copies shared rows to *spare, so that each triple has one, and swaps *at and *spare. */
static void rows_spread(const struct job *job, void **at, void **spare, size_t width)
{
    void *spread = *spare;
    job->be->rows(job->be, &(struct num_rows){
                               .dtype = job->plan->dtype,
                               .n = job->n,
                               .pieces = 1,
                               .len = width,
                               .from = *at,
                               .from_stride = width,
                               .from_ids = job->features_row,
                               .ids_stride = 1,
                               .to = spread,
                               .to_stride = width,
                           });
    *spare = *at;
    *at = spread;
}

/* Computes everything up to x, once for each head and relation. */
static void x_compute_shared(const struct job *job, size_t n_rows)
{
    struct job once = *job;
    struct factor_scratch *s = job->scratch;
    size_t dim = conve_dim(&job->plan->shape), image = conve_image_size(&job->plan->shape);
    once.triples = job->factors->first_ids;
    once.n = n_rows;
    features_compute(&once);
    x_compute(&once);
    if (n_rows == job->n)
        return;
    rows_spread(job, &s->image, &s->spare_image, image);
    rows_spread(job, &s->normed, &s->spare_image, image);
    rows_spread(job, &s->u, &s->spare_dim, dim);
    rows_spread(job, &s->x, &s->spare_dim, dim);
}

/* Computes what follows x. From there on triples share nothing. */
static void gradients_compute(const struct job *job)
{
    if (job->plan->is_all)
        loss_of_all(job);
    else
        loss_of_tail(job);
    norm_backward(job, NORM_BN2, job->scratch->u, job->scratch->x, job->scratch->d);
    du_keep(job);
    if (job->plan->is_deep)
        deep_back(job);
}

void factors_compute(const struct num_backend *be, const struct factor_plan *plan,
                     const struct conve_weights *weights, struct factor_scratch *scratch,
                     struct factors *factors, size_t at, size_t n)
{
    struct triple *ids = (struct triple *)factors->ids + at;
    struct job job = {be, plan, weights, scratch, ids, n, at, factors, NULL};
    uint32_t *rows = factors->host.index + at;
    for (size_t i = 0; i < n; i++)
        rows[i] = (uint32_t)(at + i);
    be->upload(be, (uint32_t *)factors->features_row + at, rows, n * sizeof(*rows));
    be->upload(be, ids, factors->triples + at, n * sizeof(*ids));
    features_compute(&job);
    x_compute(&job);
    gradients_compute(&job);
}

void factors_compute_shared(const struct num_backend *be, const struct factor_plan *plan,
                            const struct conve_weights *weights, struct factor_scratch *scratch,
                            struct factors *factors)
{
    size_t n = factors->n;
    uint32_t *rows = factors->host.index;
    struct triple *firsts = factors->host.firsts;
    struct job job = {
        be, plan, weights, scratch, factors->ids, n, 0, factors, factors->features_row};
    factors->n_features = rows_share(factors->triples, n, firsts, rows);
    be->upload(be, factors->ids, factors->triples, n * sizeof(*factors->triples));
    be->upload(be, factors->first_ids, firsts, factors->n_features * sizeof(*firsts));
    be->upload(be, factors->features_row, rows, n * sizeof(*rows));
    x_compute_shared(&job, factors->n_features);
    gradients_compute(&job);
}

void factors_round(const struct num_backend *be, const struct factor_plan *plan,
                   const struct factors *factors)
{
    size_t dim = conve_dim(&plan->shape), n_features = conve_n_features(&plan->shape);
    if (plan->format == NUM_FULL || !plan->has_fc_weight)
        return;
    be->round(be, &(struct num_round){plan->format, factors->n, dim, factors->du});
    be->round(
        be, &(struct num_round){plan->format, factors->n_features, n_features, factors->features});
}
