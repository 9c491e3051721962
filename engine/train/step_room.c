/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory of a step, and how its work is cut into pieces.
 */
#include <stdlib.h>

#include "base/attr.h"
#include "base/rng.h"
#include "base/xalloc.h"
#include "train/step_impl.h"

/* ---- pieces ---- */

struct phase {
    struct train_step *step;
    size_t first;
    make_fn *make;
    hand_over_fn *hand_over;
};

static void phase_make(void *context, unsigned thread, size_t piece)
{
    const struct phase *phase = context;
    phase->make(phase->step, thread, phase->first + piece);
}

static int phase_hand_over(void *context, unsigned thread, size_t piece, struct err *err)
{
    const struct phase *phase = context;
    return phase->hand_over(phase->step, thread, phase->first + piece, err);
}

/* After an error of the team the numbers of the step are of no use, so nothing is computed. */
void step_phase(struct train_step *step, struct team_part own, make_fn *make,
                hand_over_fn *hand_over)
{
    struct err err;
    struct phase phase = {step, own.first, make, hand_over};
    const struct thread_pool_work work = {&phase, own.n, phase_make,
                                          hand_over ? phase_hand_over : NULL};
    if (team_has_failed(step->mode.team))
        return;
    int rc = thread_pool_run(step->pool, &work, &err);
    ASSERT(rc == 0 || rc == ERR_STOPPED); /* nothing in a step can fail */
}

size_t step_n_pieces(const struct train_step *step)
{
    return (step->batch.n + step->cut.rows - 1) / step->cut.rows;
}

struct rows_piece step_rows(const struct train_step *step, size_t piece)
{
    size_t begin = piece * step->cut.rows;
    return (struct rows_piece){begin, MIN(step->cut.rows, step->batch.n - begin)};
}

void *step_at(const struct train_step *step, void *array, struct rows_piece rows, size_t width)
{
    return num_at(step->weights->dtype, array, rows.begin * width);
}

void step_drop(const struct train_step *step, enum train_dropout place, struct rows_piece rows,
               void *at)
{
    const struct conve_shape *shape = &step->weights->shape;
    const struct {
        size_t groups, len;
    } sizes[] = {
        [DROPOUT_INPUT] = {conve_image_size(shape), 1},
        [DROPOUT_FEATURES] = {shape->n_filters, conve_n_features(shape) / shape->n_filters},
        [DROPOUT_OUTPUT] = {conve_dim(shape), 1}};
    if (step->mode.dropout[place] > 0)
        step->be->drop(step->be, &(struct num_drop){
                                     .dtype = step->weights->dtype,
                                     .n = rows.n,
                                     .groups = sizes[place].groups,
                                     .len = sizes[place].len,
                                     .first = rows.begin,
                                     .probability = step->mode.dropout[place],
                                     .seed = item_seed(step->batch.seed, place),
                                     .x = at,
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
    return (struct norm_stats){step->norm.mean[norm], step->norm.inv_std[norm]};
}

/* ---- room ---- */

enum {
    CUT_ROWS = 32, /* the maps of a piece stay in a core's own cache */
    CUT_COLUMNS = 1024,
    CUT_TILE = 1024,
    CUT_TILE_DEVICE = 16384,
    CUT_PARTS_REPRODUCIBLE = 8,
    ROOMS = 22 + 3 * NORM_N
};

struct room {
    void **at;
    size_t bytes;      /* 0: not needed */
    bool is_exchanged; /* for a host backend with ranks: memory that is exchanged best without a
                        * copy */
};

struct rooms {
    struct room at[ROOMS];
    size_t n;
};

static size_t share_of(size_t n, size_t n_parts)
{
    return (n + n_parts - 1) / n_parts;
}

static struct train_cut cut_of(const struct train_step *step)
{
    const struct conve_shape *shape = &step->weights->shape;
    size_t n_parts =
        step->mode.is_reproducible ? (size_t)CUT_PARTS_REPRODUCIBLE : team_size(step->mode.team);
    if (step->be->is_device)
        return (struct train_cut){
            share_of(step->limits.n_questions, n_parts), share_of(conve_n_features(shape), n_parts),
            MIN((size_t)CUT_TILE_DEVICE, share_of(shape->n_entities, n_parts))};
    return (struct train_cut){CUT_ROWS, CUT_COLUMNS, CUT_TILE};
}

/* Rounds up to a number of pieces that makes parts of one size for all ranks. */
static size_t n_whole(const struct train_step *step, size_t n_pieces)
{
    const struct team *team = step->mode.team;
    return team_is_alone(team) ? n_pieces : team_part(team, n_pieces).each * team_size(team);
}

static size_t n_pieces_max(const struct train_step *step)
{
    return n_whole(step, share_of(step->limits.n_questions, step->cut.rows));
}

/* Returns the most rows of an array that is gathered. */
static size_t n_rows_max(const struct train_step *step)
{
    return team_is_alone(step->mode.team) ? step->limits.n_questions
                                          : n_pieces_max(step) * step->cut.rows;
}

size_t step_n_tiles(const struct train_step *step)
{
    return share_of(step->weights->shape.n_entities, step->cut.tile);
}

size_t step_n_columns(const struct train_step *step)
{
    return share_of(conve_n_features(&step->weights->shape), step->cut.columns);
}

static size_t n_ones(const struct train_step *step)
{
    const struct conve_shape *shape = &step->weights->shape;
    return MAX(MAX(step->limits.n_questions, conve_dim(shape)), shape->n_filters);
}

static void room_add(struct rooms *rooms, void *at, size_t bytes)
{
    ASSERT(rooms->n < ROOMS);
    rooms->at[rooms->n++] = (struct room){.at = at, .bytes = bytes};
}

static void exchanged_add(struct rooms *rooms, const struct train_step *step, void *at,
                          size_t bytes)
{
    room_add(rooms, at, bytes);
    rooms->at[rooms->n - 1].is_exchanged = !team_is_alone(step->mode.team) && !step->be->is_device;
}

static void rooms_of_norms(struct rooms *rooms, struct train_step *step)
{
    const struct conve_shape *shape = &step->weights->shape;
    size_t real = num_bytes(step->weights->dtype);
    size_t channels = MAX(conve_dim(shape), shape->n_filters) * real;
    room_add(rooms, &step->norm.piece_means, n_pieces_max(step) * channels);
    room_add(rooms, &step->norm.piece_vars, n_pieces_max(step) * channels);
    room_add(rooms, &step->norm.mean_dz, channels);
    room_add(rooms, &step->norm.mean_dz_xh, channels);
    for (unsigned norm = 0; norm < NORM_N; norm++) {
        size_t bytes = conve_norm_params(shape, (enum conve_norm)norm).channels * real;
        room_add(rooms, &step->norm.mean[norm], bytes);
        room_add(rooms, &step->norm.var[norm], bytes);
        room_add(rooms, &step->norm.inv_std[norm], bytes);
    }
}

/* Adds arrays that ranks exchange, and arrays that only ranks need. */
static void rooms_of_exchange(struct rooms *rooms, struct train_step *step)
{
    const struct conve_shape *shape = &step->weights->shape;
    size_t real = num_bytes(step->weights->dtype), dim = conve_dim(shape);
    size_t n = n_rows_max(step) * real, n_kept = 0, columns = 0;
    const struct team *team = step->mode.team;
    if (!team_is_alone(team))
        columns = n_whole(step, step_n_columns(step)) * step->cut.columns;
    if (!team_is_leader(team))
        n_kept = MAX(step->own.tiles.n, step->own.columns.n);
    exchanged_add(rooms, step, &step->features, n * conve_n_features(shape));
    exchanged_add(rooms, step, &step->u, n * dim);
    exchanged_add(rooms, step, &step->x, n * dim);
    exchanged_add(rooms, step, &step->d, n * dim);
    exchanged_add(rooms, step, &step->d_image, n * conve_image_size(shape));
    exchanged_add(rooms, step, &step->exchange.columns, step->limits.n_questions * columns * real);
    room_add(rooms, &step->exchange.kept, n_kept * step->limits.n_questions * dim * real);
}

/* Returns all arrays in the backend's memory, except those of the benches. */
static struct rooms rooms_of(struct train_step *step)
{
    const struct conve_shape *shape = &step->weights->shape;
    size_t real = num_bytes(step->weights->dtype), n = step->limits.n_questions * real;
    size_t image = conve_image_size(shape), features = conve_n_features(shape);
    struct rooms rooms = {{{&step->image, n * image},
                           {&step->normed, n * image},
                           {&step->maps, n * features},
                           {&step->d_features, n * features},
                           {&step->ones, n_ones(step) * real}},
                          5};
    room_add(&rooms, &step->piece_sums,
             n_pieces_max(step) * shape->n_filters * (conve_kernel_size(shape) + 1) * real);
    room_add(&rooms, &step->losses, n_whole(step, step_n_tiles(step)) * sizeof(double));
    room_add(&rooms, &step->counts, n_pieces_max(step) * sizeof(size_t));
    room_add(&rooms, &step->batch.questions, step->limits.n_questions * sizeof(struct triple));
    room_add(&rooms, &step->batch.begins, (step->limits.n_questions + 1) * sizeof(size_t));
    room_add(&rooms, &step->batch.positives, step->limits.n_tails * sizeof(uint32_t));
    rooms_of_norms(&rooms, step);
    rooms_of_exchange(&rooms, step);
    return rooms;
}

static void ones_put(struct train_step *step)
{
    size_t n = n_ones(step), real = num_bytes(step->weights->dtype);
    void *ones = xcalloc(n, real);
    for (size_t i = 0; i < n; i++)
        if (step->weights->dtype == NUM_F64)
            ((double *)ones)[i] = 1;
        else
            ((float *)ones)[i] = 1;
    step->be->upload(step->be, step->ones, ones, n * real);
    free(ones);
}

static int benches_make(struct train_step *step, struct err *err)
{
    size_t n = step->limits.n_questions * num_bytes(step->weights->dtype);
    int rc = 0;
    step->benches = xcalloc(thread_pool_n_threads(step->pool), sizeof(*step->benches));
    for (unsigned i = 0; rc == 0 && i < thread_pool_n_threads(step->pool); i++) {
        rc = step->be->allocate(step->be, n * step->cut.tile, &step->benches[i].scores, err);
        if (rc == 0)
            rc = step->be->allocate(step->be, n * conve_dim(&step->weights->shape),
                                    &step->benches[i].partial, err);
    }
    return rc;
}

static int room_make(const struct train_step *step, const struct room *room, struct err *err)
{
    if (room->bytes == 0)
        return 0;
    if (!room->is_exchanged)
        return step->be->allocate(step->be, room->bytes, room->at, err);
    *room->at = team_buffer_new(step->mode.team, room->bytes);
    return *room->at ? 0 : team_check(step->mode.team, err);
}

static int rooms_make(struct train_step *step, struct err *err)
{
    struct rooms rooms = rooms_of(step);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < rooms.n; i++)
        rc = room_make(step, &rooms.at[i], err);
    return rc == 0 ? benches_make(step, err) : rc;
}

int train_step_new(struct train_step **out, const struct num_backend *be, struct thread_pool *pool,
                   const struct conve_weights *weights, const struct train_mode *mode,
                   const struct train_limits *limits, struct err *err)
{
    struct train_step *step = *out = xcalloc(1, sizeof(*step));
    *step = (struct train_step){
        .be = be, .pool = pool, .weights = weights, .mode = *mode, .limits = *limits};
    train_step_format(step, mode->format);
    step->cut = cut_of(step);
    step->own.columns = team_part(mode->team, step_n_columns(step));
    step->own.tiles = team_part(mode->team, step_n_tiles(step));
    step->host.counts = xcalloc(n_pieces_max(step), sizeof(*step->host.counts));
    step->host.losses = xcalloc(step_n_tiles(step), sizeof(*step->host.losses));
    int rc = rooms_make(step, err);
    if (rc == 0)
        ones_put(step);
    return rc;
}

void train_step_free(struct train_step *step)
{
    if (!step)
        return;
    struct rooms rooms = rooms_of(step);
    for (size_t i = 0; i < rooms.n; i++)
        if (rooms.at[i].is_exchanged)
            team_buffer_free(step->mode.team, *rooms.at[i].at);
        else
            step->be->release(step->be, *rooms.at[i].at);
    if (step->exchange.host)
        team_buffer_free(step->mode.team, step->exchange.host);
    for (unsigned i = 0; step->benches && i < thread_pool_n_threads(step->pool); i++) {
        step->be->release(step->be, step->benches[i].scores);
        step->be->release(step->be, step->benches[i].partial);
    }
    free(step->host.counts);
    free(step->host.losses);
    free(step->benches);
    free(step);
}
