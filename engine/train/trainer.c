/* SPDX-License-Identifier: Apache-2.0 */
#include "train/trainer.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/rng.h"

enum {
    ADAM_PIECE = 1 << 16 /* numbers; four arrays of them stay in a processor's cache */
};

/* torch's defaults, which both sources keep. */
static const double adam_beta1 = 0.9, adam_beta2 = 0.999, adam_eps = 1e-8;
static const double norm_momentum = 0.1;

int trainer_open(struct trainer *trainer, struct conve *model, const struct train_opts *opts,
                 const struct triple *triples, size_t n_triples, const struct num_backend *be,
                 struct crew *crew, struct err *err)
{
    *trainer = (struct trainer){.model = model, .opts = *opts, .be = be, .crew = crew};
    int rc = batches_init(&trainer->batches, triples, n_triples, opts->is_grouped, opts->batch_size,
                          err);
    if (rc != 0)
        return rc;
    conve_weights_init(&trainer->weights, model, NUM_F32);
    conve_gradients_init(&trainer->gradients, &model->shape, NUM_F32);
    conve_gradients_init(&trainer->exp_avg, &model->shape, NUM_F32);
    conve_gradients_init(&trainer->exp_avg_sq, &model->shape, NUM_F32);
    trainer->step =
        train_step_new(be, crew, &trainer->weights, &opts->mode, batches_n_max(&trainer->batches));
    return 0;
}

void trainer_close(struct trainer *trainer)
{
    train_step_free(trainer->step);
    conve_gradients_release(&trainer->exp_avg_sq);
    conve_gradients_release(&trainer->exp_avg);
    conve_gradients_release(&trainer->gradients);
    conve_weights_release(&trainer->weights);
    batches_release(&trainer->batches);
}

/* ---- Adam ---- */

/* A parameter, cut into pieces. */
struct adam_work {
    const struct trainer *trainer;
    enum conve_param param;
    size_t n;
};

static void adam_make(void *context, unsigned thread, size_t piece)
{
    const struct adam_work *work = context;
    const struct trainer *trainer = work->trainer;
    size_t begin = piece * ADAM_PIECE;
    (void)thread;
    trainer->be->adam(trainer->be, &(struct num_adam){
                                       .dtype = NUM_F32,
                                       .n = MIN((size_t)ADAM_PIECE, work->n - begin),
                                       .rate = trainer_learning_rate(trainer),
                                       .beta1 = adam_beta1,
                                       .beta2 = adam_beta2,
                                       .eps = adam_eps,
                                       .step = trainer->at.n_updates,
                                       .g = (float *)trainer->gradients.at[work->param] + begin,
                                       .m = (float *)trainer->exp_avg.at[work->param] + begin,
                                       .v = (float *)trainer->exp_avg_sq.at[work->param] + begin,
                                       .w = trainer->model->at[work->param] + begin,
                                   });
}

static int adam_step(struct trainer *trainer, struct err *err)
{
    int rc = 0;
    trainer->at.n_updates++;
    for (unsigned param = 0; rc == 0 && param < PARAM_N_TRAINED; param++) {
        struct adam_work adam = {trainer, (enum conve_param)param, 0};
        adam.n = conve_param_dims(&trainer->model->shape, adam.param).n_elements;
        const struct crew_work work = {.context = &adam,
                                       .n_pieces = (adam.n + ADAM_PIECE - 1) / ADAM_PIECE,
                                       .make = adam_make};
        rc = crew_run(trainer->crew, &work, err);
    }
    return rc;
}

/* ---- running statistics ---- */

static void statistics_update(struct trainer *trainer)
{
    for (unsigned norm = 0; norm < NORM_N; norm++) {
        struct train_statistics of = train_step_statistics(trainer->step, (enum conve_norm)norm);
        struct conve_norm_params params =
            conve_norm_params(&trainer->model->shape, (enum conve_norm)norm);
        float *mean = trainer->model->at[params.mean], *var = trainer->model->at[params.var];
        for (size_t c = 0; c < params.channels; c++) {
            double batch_mean = (double)((const float *)of.mean)[c];
            double batch_var = (double)((const float *)of.var)[c] * of.unbias;
            mean[c] += (float)(norm_momentum * (batch_mean - (double)mean[c]));
            var[c] += (float)(norm_momentum * (batch_var - (double)var[c]));
        }
    }
}

/* ---- updates ---- */

double trainer_learning_rate(const struct trainer *trainer)
{
    return trainer->opts.learning_rate * pow(trainer->opts.decay, (double)trainer->at.epoch);
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

/* Of dropout: another than the order of the batches has, though of the same seed. */
static uint64_t batch_seed(const struct trainer *trainer, uint64_t batch)
{
    return item_seed(item_seed(~trainer->opts.seed, trainer->at.epoch), batch);
}

int trainer_update(struct trainer *trainer, struct err *err)
{
    uint64_t left = trainer->batches.n_batches - trainer->at.batch;
    uint64_t n = MIN((uint64_t)trainer->opts.accumulate, left);
    ASSERT(n > 0);
    for (uint64_t i = 0; i < n; i++, trainer->at.batch++) {
        struct train_batch batch = batches_at(&trainer->batches, trainer->at.batch);
        double loss = train_step_run(trainer->step, &batch, batch_seed(trainer, trainer->at.batch),
                                     1 / (double)n, i > 0, &trainer->gradients);
        if (!isfinite(loss))
            return fail(err, ERR_DATA,
                        "the loss is %g in epoch %" PRIu64 ", batch %" PRIu64
                        ": a smaller --learning-rate may help",
                        loss, trainer->at.epoch + 1, trainer->at.batch + 1);
        trainer->at.loss_sum += loss * (double)batch.n;
        trainer->at.n_questions += batch.n;
        statistics_update(trainer);
    }
    return adam_step(trainer, err);
}
