/* SPDX-License-Identifier: Apache-2.0
 *
 * The scores, and the backward pass from the scores to the tables.
 */
#include <string.h>

#include "base/attr.h"
#include "train/step_impl.h"

/* ---- scores ---- */

/* Computes a product whose result is a gradient, which is set or added to. */
static void product(const struct train_step *step, struct num_gemm op)
{
    op.beta = step->batch.adds ? 1 : 0;
    layer_product(step->be, step->weights, op);
}

static struct tail_range tile_of(const struct train_step *step, size_t piece)
{
    size_t n_entities = step->weights->shape.n_entities, begin = piece * step->cut.tile;
    return (struct tail_range){begin, MIN(step->cut.tile, n_entities - begin), step->mode.format};
}

/* Computes the gradients of a tile of the entities' table, and of the biases of its entities. */
static void tile_gradients(const struct train_step *step, struct tail_range tails,
                           const void *slopes)
{
    enum num_dtype dtype = step->weights->dtype;
    size_t dim = conve_dim(&step->weights->shape);
    struct num_gemm op = {
        .trans_a = true, .m = tails.count, .n = dim, .k = step->batch.n, .a = slopes};
    op.b = step->x;
    op.c = num_at(dtype, step->batch.gradients->at[PARAM_ENTITY], tails.begin * dim);
    op.format = tails.format;
    product(step, op);
    if (!step->batch.gradients->at[PARAM_ENTITY_BIAS])
        return;
    op.format = NUM_FULL;
    op.n = 1;
    op.b = step->ones;
    op.c = num_at(dtype, step->batch.gradients->at[PARAM_ENTITY_BIAS], tails.begin);
    product(step, op);
}

static void tile_make(void *context, unsigned thread, size_t piece)
{
    struct train_step *step = context;
    struct train_bench *bench = &step->benches[thread];
    struct tail_range tails = tile_of(step, piece);
    double n_entities = (double)step->weights->shape.n_entities;
    double smoothing = step->mode.label_smoothing;
    layer_all_tails(step->be, step->weights, tails, step->batch.n, step->x, bench->scores);
    step->be->bce(step->be, &(struct num_bce){
                                .dtype = step->weights->dtype,
                                .n = step->batch.n,
                                .m = tails.count,
                                .first = tails.begin,
                                .begins = step->batch.begins,
                                .positives = step->batch.positives,
                                .negative = smoothing / n_entities,
                                .positive = smoothing / n_entities + 1 - smoothing,
                                .factor = step->batch.share / n_entities / (double)step->batch.n,
                                .score = bench->scores,
                                .slope = bench->scores,
                                .loss = &step->losses[piece],
                            });
    tile_gradients(step, tails, bench->scores);
    layer_all_tails_back(step->be, step->weights, tails, step->batch.n, bench->scores, 0,
                         step_partial(step, thread, piece - step->own.tiles.first));
}

static int tile_add(void *context, unsigned thread, size_t piece, struct err *err)
{
    struct train_step *step = context;
    (void)err;
    if (step_adds_partials(step))
        step_sum(step, step->benches[thread].partial, 1,
                 step->batch.n * conve_dim(&step->weights->shape), piece > 0, step->d);
    return 0;
}

void step_scores(struct train_step *step)
{
    step_phase(step, step->own.tiles, tile_make, tile_add);
    step_sum_on(step, step_n_tiles(step), step->d);
    step_gather(step, step->losses, sizeof(*step->losses), step->own.tiles);
}

/* ---- batch norm ---- */

static struct num_norm_back norm_op(const struct train_step *step, enum conve_norm norm,
                                    struct rows_piece rows, void *x, void *y, void *d)
{
    struct conve_norm_params params = conve_norm_params(&step->weights->shape, norm);
    size_t width = params.channels * params.places;
    return layer_norm_back(step->weights, norm, step_stats(step, norm), rows.n,
                           step_at(step, x, rows, width), y ? step_at(step, y, rows, width) : NULL,
                           step_at(step, d, rows, width));
}

/*
 * Sums up a piece of rows for the gradients of weight and bias; the sums are in piece_vars and
 * piece_means.
 */
static void norm_sums(const struct train_step *step, enum conve_norm norm, size_t piece, void *x,
                      void *y, void *d)
{
    struct num_norm_back op = norm_op(step, norm, step_rows(step, piece), x, y, d);
    op.d_weight = num_at(op.dtype, step->norm.piece_vars, piece * op.channels);
    op.d_bias = num_at(op.dtype, step->norm.piece_means, piece * op.channels);
    step->be->norm_back(step->be, &op);
}

/* Computes the gradients of weight and bias, and the means that norm_back() needs. */
static void norm_sums_merge(struct train_step *step, enum conve_norm norm)
{
    step_gather_norm(step, norm);
    struct conve_norm_params params = conve_norm_params(&step->weights->shape, norm);
    step->be->norm_back_merge(step->be, &(struct num_norm_back_merge){
                                            .dtype = step->weights->dtype,
                                            .n_pieces = step_n_pieces(step),
                                            .channels = params.channels,
                                            .share = 1 / (double)(step->batch.n * params.places),
                                            .adds = step->batch.adds,
                                            .sums_dz = step->norm.piece_means,
                                            .sums_dz_xh = step->norm.piece_vars,
                                            .d_bias = step->batch.gradients->at[params.bias],
                                            .d_weight = step->batch.gradients->at[params.weight],
                                            .mean_dz = step->norm.mean_dz,
                                            .mean_dz_xh = step->norm.mean_dz_xh,
                                        });
}

/* Replaces d by the gradient of x. */
static void norm_back(const struct train_step *step, enum conve_norm norm, struct rows_piece rows,
                      void *x, void *y, void *d)
{
    struct num_norm_back op = norm_op(step, norm, rows, x, y, d);
    op.mean_dz = step->norm.mean_dz;
    op.mean_dz_xh = step->norm.mean_dz_xh;
    op.dx = (void *)(uintptr_t)op.dy;
    step->be->norm_back(step->be, &op);
}

/* ---- from x to the tables ---- */

static void output_sums(void *context, unsigned thread, size_t piece)
{
    struct train_step *step = context;
    (void)thread;
    norm_sums(step, NORM_BN2, piece, step->u, step->x, step->d);
}

static void output_back(void *context, unsigned thread, size_t piece)
{
    struct train_step *step = context;
    struct rows_piece rows = step_rows(step, piece);
    (void)thread;
    norm_back(step, NORM_BN2, rows, step->u, step->x, step->d);
    step_drop(step, DROPOUT_OUTPUT, rows,
              step_at(step, step->d, rows, conve_dim(&step->weights->shape)));
}

/* Computes the gradients of some columns of fc's weights, and of the same columns of features. */
static void fc_back(void *context, unsigned thread, size_t piece)
{
    struct train_step *step = context;
    enum num_dtype dtype = step->weights->dtype;
    size_t dim = conve_dim(&step->weights->shape), all = conve_n_features(&step->weights->shape);
    size_t begin = piece * step->cut.columns, n = step->batch.n,
           width = MIN(step->cut.columns, all - begin);
    (void)thread;
    struct num_gemm op = {
        .trans_a = true, .m = dim, .n = width, .k = n, .ldb = all, .ldc = all, .a = step->d};
    op.b = num_at(dtype, step->features, begin);
    op.c = num_at(dtype, step->batch.gradients->at[PARAM_FC_WEIGHT], begin);
    op.format = step->mode.format;
    product(step, op);
    op = (struct num_gemm){.m = n, .n = width, .k = dim, .ldb = all, .a = step->d};
    op.b = num_at_const(dtype, step->weights->at[PARAM_FC_WEIGHT], begin);
    op.ldc = step_columns_at(step, piece, &op.c);
    op.format = step->mode.format;
    layer_product(step->be, step->weights, op);
}

static void fc_bias_back(const struct train_step *step)
{
    struct num_gemm op = {
        .trans_a = true, .n = 1, .k = step->batch.n, .a = step->d, .b = step->ones};
    op.m = conve_dim(&step->weights->shape);
    op.c = step->batch.gradients->at[PARAM_FC_BIAS];
    product(step, op);
}

static void features_sums(void *context, unsigned thread, size_t piece)
{
    struct train_step *step = context;
    struct rows_piece rows = step_rows(step, piece);
    (void)thread;
    step_columns_take(step, rows);
    step_drop(step, DROPOUT_FEATURES, rows,
              step_at(step, step->d_features, rows, conve_n_features(&step->weights->shape)));
    norm_sums(step, NORM_BN1, piece, step->maps, step->features, step->d_features);
}

static void maps_back(void *context, unsigned thread, size_t piece)
{
    struct train_step *step = context;
    const struct conve_shape *shape = &step->weights->shape;
    enum num_dtype dtype = step->weights->dtype;
    struct rows_piece rows = step_rows(step, piece);
    size_t image = conve_image_size(shape), weights = shape->n_filters * conve_kernel_size(shape);
    void *d_image = step_at(step, step->d_image, rows, image);
    (void)thread;
    norm_back(step, NORM_BN1, rows, step->maps, step->features, step->d_features);
    struct num_conv_back conv =
        layer_conv_back(step->weights, rows.n, step_at(step, step->normed, rows, image),
                        step_at(step, step->d_features, rows, conve_n_features(shape)));
    conv.d_weight = num_at(dtype, step->piece_sums, piece * (weights + shape->n_filters));
    conv.d_sum = num_at(dtype, conv.d_weight, weights);
    conv.dx = d_image;
    step->be->conv_back(step->be, &conv);
    if (!step->mode.drops_before_bn0)
        step_drop(step, DROPOUT_INPUT, rows, d_image);
}

/* The sums of a piece are those of the weights, followed by those of the biases. */
static void conv_sums_merge(struct train_step *step)
{
    const struct conve_shape *shape = &step->weights->shape;
    size_t weights = shape->n_filters * conve_kernel_size(shape);
    step_gather(step, step->piece_sums,
                (weights + shape->n_filters) * num_bytes(step->weights->dtype), step->own.rows);
    const struct {
        enum conve_param param;
        size_t at, len;
    } sums[] = {{PARAM_CONV_WEIGHT, 0, weights}, {PARAM_CONV_BIAS, weights, shape->n_filters}};
    for (size_t piece = 0; piece < step_n_pieces(step); piece++)
        for (size_t i = 0; i < countof(sums); i++)
            step_sum(step,
                     num_at(step->weights->dtype, step->piece_sums,
                            piece * (weights + shape->n_filters) + sums[i].at),
                     1, sums[i].len, step->batch.adds || piece > 0,
                     step->batch.gradients->at[sums[i].param]);
}

static void image_sums(void *context, unsigned thread, size_t piece)
{
    struct train_step *step = context;
    (void)thread;
    norm_sums(step, NORM_BN0, piece, step->image, NULL, step->d_image);
}

static void image_back(void *context, unsigned thread, size_t piece)
{
    struct train_step *step = context;
    struct rows_piece rows = step_rows(step, piece);
    (void)thread;
    norm_back(step, NORM_BN0, rows, step->image, NULL, step->d_image);
    if (step->mode.drops_before_bn0)
        step_drop(step, DROPOUT_INPUT, rows,
                  step_at(step, step->d_image, rows, conve_image_size(&step->weights->shape)));
}

/*
 * Adds the gradients of the table rows that the batch uses. step_scores() has set the gradient of
 * the entities' table; that of the relations' table is zeroed here.
 */
static void tables_add(const struct train_step *step)
{
    const struct conve_weights *weights = step->weights;
    void *relations = step->batch.gradients->at[PARAM_RELATION];
    if (!step->batch.adds)
        step->be->fill_zero(step->be, relations,
                            conve_param_dims(&weights->shape, PARAM_RELATION).n_elements *
                                num_bytes(weights->dtype));
    conve_image_half(step->be, weights, HALF_HEAD, step->d_image, step->batch.n,
                     &step->batch.questions->head, step->batch.gradients->at[PARAM_ENTITY]);
    conve_image_half(step->be, weights, HALF_RELATION, step->d_image, step->batch.n,
                     &step->batch.questions->relation, relations);
}

void step_back(struct train_step *step)
{
    const struct conve_shape *shape = &step->weights->shape;
    step_phase(step, step->own.rows, output_sums, NULL);
    norm_sums_merge(step, NORM_BN2);
    step_phase(step, step->own.rows, output_back, NULL);
    step_gather_rows(step, step->d, conve_dim(shape));
    fc_bias_back(step);
    step_phase(step, step->own.columns, fc_back, NULL);
    step_gather_columns(step);
    step_phase(step, step->own.rows, features_sums, NULL);
    norm_sums_merge(step, NORM_BN1);
    step_phase(step, step->own.rows, maps_back, NULL);
    conv_sums_merge(step);
    step_phase(step, step->own.rows, image_sums, NULL);
    norm_sums_merge(step, NORM_BN0);
    step_phase(step, step->own.rows, image_back, NULL);
    step_gather_rows(step, step->d_image, conve_image_size(shape));
    tables_add(step);
}
