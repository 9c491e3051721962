/* SPDX-License-Identifier: Apache-2.0
 *
 * What a step works in, and how its work is dealt out.
 */
#include <stdlib.h>

#include "base/attr.h"
#include "base/xalloc.h"
#include "train/step_impl.h"

/* ---- pieces ---- */

void step_phase(struct train_step *step, size_t n, size_t size, make_fn *make,
                hand_over_fn *hand_over)
{
    struct err err;
    const struct crew_work work = {step, (n + size - 1) / size, make, hand_over};
    int rc = crew_run(step->crew, &work, &err);
    ASSERT(rc == 0); /* nothing in a step can fail */
}

size_t step_n_pieces(const struct train_step *step)
{
    return (step->batch.n + ROWS - 1) / ROWS;
}

struct rows_piece step_rows(const struct train_step *step, size_t piece)
{
    size_t begin = piece * ROWS;
    return (struct rows_piece){begin, MIN((size_t)ROWS, step->batch.n - begin)};
}

void *step_at(const struct train_step *step, void *array, struct rows_piece rows, size_t width)
{
    return num_at(step->weights->dtype, array, rows.begin * width);
}

struct drop_size step_drop_size(const struct conve_shape *shape, enum train_dropout place)
{
    switch (place) {
    case DROPOUT_INPUT:
        return (struct drop_size){conve_image_size(shape), 1};
    case DROPOUT_FEATURES:
        return (struct drop_size){shape->n_filters, conve_n_features(shape) / shape->n_filters};
    case DROPOUT_OUTPUT:
        return (struct drop_size){conve_dim(shape), 1};
    case DROPOUT_N:
        break;
    }
    BUG("dropout %d", (int)place);
}

void step_drop(const struct train_step *step, enum train_dropout place, struct rows_piece rows,
               void *at)
{
    struct drop_size size = step_drop_size(&step->weights->shape, place);
    if (step->masks[place])
        step->be->rows(step->be, &(struct num_rows){
                                     .dtype = step->weights->dtype,
                                     .n = rows.n * size.n,
                                     .pieces = 1,
                                     .len = size.len,
                                     .from = at,
                                     .from_stride = size.len,
                                     .factor = step_at(step, step->masks[place], rows, size.n),
                                     .to = at,
                                     .to_stride = size.len,
                                 });
}

void step_sum(const struct train_step *step, const void *rows, size_t n, size_t len, bool adds,
              void *sum)
{
    struct num_rows op = {
        .dtype = step->weights->dtype,
        .n = 1,
        .pieces = 1,
        .len = len,
        .from = rows,
        .from_stride = len,
        .to = sum,
        .add = adds,
    };
    step->be->rows(step->be, &op);
    op.n = n - 1;
    op.from = num_at_const(op.dtype, rows, len);
    op.add = true;
    step->be->rows(step->be, &op);
}

struct norm_stats step_stats(const struct train_step *step, enum conve_norm norm)
{
    return (struct norm_stats){step->mean[norm], step->inv_std[norm]};
}

/* ---- room ---- */

struct room {
    void **at;
    size_t size; /* elements; 0: not needed */
};

enum {
    ROOMS = 15 + DROPOUT_N + 3 * NORM_N
};

struct rooms {
    struct room at[ROOMS];
};

static struct rooms rooms_of(struct train_step *step)
{
    const struct conve_shape *shape = &step->weights->shape;
    size_t n = step->n_max, n_pieces = (n + ROWS - 1) / ROWS;
    size_t dim = conve_dim(shape), channels = MAX(dim, shape->n_filters);
    size_t image = conve_image_size(shape), features = conve_n_features(shape);
    struct rooms rooms = {{
        {&step->image, n * image},
        {&step->normed, n * image},
        {&step->maps, n * features},
        {&step->features, n * features},
        {&step->u, n * dim},
        {&step->x, n * dim},
        {&step->d, n * dim},
        {&step->d_features, n * features},
        {&step->d_image, n * image},
        {&step->ones, MAX(n, channels)},
        {&step->piece_means, n_pieces * channels},
        {&step->piece_vars, n_pieces * channels},
        {&step->mean_dz, channels},
        {&step->mean_dz_xh, channels},
        {&step->piece_sums, n_pieces * shape->n_filters * (conve_kernel_size(shape) + 1)},
    }};
    size_t at = 15;
    for (unsigned place = 0; place < DROPOUT_N; place++) {
        size_t size = n * step_drop_size(shape, (enum train_dropout)place).n;
        rooms.at[at++] =
            (struct room){&step->masks[place], step->mode.dropout[place] > 0 ? size : 0};
    }
    for (unsigned norm = 0; norm < NORM_N; norm++) {
        size_t size = conve_norm_params(shape, (enum conve_norm)norm).channels;
        rooms.at[at++] = (struct room){&step->mean[norm], size};
        rooms.at[at++] = (struct room){&step->var[norm], size};
        rooms.at[at++] = (struct room){&step->inv_std[norm], size};
    }
    return rooms;
}

static void ones_put(struct train_step *step, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (step->weights->dtype == NUM_F64)
            ((double *)step->ones)[i] = 1;
        else
            ((float *)step->ones)[i] = 1;
}

struct train_step *train_step_new(const struct num_backend *be, struct crew *crew,
                                  const struct conve_weights *weights,
                                  const struct train_mode *mode, size_t n_max)
{
    struct train_step *step = xcalloc(1, sizeof(*step));
    const struct conve_shape *shape = &weights->shape;
    size_t bytes = num_bytes(weights->dtype), dim = conve_dim(shape);
    *step = (struct train_step){
        .be = be, .crew = crew, .weights = weights, .mode = *mode, .n_max = n_max};
    struct rooms rooms = rooms_of(step);
    for (size_t i = 0; i < ROOMS; i++)
        if (rooms.at[i].size)
            *rooms.at[i].at = xcalloc(rooms.at[i].size, bytes);
    ones_put(step, MAX(MAX(n_max, dim), shape->n_filters));
    step->counts = xcalloc((n_max + ROWS - 1) / ROWS, sizeof(*step->counts));
    step->benches = xcalloc(crew_n_threads(crew), sizeof(*step->benches));
    for (unsigned i = 0; i < crew_n_threads(crew); i++) {
        step->benches[i].scores = xmalloc(n_max * TILE * bytes);
        step->benches[i].partial = xmalloc(n_max * dim * bytes);
    }
    return step;
}

void train_step_free(struct train_step *step)
{
    if (!step)
        return;
    struct rooms rooms = rooms_of(step);
    for (size_t i = 0; i < ROOMS; i++)
        free(*rooms.at[i].at);
    for (unsigned i = 0; i < crew_n_threads(step->crew); i++) {
        free(step->benches[i].scores);
        free(step->benches[i].partial);
    }
    free(step->benches);
    free(step->counts);
    free(step);
}
