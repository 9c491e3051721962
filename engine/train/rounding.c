/* SPDX-License-Identifier: Apache-2.0 */
#include "train/rounding.h"

#include <math.h>

/* Computes the gradients and the loss of a batch, as if it were the only one of an update. */
static int step_run(struct trainer *trainer, const struct train_batch *batch,
                    enum num_format format, struct conve_gradients *to, double *loss,
                    struct err *err)
{
    const struct num_backend *be = trainer->be;
    const struct conve_shape *shape = &trainer->model->shape;
    train_step_format(trainer->step, format);
    int rc = train_step_run(trainer->step, batch, trainer->opts.seed, 1, false, &trainer->gradients,
                            loss, err);
    for (unsigned param = 0; rc == 0 && param < PARAM_N_TRAINED; param++)
        if (to->at[param])
            rc = be->download(
                be, to->at[param], trainer->gradients.at[param],
                conve_param_dims(shape, (enum conve_param)param).n_elements * sizeof(float), err);
    trainer_gather(trainer, (float *const *)to->at);
    return rc ? rc : team_check(trainer->opts.mode.team, err);
}

static double distance(const struct conve_shape *shape, const struct conve_gradients *found,
                       const struct conve_gradients *expected)
{
    double differences = 0, squares = 0;
    for (unsigned param = 0; param < PARAM_N_TRAINED; param++) {
        const float *a = found->at[param], *b = expected->at[param];
        size_t n = conve_param_dims(shape, (enum conve_param)param).n_elements;
        for (size_t i = 0; i < n; i++) {
            double difference = (double)a[i] - (double)b[i];
            differences += difference * difference;
            squares += (double)b[i] * (double)b[i];
        }
    }
    return sqrt(differences / squares);
}

int train_rounding_measure(struct trainer *trainer, struct train_rounding *out, struct err *err)
{
    const struct conve_shape *shape = &trainer->model->shape;
    struct batches *batches = &trainer->batches;
    size_t index = MIN((size_t)trainer->at.batch, batches->n_batches - 1);
    struct train_batch batch = batches_at(batches, index);
    struct conve_gradients rounded, full;
    double loss = 0, full_loss = 0;
    conve_gradients_init(&rounded, shape, NUM_F32);
    conve_gradients_init(&full, shape, NUM_F32);
    int rc = step_run(trainer, &batch, NUM_FULL, &full, &full_loss, err);
    train_step_format(trainer->step, trainer->opts.mode.format);
    if (rc == 0)
        rc = step_run(trainer, &batch, trainer->opts.mode.format, &rounded, &loss, err);
    out->gradients = distance(shape, &rounded, &full);
    out->loss = fabs(loss - full_loss) / full_loss;
    conve_gradients_release(&rounded);
    conve_gradients_release(&full);
    return rc;
}
