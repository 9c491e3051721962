/* SPDX-License-Identifier: Apache-2.0 */
#include "train/trainer.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "base/xalloc.h"
#include "train/trainer_ranks.h"

enum {
    ADAM_PIECE = 1 << 16 /* numbers in a piece; four arrays of them stay in a processor's cache */
};

/* The defaults of torch, which the plain implementation and PyKEEN keep. */
static const double adam_beta1 = 0.9, adam_beta2 = 0.999, adam_eps = 1e-8;
static const double norm_momentum = 0.1;

/* ---- memory ---- */

static int arrays_open(struct trainer *trainer, struct err *err)
{
    const struct conve_shape *shape = &trainer->model->shape;
    const struct train_limits limits = batches_limits(&trainer->batches);
    int rc = conve_weights_open(&trainer->weights, trainer->model, NUM_F32, trainer->be, err);
    if (rc == 0)
        rc = conve_gradients_open(&trainer->gradients, trainer->be, shape, NUM_F32, err);
    for (unsigned i = 0; rc == 0 && i < N_MOMENTS; i++) {
        rc = conve_gradients_open(&trainer->moments[i], trainer->be, shape, NUM_F32, err);
        if (rc == 0 && trainer->be->is_device)
            conve_gradients_init(&trainer->fetched[i], shape, NUM_F32);
    }
    if (rc == 0)
        rc = train_step_new(&trainer->step, trainer->be, trainer->pool, &trainer->weights,
                            &trainer->opts.mode, &limits, err);
    return rc ? rc : heads_open(trainer, err);
}

int trainer_open(struct trainer *trainer, struct conve *model, const struct train_opts *opts,
                 const struct triple *triples, size_t n_triples, const struct num_backend *be,
                 struct thread_pool *pool, struct err *err)
{
    *trainer = (struct trainer){.model = model, .opts = *opts, .be = be, .pool = pool};
    int rc = batches_init(&trainer->batches, triples, n_triples, opts->is_grouped, opts->batch_size,
                          err);
    if (rc == 0)
        rc = arrays_open(trainer, err);
    if (rc == ERR_UNAVAILABLE)
        rc = wrap(err, rc, "a smaller --batch-size takes less");
    return rc;
}

void trainer_close(struct trainer *trainer)
{
    train_step_free(trainer->step);
    heads_close(trainer);
    for (size_t i = 0; i < countof(trainer->kept); i++)
        free(trainer->kept[i]);
    for (unsigned i = 0; trainer->be && i < N_MOMENTS; i++) {
        conve_gradients_close(&trainer->moments[i], trainer->be);
        conve_gradients_release(&trainer->fetched[i]);
    }
    if (trainer->be) {
        conve_gradients_close(&trainer->gradients, trainer->be);
        conve_weights_close(&trainer->weights, trainer->be);
    }
    batches_release(&trainer->batches);
}

float *param_at(const struct trainer *trainer, enum conve_param param)
{
    return trainer->be->is_device ? trainer->weights.owned[param] : trainer->model->at[param];
}

static size_t param_bytes(const struct trainer *trainer, unsigned param)
{
    return conve_param_dims(&trainer->model->shape, (enum conve_param)param).n_elements *
           sizeof(float);
}

float *const *trainer_moment(const struct trainer *trainer, enum train_moment moment)
{
    const struct conve_gradients *of =
        trainer->be->is_device ? &trainer->fetched[moment] : &trainer->moments[moment];
    return (float *const *)of->at;
}

static int device_fetch(struct trainer *trainer, struct err *err)
{
    int rc = 0;
    for (unsigned param = 0; rc == 0 && param < PARAM_N; param++)
        if (trainer->model->at[param])
            rc = trainer->be->download(trainer->be, trainer->model->at[param],
                                       param_at(trainer, (enum conve_param)param),
                                       param_bytes(trainer, param), err);
    for (unsigned i = 0; i < N_MOMENTS; i++)
        for (unsigned param = 0; rc == 0 && param < PARAM_N_TRAINED; param++)
            if (trainer->moments[i].at[param])
                rc = trainer->be->download(trainer->be, trainer->fetched[i].at[param],
                                           trainer->moments[i].at[param],
                                           param_bytes(trainer, param), err);
    return rc;
}

/*
 * Copies to the host and checks the weights: a finite loss does not tell what the update after it
 * made of them.
 */
int trainer_fetch(struct trainer *trainer, struct err *err)
{
    int rc = trainer->be->is_device ? device_fetch(trainer, err) : 0;
    trainer_gather(trainer, trainer->model->at);
    for (unsigned i = 0; i < N_MOMENTS; i++)
        trainer_gather(trainer, trainer_moment(trainer, (enum train_moment)i));
    if (rc == 0)
        rc = team_check(trainer->opts.mode.team, err);
    if (rc == 0 && conve_check_finite(trainer->model, err) != 0)
        rc = wrap(err, ERR_DATA, "a smaller --learning-rate may help");
    return rc;
}

void trainer_place(struct trainer *trainer)
{
    if (!trainer->be->is_device)
        return;
    for (unsigned param = 0; param < PARAM_N; param++)
        if (trainer->model->at[param])
            trainer->be->upload(trainer->be, param_at(trainer, (enum conve_param)param),
                                trainer->model->at[param], param_bytes(trainer, param));
    for (unsigned i = 0; i < N_MOMENTS; i++)
        for (unsigned param = 0; param < PARAM_N_TRAINED; param++)
            if (trainer->moments[i].at[param])
                trainer->be->upload(trainer->be, trainer->moments[i].at[param],
                                    trainer->fetched[i].at[param], param_bytes(trainer, param));
}

/* ---- Adam ---- */

/* The update of this rank's part of a parameter, cut into pieces. */
struct adam_work {
    const struct trainer *trainer;
    enum conve_param param;
    size_t begin, end;  /* numbers of the parameter */
    size_t stride, len; /* distance from a piece to the next, and length of a piece */
};

/* Whole rows may be cut anywhere. If rows are shared by several ranks, each row is a piece. */
static struct adam_work adam_cut(const struct trainer *trainer, enum conve_param param)
{
    const struct team *team = trainer->opts.mode.team;
    struct train_part part =
        train_step_part(trainer->step, param, team_is_alone(team) ? 0 : team->rank);
    struct adam_work work = {.trainer = trainer, .param = param};
    work.begin = part.first_row * part.columns + part.first_column;
    work.end = work.begin + (part.n_columns > 0 ? part.n_rows * part.columns : 0);
    work.len = trainer->be->is_device ? SIZE_MAX / sizeof(float) : (size_t)ADAM_PIECE;
    work.stride = work.len;
    if (part.n_columns < part.columns) {
        work.stride = part.columns;
        work.len = part.n_columns;
    }
    return work;
}

static void adam_make(void *context, unsigned thread, size_t piece)
{
    const struct adam_work *work = context;
    const struct trainer *trainer = work->trainer;
    size_t begin = work->begin + piece * work->stride;
    (void)thread;
    trainer->be->adam(trainer->be,
                      &(struct num_adam){
                          .dtype = NUM_F32,
                          .n = MIN(work->len, work->end - begin),
                          .rate = trainer_learning_rate(trainer),
                          .beta1 = adam_beta1,
                          .beta2 = adam_beta2,
                          .eps = adam_eps,
                          .step = trainer->at.n_updates,
                          .g = (float *)trainer->gradients.at[work->param] + begin,
                          .m = (float *)trainer->moments[EXP_AVG].at[work->param] + begin,
                          .v = (float *)trainer->moments[EXP_AVG_SQ].at[work->param] + begin,
                          .w = param_at(trainer, work->param) + begin,
                      });
}

static int adam_step(struct trainer *trainer, struct err *err)
{
    int rc = 0;
    trainer->at.n_updates++;
    for (unsigned param = 0; rc == 0 && param < PARAM_N_TRAINED; param++) {
        struct adam_work adam = adam_cut(trainer, (enum conve_param)param);
        size_t n = adam.end - adam.begin;
        const struct thread_pool_work work = {.context = &adam,
                                              .n_pieces = n / adam.stride + (n % adam.stride > 0),
                                              .make = adam_make,
                                              .always_ends = true};
        rc = thread_pool_run(trainer->pool, &work, err);
    }
    return rc;
}

/* ---- running statistics ---- */

static void statistics_track(const struct trainer *trainer)
{
    for (unsigned norm = 0; norm < NORM_N; norm++) {
        struct conve_norm_params params =
            conve_norm_params(&trainer->model->shape, (enum conve_norm)norm);
        train_step_track(trainer->step, (enum conve_norm)norm, norm_momentum,
                         param_at(trainer, params.mean), param_at(trainer, params.var));
    }
}

static int statistics_keep(struct trainer *trainer, struct err *err)
{
    int rc = 0;
    for (unsigned param = PARAM_N_TRAINED; rc == 0 && param < PARAM_N; param++) {
        float **kept = &trainer->kept[param - PARAM_N_TRAINED];
        if (!*kept)
            *kept = xmalloc(param_bytes(trainer, param));
        rc = trainer->be->download(trainer->be, *kept, param_at(trainer, (enum conve_param)param),
                                   param_bytes(trainer, param), err);
    }
    return rc;
}

static void statistics_put_back(const struct trainer *trainer)
{
    for (unsigned param = PARAM_N_TRAINED; param < PARAM_N; param++)
        trainer->be->upload(trainer->be, param_at(trainer, (enum conve_param)param),
                            trainer->kept[param - PARAM_N_TRAINED], param_bytes(trainer, param));
}

/* ---- updates ---- */

double trainer_learning_rate(const struct trainer *trainer)
{
    return trainer->opts.learning_rate * pow(trainer->opts.decay, (double)trainer->at.epoch);
}

/*
 * Adds the rate of the last update. Before the first update of an epoch, that is the rate of the
 * epoch before.
 */
void trainer_learning_rate_add(const struct trainer *trainer, struct buf *metadata)
{
    uint64_t epoch = trainer->at.epoch - (trainer->at.batch == 0 && trainer->at.epoch > 0);
    buf_addf(metadata, ",\"" CONVE_LEARNING_RATE "\":\"%.17g\"",
             trainer->opts.learning_rate * pow(trainer->opts.decay, (double)epoch));
}

double trainer_loss(const struct trainer *trainer)
{
    return trainer->at.loss_sum / (double)MAX(trainer->at.n_questions, (uint64_t)1);
}

bool trainer_epoch_is_over(const struct trainer *trainer)
{
    return trainer->at.batch == trainer->batches.n_batches;
}

void trainer_epoch_prepare(struct trainer *trainer)
{
    batches_shuffle(&trainer->batches, trainer->opts.seed, trainer->at.epoch);
}

void trainer_epoch_next(struct trainer *trainer)
{
    trainer->at.epoch++;
    trainer->at.batch = 0;
    trainer->at.n_questions = 0;
    trainer->at.loss_sum = 0;
    trainer_epoch_prepare(trainer);
}

/*
 * Returns the seed of dropout. It differs from the seed of the order of batches, although both come
 * from opts.seed.
 */
static uint64_t batch_seed(const struct trainer *trainer, uint64_t batch)
{
    return item_seed(item_seed(~trainer->opts.seed, trainer->at.epoch), batch);
}

/* Computes one gradient from n batches. */
static int gradient_make(struct trainer *trainer, uint64_t n, struct err *err)
{
    for (uint64_t i = 0; i < n; i++, trainer->at.batch++) {
        struct train_batch batch = batches_at(&trainer->batches, trainer->at.batch);
        double loss = 0;
        heads_refresh(trainer, &batch);
        int rc = train_step_run(trainer->step, &batch, batch_seed(trainer, trainer->at.batch),
                                1 / (double)n, i > 0, &trainer->gradients, &loss, err);
        if (rc != 0)
            return rc;
        if (!isfinite(loss))
            return fail(err, ERR_DATA,
                        "the loss is %g in epoch %" PRIu64 ", batch %" PRIu64
                        ": a smaller --learning-rate may help",
                        loss, trainer->at.epoch + 1, trainer->at.batch + 1);
        trainer->at.loss_sum += loss * (double)batch.n;
        trainer->at.n_questions += batch.n;
        statistics_track(trainer);
    }
    return 0;
}

int trainer_update(struct trainer *trainer, struct err *err)
{
    const struct train_progress before = trainer->at;
    uint64_t n = MIN((uint64_t)trainer->opts.accumulate, trainer->batches.n_batches - before.batch);
    ASSERT(n > 0);
    int rc = n > 1 ? statistics_keep(trainer, err) : 0; /* a single batch changes them only at
                                                         * its end */
    if (rc != 0)
        return rc;
    rc = gradient_make(trainer, n, err);
    if (rc == ERR_STOPPED) {
        trainer->at = before;
        if (n > 1)
            statistics_put_back(trainer);
    }
    return rc == 0 ? adam_step(trainer, err) : rc;
}
