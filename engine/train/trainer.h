/* SPDX-License-Identifier: Apache-2.0
 *
 * Training a model from its first update to its last: batches in the order of the seed, Adam, and
 * the running statistics of batch norm as torch keeps them. All that an update depends on is the
 * model, the moments and struct train_progress, so training that went on from these gives the same
 * bits as one that was never interrupted.
 */
#pragma once

#include "conve/model.h"
#include "train/batches.h"

struct train_opts {
    struct train_mode mode;
    bool is_grouped;               /* batches.h */
    size_t batch_size, accumulate; /* batches to an update */
    double learning_rate, decay;   /* of the learning rate, from epoch to epoch */
    uint64_t seed;
};

struct train_progress {
    uint64_t epoch, batch; /* at hand, from 0; its next batch */
    uint64_t n_updates;
    uint64_t n_questions; /* of this epoch, and the sum of their losses */
    double loss_sum;
    /* Of validation: the best there was, when, and how many since were not better. */
    double best;
    uint64_t best_epoch, n_worse;
};

/* Adam's, float32. */
enum train_moment {
    EXP_AVG,
    EXP_AVG_SQ,
    N_MOMENTS
};

struct trainer {
    struct conve *model;
    struct train_opts opts;
    struct train_progress at;

    const struct num_backend *be;
    struct thread_pool *pool;
    struct batches batches;
    struct train_step *step;
    /* In the backend's memory; on the host the weights are the model's own numbers. */
    struct conve_weights weights;
    struct conve_gradients gradients, moments[N_MOMENTS];
    struct conve_gradients fetched[N_MOMENTS]; /* those of a device, on the host */
    float *kept[PARAM_N - PARAM_N_TRAINED];    /* statistics, as the update at hand found them */
};

/*
 * The model, backend and pool are borrowed; the model changes. Indices were checked.
 * ERR_UNAVAILABLE: a device has no room.
 */
MUST_CHECK int trainer_open(struct trainer *trainer, struct conve *model,
                            const struct train_opts *opts, const struct triple *triples,
                            size_t n_triples, const struct num_backend *be,
                            struct thread_pool *pool, struct err *err);
void trainer_close(struct trainer *trainer);

/*
 * ERR_DATA where the loss is no number any more. ERR_STOPPED where the pool is told to stop: all
 * is as it was before. The epoch must not be over.
 */
MUST_CHECK int trainer_update(struct trainer *trainer, struct err *err);
bool trainer_epoch_is_over(const struct trainer *trainer);
/* Mean over the questions so far. */
double trainer_loss(const struct trainer *trainer);
double trainer_learning_rate(const struct trainer *trainer);
/* The model alone, with the learning rate of its last update. The errors of conve_save. */
MUST_CHECK int trainer_model_save(const struct trainer *trainer, const char *path, struct err *err);
/* A member of metadata that says it, a comma before it. */
void trainer_learning_rate_add(const struct trainer *trainer, struct buf *metadata);
/* Before the first update of an epoch, and of a process. */
void trainer_epoch_prepare(struct trainer *trainer);
void trainer_epoch_next(struct trainer *trainer);

/*
 * The model's numbers and the moments come from where they are computed. ERR_DATA where the model's
 * are no numbers any more.
 */
MUST_CHECK int trainer_fetch(struct trainer *trainer, struct err *err);
/* And go there. */
void trainer_place(struct trainer *trainer);
/* The host's copy of a moment, by parameter. */
float *const *trainer_moment(const struct trainer *trainer, enum train_moment moment);

/*
 * Numbers to begin with, as the plain implementation has them: Xavier's normal distribution for
 * tables, convolution and fc; torch's uniform one for their biases; norms at 1 and 0.
 */
void train_init(struct conve *model, uint64_t seed);
