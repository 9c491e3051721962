/* SPDX-License-Identifier: Apache-2.0
 *
 * The way forward, up to the scores.
 */
#include "train/step.h"

#include <string.h>

#include "base/attr.h"
#include "base/rng.h"
#include "train/step_impl.h"

/* ---- dropout ---- */

/* Each sample draws by itself, so that pieces may be drawn in any order. */
static void mask_draw(const struct train_step *step, enum train_dropout place, size_t sample)
{
    size_t n = step_drop_size(&step->weights->shape, place).n;
    double p = step->mode.dropout[place];
    struct rng rng = {.state = item_seed(item_seed(step->seed, place), sample)};
    for (size_t i = 0; i < n; i++) {
        double keep = rng_unit(&rng) < p ? 0 : 1 / (1 - p);
        if (step->weights->dtype == NUM_F64)
            ((double *)step->masks[place])[sample * n + i] = keep;
        else
            ((float *)step->masks[place])[sample * n + i] = (float)keep;
    }
}

static void masks_draw(void *context, unsigned thread, size_t piece)
{
    const struct train_step *step = context;
    struct rows_piece rows = step_rows(step, piece);
    (void)thread;
    for (unsigned place = 0; place < DROPOUT_N; place++)
        for (size_t i = 0; step->masks[place] && i < rows.n; i++)
            mask_draw(step, (enum train_dropout)place, rows.begin + i);
}

/* ---- batch norm ---- */

/* Of a piece of rows of x, to be merged. */
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
                             .mean = num_at(dtype, step->piece_means, piece * params.channels),
                             .var = num_at(dtype, step->piece_vars, piece * params.channels),
                         });
    step->counts[piece] = rows.n;
}

static void stats_merge(const struct train_step *step, enum conve_norm norm)
{
    step->be->norm_merge(step->be,
                         &(struct num_norm_merge){
                             .dtype = step->weights->dtype,
                             .n_pieces = step_n_pieces(step),
                             .channels = conve_norm_params(&step->weights->shape, norm).channels,
                             .counts = step->counts,
                             .eps = step->weights->shape.bn_eps,
                             .means = step->piece_means,
                             .vars = step->piece_vars,
                             .mean = step->mean[norm],
                             .var = step->var[norm],
                             .inv_std = step->inv_std[norm],
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

struct train_statistics train_step_statistics(const struct train_step *step, enum conve_norm norm)
{
    size_t places = conve_norm_params(&step->weights->shape, norm).places;
    double count = (double)(step->batch.n * places);
    return (struct train_statistics){step->mean[norm], step->var[norm], count / (count - 1)};
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

/* What some columns of features add to u. */
static void fc_make(void *context, unsigned thread, size_t piece)
{
    struct train_step *step = context;
    enum num_dtype dtype = step->weights->dtype;
    size_t dim = conve_dim(&step->weights->shape), all = conve_n_features(&step->weights->shape);
    size_t begin = piece * COLUMNS;
    step->be->gemm(step->be,
                   &(struct num_gemm){
                       .dtype = dtype,
                       .trans_b = true,
                       .m = step->batch.n,
                       .n = dim,
                       .k = MIN((size_t)COLUMNS, all - begin),
                       .lda = all,
                       .ldb = all,
                       .ldc = dim,
                       .alpha = 1,
                       .a = num_at(dtype, step->features, begin),
                       .b = num_at_const(dtype, step->weights->at[PARAM_FC_WEIGHT], begin),
                       .c = step->benches[thread].partial,
                   });
}

static int fc_add(void *context, unsigned thread, size_t piece, struct err *err)
{
    struct train_step *step = context;
    (void)piece, (void)err;
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
    size_t n = step->batch.n;
    step_phase(step, n, ROWS, masks_draw, NULL);
    step_phase(step, n, ROWS, images_make, NULL);
    stats_merge(step, NORM_BN0);
    step_phase(step, n, ROWS, maps_make, NULL);
    stats_merge(step, NORM_BN1);
    step_phase(step, n, ROWS, features_make, NULL);
    fc_bias_put(step);
    step_phase(step, conve_n_features(&step->weights->shape), COLUMNS, fc_make, fc_add);
    step_phase(step, n, ROWS, output_make, NULL);
    stats_merge(step, NORM_BN2);
    step_phase(step, n, ROWS, x_make, NULL);
}

/* ---- the whole ---- */

double train_step_run(struct train_step *step, const struct train_batch *batch, uint64_t seed,
                      double share, bool adds, struct conve_gradients *gradients)
{
    ASSERT(batch->n >= 2 && batch->n <= step->n_max);
    step->batch = *batch;
    step->seed = seed;
    step->share = share;
    step->adds = adds;
    step->gradients = gradients;
    step_forward(step);
    step_scores(step);
    step_back(step);
    return step->loss / (double)batch->n / (double)step->weights->shape.n_entities;
}
