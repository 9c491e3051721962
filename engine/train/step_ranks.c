/* SPDX-License-Identifier: Apache-2.0
 *
 * What the ranks of a team exchange within a step. Rows stay on the rank that has computed them,
 * except for products over all rows of the batch, for which every rank needs all rows. A partial
 * sum of n x dim numbers is made for each piece of fc's columns and each tile of entities. These
 * are added in the order of the pieces, so the sum goes from rank to rank, and each rank adds its
 * own partial sums.
 */
#include "train/step_impl.h"

/* ---- arrays of a device travel through memory of the host ---- */

/* Returns NULL if there is no room; team_check() tells that. */
static char *host_room(struct train_step *step, size_t bytes)
{
    struct train_exchange *exchange = &step->exchange;
    if (bytes <= exchange->host_bytes)
        return exchange->host;
    team_buffer_free(step->mode.team, exchange->host);
    exchange->host = team_buffer_new(step->mode.team, bytes);
    exchange->host_bytes = exchange->host ? bytes : 0;
    return exchange->host;
}

/* Copies to the host. An error here is reported again by the download at the end of the step. */
static void down(const struct train_step *step, void *to, const void *from, size_t bytes)
{
    struct err unused;
    if (step->be->download(step->be, to, from, bytes, &unused) != 0)
        return;
}

void step_gather(struct train_step *step, void *at, size_t piece_bytes, struct team_part own)
{
    const struct team *team = step->mode.team;
    size_t bytes = own.each * piece_bytes;
    if (team_is_alone(team))
        return;
    if (!step->be->is_device) {
        team_gather(team, at, bytes);
        return;
    }
    char *host = host_room(step, team_size(team) * bytes);
    if (!host)
        return;
    down(step, host + team->rank * bytes, (char *)at + team->rank * bytes, bytes);
    team_gather(team, host, bytes);
    step->be->upload(step->be, at, host, team_size(team) * bytes);
}

static void broadcast(struct train_step *step, void *at, size_t bytes, uint32_t root)
{
    const struct team *team = step->mode.team;
    if (!step->be->is_device) {
        team_broadcast(team, at, bytes, root);
        return;
    }
    char *host = host_room(step, bytes);
    if (!host)
        return;
    if (team->rank == root)
        down(step, host, at, bytes);
    team_broadcast(team, host, bytes, root);
    if (team->rank != root)
        step->be->upload(step->be, at, host, bytes);
}

void step_gather_rows(struct train_step *step, void *at, size_t width)
{
    step_gather(step, at, step->cut.rows * width * num_bytes(step->weights->dtype), step->own.rows);
}

void step_gather_norm(struct train_step *step, enum conve_norm norm)
{
    size_t bytes =
        conve_norm_params(&step->weights->shape, norm).channels * num_bytes(step->weights->dtype);
    step_gather(step, step->norm.piece_means, bytes, step->own.rows);
    step_gather(step, step->norm.piece_vars, bytes, step->own.rows);
}

/* ---- partial sums ---- */

bool step_adds_partials(const struct train_step *step)
{
    return team_is_leader(step->mode.team);
}

static size_t partial_len(const struct train_step *step)
{
    return step->batch.n * conve_dim(&step->weights->shape);
}

void *step_partial(const struct train_step *step, unsigned thread, size_t index)
{
    if (step_adds_partials(step))
        return step->benches[thread].partial;
    return num_at(step->weights->dtype, step->exchange.kept, index * partial_len(step));
}

void step_sum_on(struct train_step *step, size_t n_pieces, void *sum)
{
    const struct team *team = step->mode.team;
    size_t len = partial_len(step);
    if (team_is_alone(team))
        return;
    for (uint32_t rank = 0; rank < team_size(team); rank++) {
        size_t n = team_part_of(team, n_pieces, rank).n;
        for (size_t i = 0; rank > 0 && rank == team->rank && i < n; i++)
            step_sum(step, step_partial(step, 0, i), 1, len, true, sum);
        if (n > 0)
            broadcast(step, sum, len * num_bytes(step->weights->dtype), rank);
    }
}

/* ---- columns of the gradient of features ---- */

/* The width of the columns of one rank in exchange.columns. */
static size_t columns_width(const struct train_step *step)
{
    return step->own.columns.each * step->cut.columns;
}

size_t step_columns_at(const struct train_step *step, size_t piece, void **at)
{
    enum num_dtype dtype = step->weights->dtype;
    size_t begin = piece * step->cut.columns, width = columns_width(step);
    if (team_is_alone(step->mode.team)) {
        *at = num_at(dtype, step->d_features, begin);
        return conve_n_features(&step->weights->shape);
    }
    *at = num_at(dtype, step->exchange.columns,
                 step->mode.team->rank * step->batch.n * width + begin % width);
    return width;
}

void step_gather_columns(struct train_step *step)
{
    step_gather(step, step->exchange.columns,
                step->batch.n * step->cut.columns * num_bytes(step->weights->dtype),
                step->own.columns);
}

void step_columns_take(const struct train_step *step, struct rows_piece rows)
{
    enum num_dtype dtype = step->weights->dtype;
    size_t all = conve_n_features(&step->weights->shape), width = columns_width(step);
    if (team_is_alone(step->mode.team))
        return;
    for (size_t rank = 0; rank * width < all; rank++)
        step->be->rows(step->be,
                       &(struct num_rows){
                           .dtype = dtype,
                           .n = rows.n,
                           .pieces = 1,
                           .len = MIN(width, all - rank * width),
                           .from = num_at_const(dtype, step->exchange.columns,
                                                (rank * step->batch.n + rows.begin) * width),
                           .from_stride = width,
                           .to = num_at(dtype, step->d_features, rows.begin * all + rank * width),
                           .to_stride = all,
                       });
}

/* ---- parts of parameters ---- */

struct train_part train_step_part(const struct train_step *step, enum conve_param param,
                                  uint32_t rank)
{
    const struct conve_shape *shape = &step->weights->shape;
    const struct team *team = step->mode.team;
    size_t n = conve_param_dims(shape, param).n_elements;
    struct train_part part = {.columns = n, .n_rows = 1, .n_columns = n, .is_all = true};
    if (team_is_alone(team) || n == 0)
        return part;
    if (param == PARAM_ENTITY || param == PARAM_ENTITY_BIAS) {
        struct team_part tiles = team_part_of(team, step_n_tiles(step), rank);
        size_t end = MIN((tiles.first + tiles.n) * step->cut.tile, shape->n_entities);
        part = (struct train_part){.columns = n / shape->n_entities};
        part.first_row = MIN(tiles.first * step->cut.tile, shape->n_entities);
        part.n_rows = end - part.first_row;
        part.n_columns = part.columns;
    } else if (param == PARAM_FC_WEIGHT) {
        struct team_part columns = team_part_of(team, step_n_columns(step), rank);
        size_t all = conve_n_features(shape);
        size_t end = MIN((columns.first + columns.n) * step->cut.columns, all);
        part = (struct train_part){.columns = all, .n_rows = conve_dim(shape)};
        part.first_column = MIN(columns.first * step->cut.columns, all);
        part.n_columns = end - part.first_column;
    }
    return part;
}
