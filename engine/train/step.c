/* SPDX-License-Identifier: Apache-2.0
 *
 * The forward pass, up to the scores.
 */
#include "train/step.h"

#include <string.h>

#include "base/attr.h"
#include "train/step_impl.h"

/* ---- the batch ---- */

void step_take(struct train_step *step, const struct train_batch *batch)
{
    const struct num_backend *be = step->be;
    size_t n_tails = batch->begins[batch->n];
    ASSERT(batch->n >= 2 && batch->n <= step->limits.n_questions);
    ASSERT(n_tails <= step->limits.n_tails);
    step->batch.n = batch->n;
    step->own.rows = team_part(step->mode.team, step_n_pieces(step));
    be->upload(be, step->batch.questions, batch->questions, batch->n * sizeof(*batch->questions));
    be->upload(be, step->batch.begins, batch->begins, (batch->n + 1) * sizeof(*batch->begins));
    be->upload(be, step->batch.positives, batch->positives, n_tails * sizeof(*batch->positives));
    for (size_t piece = 0; piece < step_n_pieces(step); piece++)
        step->host.counts[piece] = step_rows(step, piece).n;
    be->upload(be, step->counts, step->host.counts, step_n_pieces(step) * sizeof(*step->counts));
}

/* ---- batch norm ---- */

/* Computes the statistics of one piece of rows of x, for stats_merge(). */
static void piece_stats(const struct train_step *step, enum conve_norm norm, size_t piece, void *x)
{
    struct conve_norm_params params = conve_norm_params(&step->weights->shape, norm);
    enum num_dtype dtype = step->weights->dtype;
    struct rows_piece rows = step_rows(step, piece);
    step->be->norm_stats(step->be,
                         &(struct num_norm_stats){
                             .dtype = dtype,
                             .n = rows.n,
                             .channels = params.channels,
                             .places = params.places,
                             .x = step_at(step, x, rows, params.channels * params.places),
                             .mean = num_at(dtype, step->norm.piece_means, piece * params.channels),
                             .var = num_at(dtype, step->norm.piece_vars, piece * params.channels),
                         });
}

static void stats_merge(struct train_step *step, enum conve_norm norm)
{
    step_gather_norm(step, norm);
    step->be->norm_merge(step->be,
                         &(struct num_norm_merge){
                             .dtype = step->weights->dtype,
                             .n_pieces = step_n_pieces(step),
                             .channels = conve_norm_params(&step->weights->shape, norm).channels,
                             .counts = step->counts,
                             .eps = step->weights->shape.bn_eps,
                             .means = step->norm.piece_means,
                             .vars = step->norm.piece_vars,
                             .mean = step->norm.mean[norm],
                             .var = step->norm.var[norm],
                             .inv_std = step->norm.inv_std[norm],
                         });
}

static void norm(const struct train_step *step, enum conve_norm which, struct rows_piece rows,
                 void *x, bool relu, void *y)
{
    struct conve_norm_params params = conve_norm_params(&step->weights->shape, which);
    size_t width = params.channels * params.places;
    layer_norm(step->be, step->weights, which, step_stats(step, which), rows.n,
               step_at(step, x, rows, width), relu, step_at(step, y, rows, width));
}

void train_step_track(const struct train_step *step, enum conve_norm norm, double momentum,
                      void *mean, void *var)
{
    struct conve_norm_params params = conve_norm_params(&step->weights->shape, norm);
    double count = (double)(step->batch.n * params.places);
    struct num_multiply op = {.dtype = step->weights->dtype,
                              .n = params.channels,
                              .alpha = momentum,
                              .beta = 1 - momentum,
                              .a = step->norm.mean[norm],
                              .b = step->ones,
                              .y = mean};
    step->be->multiply(step->be, &op);
    op.alpha *= count / (count - 1);
    op.a = step->norm.var[norm];
    op.y = var;
    step->be->multiply(step->be, &op);
}

/* ---- from images to x ---- */

static void images_make(void *context, unsigned thread, size_t piece)
{
    struct train_step *step = context;
    struct rows_piece rows = step_rows(step, piece);
    void *image = step_at(step, step->image, rows, conve_image_size(&step->weights->shape));
    (void)thread;
    conve_image_gather(step->be, step->weights, step->batch.questions + rows.begin, rows.n, image);
    if (step->mode.drops_before_bn0)
        step_drop(step, DROPOUT_INPUT, rows, image);
    piece_stats(step, NORM_BN0, piece, step->image);
}

static void maps_make(void *context, unsigned thread, size_t piece)
{
    struct train_step *step = context;
    const struct conve_shape *shape = &step->weights->shape;
    struct rows_piece rows = step_rows(step, piece);
    void *normed = step_at(step, step->normed, rows, conve_image_size(shape));
    (void)thread;
    norm(step, NORM_BN0, rows, step->image, false, step->normed);
    if (!step->mode.drops_before_bn0)
        step_drop(step, DROPOUT_INPUT, rows, normed);
    struct num_conv conv = layer_conv(step->weights, rows.n, normed,
                                      step_at(step, step->maps, rows, conve_n_features(shape)));
    step->be->conv(step->be, &conv);
    piece_stats(step, NORM_BN1, piece, step->maps);
}

static void features_make(void *context, unsigned thread, size_t piece)
{
    struct train_step *step = context;
    struct rows_piece rows = step_rows(step, piece);
    (void)thread;
    norm(step, NORM_BN1, rows, step->maps, true, step->features);
    step_drop(step, DROPOUT_FEATURES, rows,
              step_at(step, step->features, rows, conve_n_features(&step->weights->shape)));
}

/* Computes the part of u that comes from some columns of features. */
static void fc_make(void *context, unsigned thread, size_t piece)
{
    struct train_step *step = context;
    enum num_dtype dtype = step->weights->dtype;
    size_t dim = conve_dim(&step->weights->shape), all = conve_n_features(&step->weights->shape);
    size_t begin = piece * step->cut.columns;
    struct num_gemm op = {.trans_b = true, .m = step->batch.n, .n = dim, .lda = all, .ldb = all};
    op.k = MIN(step->cut.columns, all - begin);
    op.a = num_at(dtype, step->features, begin);
    op.b = num_at_const(dtype, step->weights->at[PARAM_FC_WEIGHT], begin);
    op.c = step_partial(step, thread, piece - step->own.columns.first);
    op.format = step->mode.format;
    layer_product(step->be, step->weights, op);
}

static int fc_add(void *context, unsigned thread, size_t piece, struct err *err)
{
    struct train_step *step = context;
    (void)piece, (void)err;
    if (step_adds_partials(step))
        step_sum(step, step->benches[thread].partial, 1,
                 step->batch.n * conve_dim(&step->weights->shape), true, step->u);
    return 0;
}

static void fc_bias_put(const struct train_step *step)
{
    size_t dim = conve_dim(&step->weights->shape);
    step->be->rows(step->be, &(struct num_rows){
                                 .dtype = step->weights->dtype,
                                 .n = step->batch.n,
                                 .pieces = 1,
                                 .len = dim,
                                 .from = step->weights->at[PARAM_FC_BIAS],
                                 .to = step->u,
                                 .to_stride = dim,
                             });
}

static void output_make(void *context, unsigned thread, size_t piece)
{
    struct train_step *step = context;
    struct rows_piece rows = step_rows(step, piece);
    (void)thread;
    step_drop(step, DROPOUT_OUTPUT, rows,
              step_at(step, step->u, rows, conve_dim(&step->weights->shape)));
    piece_stats(step, NORM_BN2, piece, step->u);
}

static void x_make(void *context, unsigned thread, size_t piece)
{
    struct train_step *step = context;
    (void)thread;
    norm(step, NORM_BN2, step_rows(step, piece), step->u, true, step->x);
}

void step_forward(struct train_step *step)
{
    const struct conve_shape *shape = &step->weights->shape;
    step_phase(step, step->own.rows, images_make, NULL);
    stats_merge(step, NORM_BN0);
    step_phase(step, step->own.rows, maps_make, NULL);
    stats_merge(step, NORM_BN1);
    step_phase(step, step->own.rows, features_make, NULL);
    step_gather_rows(step, step->features, conve_n_features(shape));
    fc_bias_put(step);
    step_phase(step, step->own.columns, fc_make, fc_add);
    step_sum_on(step, step_n_columns(step), step->u);
    step_phase(step, step->own.rows, output_make, NULL);
    stats_merge(step, NORM_BN2);
    step_phase(step, step->own.rows, x_make, NULL);
    step_gather_rows(step, step->x, conve_dim(shape));
}

/* ---- the whole ---- */

void train_step_format(struct train_step *step, enum num_format format)
{
    ASSERT(format == NUM_FULL || step->weights->dtype == NUM_F32);
    step->mode.format = format;
}

int train_step_run(struct train_step *step, const struct train_batch *batch, uint64_t seed,
                   double share, bool adds, struct conve_gradients *gradients, double *loss,
                   struct err *err)
{
    size_t n_entities = step->weights->shape.n_entities, n_tiles = step_n_tiles(step);
    step->batch.seed = seed;
    step->batch.share = share;
    step->batch.adds = adds;
    step->batch.gradients = gradients;
    step_take(step, batch);
    step_forward(step);
    step_scores(step);
    step_back(step);
    int rc = step->be->download(step->be, step->host.losses, step->losses,
                                n_tiles * sizeof(*step->losses), err);
    *loss = 0;
    for (size_t i = 0; i < n_tiles; i++)
        *loss += step->host.losses[i];
    *loss /= (double)batch->n * (double)n_entities;
    if (rc == 0)
        rc = team_check(step->mode.team, err);
    return rc == 0 && thread_pool_is_stopped(step->pool) ? fail(err, ERR_STOPPED, "told to stop")
                                                         : rc;
}
