/* SPDX-License-Identifier: Apache-2.0 */
#include "train/trainer_ranks.h"

#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

/* ---- the heads of a batch ---- */

int heads_open(struct trainer *trainer, struct err *err)
{
    size_t n = batches_n_max(&trainer->batches), dim = conve_dim(&trainer->model->shape);
    const struct team *team = trainer->opts.mode.team;
    struct trainer_heads *heads = &trainer->heads;
    if (team_is_alone(team))
        return 0;
    heads->host_ids = xcalloc(n, sizeof(*heads->host_ids));
    heads->words = team_buffer_new(team, n * dim * sizeof(float));
    int rc = heads->words ? 0 : team_check(team, err);
    if (rc == 0)
        rc = trainer->be->allocate(trainer->be, n * dim * sizeof(float), &heads->rows, err);
    if (rc == 0)
        rc = trainer->be->allocate(trainer->be, n * sizeof(uint32_t), &heads->ids, err);
    return rc;
}

void heads_close(struct trainer *trainer)
{
    struct trainer_heads *heads = &trainer->heads;
    if (team_is_alone(trainer->opts.mode.team) || !trainer->be)
        return;
    trainer->be->release(trainer->be, heads->rows);
    trainer->be->release(trainer->be, heads->ids);
    team_buffer_free(trainer->opts.mode.team, heads->words);
    free(heads->host_ids);
}

/* Copies the heads' rows out of the entities' table, or back into it. */
static void heads_copy(const struct trainer *trainer, size_t n, bool is_back)
{
    const struct trainer_heads *heads = &trainer->heads;
    size_t dim = conve_dim(&trainer->model->shape);
    void *table = param_at(trainer, PARAM_ENTITY);
    struct num_rows op = {.dtype = NUM_F32, .n = n, .pieces = 1, .len = dim, .ids_stride = 1};
    op.from_stride = op.to_stride = dim;
    op.from = is_back ? heads->rows : table;
    op.to = is_back ? table : heads->rows;
    op.from_ids = is_back ? NULL : heads->ids;
    op.to_ids = is_back ? heads->ids : NULL;
    trainer->be->rows(trainer->be, &op);
}

/*
 * A rank has zeros for rows of other ranks, so the sums of words are the rows. An error of the
 * device is reported by the step that follows.
 */
void heads_refresh(struct trainer *trainer, const struct train_batch *batch)
{
    const struct team *team = trainer->opts.mode.team;
    const struct num_backend *be = trainer->be;
    struct trainer_heads *heads = &trainer->heads;
    size_t dim = conve_dim(&trainer->model->shape), bytes = batch->n * dim * sizeof(float);
    struct err unused;
    if (team_is_alone(team))
        return;
    struct train_part own = train_step_part(trainer->step, PARAM_ENTITY, team->rank);
    for (size_t i = 0; i < batch->n; i++)
        heads->host_ids[i] = batch->questions[i].head;
    be->upload(be, heads->ids, heads->host_ids, batch->n * sizeof(*heads->host_ids));
    heads_copy(trainer, batch->n, false);
    if (be->download(be, heads->words, heads->rows, bytes, &unused) != 0)
        return;
    for (size_t i = 0; i < batch->n; i++)
        if (heads->host_ids[i] - own.first_row >= own.n_rows)
            memset(heads->words + i * dim, 0, dim * sizeof(float));
    team_sum_words(team, heads->words, batch->n * dim);
    be->upload(be, heads->rows, heads->words, bytes);
    heads_copy(trainer, batch->n, true);
}

/* ---- whole parameters ---- */

/* Copies columns of a matrix into `packed`, or back. */
static void columns_copy(float *matrix, struct train_part part, float *packed, bool is_back)
{
    for (size_t row = 0; row < part.n_rows; row++) {
        float *at = matrix + row * part.columns + part.first_column;
        float *to = packed + row * part.n_columns;
        memcpy(is_back ? at : to, is_back ? to : at, part.n_columns * sizeof(float));
    }
}

static void part_send(const struct team *team, uint32_t rank, float *at, struct train_part part)
{
    size_t bytes = part.n_rows * part.n_columns * sizeof(float);
    if (part.n_columns == part.columns) {
        team_broadcast(team, at + part.first_row * part.columns, bytes, rank);
        return;
    }
    float *packed = xmalloc(MAX(bytes, (size_t)1));
    if (rank == team->rank)
        columns_copy(at, part, packed, false);
    team_broadcast(team, packed, bytes, rank);
    if (rank != team->rank)
        columns_copy(at, part, packed, true);
    free(packed);
}

/*
 * The parts that all ranks have computed come from rank 0, in case their processors have differed.
 */
void trainer_gather(const struct trainer *trainer, float *const *at)
{
    const struct team *team = trainer->opts.mode.team;
    for (unsigned param = 0; !team_is_alone(team) && param < PARAM_N_TRAINED; param++)
        for (uint32_t rank = 0; at[param] && rank < team_size(team); rank++) {
            struct train_part part = train_step_part(trainer->step, (enum conve_param)param, rank);
            if (rank == 0 || !part.is_all)
                part_send(team, rank, at[param], part);
        }
}

/* ---- the beginning ---- */

int trainer_share(struct trainer *trainer, struct err *err)
{
    const struct team *team = trainer->opts.mode.team;
    if (team_is_alone(team))
        return 0;
    team_broadcast(team, &trainer->at, sizeof(trainer->at), 0);
    for (unsigned param = 0; param < PARAM_N; param++) {
        size_t n = conve_param_dims(&trainer->model->shape, (enum conve_param)param).n_elements;
        if (trainer->model->at[param])
            team_broadcast(team, trainer->model->at[param], n * sizeof(float), 0);
        for (unsigned i = 0; param < PARAM_N_TRAINED && i < N_MOMENTS; i++) {
            float *moment = trainer_moment(trainer, (enum train_moment)i)[param];
            if (moment)
                team_broadcast(team, moment, n * sizeof(float), 0);
        }
    }
    int rc = team_check(team, err);
    if (rc == 0)
        trainer_place(trainer);
    return rc;
}
