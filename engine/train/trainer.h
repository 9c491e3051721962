/* SPDX-License-Identifier: Apache-2.0
 *
 * Training a model from its first update to its last: batches in an order that the seed gives,
 * Adam, and the running statistics of batch norm as torch keeps them. Besides the options and the
 * triples, an update depends only on the model, the moments and struct train_progress. So a
 * training that is continued from these gives the same bits as one that was never interrupted.
 *
 * Each rank of a team (opts.mode.team) has the whole model, but it updates only its part of the
 * large parameters (train_step_part()). The rest of these is as it was at the last fetch. All ranks
 * call the same functions in the same order.
 */
#pragma once

#include "conve/model.h"
#include "train/batches.h"

struct train_opts {
    struct train_mode mode;
    bool is_grouped;               /* as in batches.h */
    size_t batch_size, accumulate; /* accumulate: batches for one update */
    double learning_rate, decay;   /* decay: factor of the rate from epoch to epoch */
    uint64_t seed;
};

struct train_progress {
    uint64_t epoch, batch; /* the current epoch, and its next batch; from 0 */
    uint64_t n_updates;
    uint64_t n_questions; /* questions of this epoch so far; loss_sum: the sum of their losses */
    double loss_sum;
    /*
     * The best validation, its epoch (from 1; 0: none), and how many validations since then were
     * not better.
     */
    double best;
    uint64_t best_epoch, n_worse;
};

/* The moments of Adam, in float32. */
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
    /* Lies in the backend's memory. With a host backend the weights are the model's own numbers. */
    struct conve_weights weights;
    struct conve_gradients gradients, moments[N_MOMENTS];
    struct conve_gradients fetched[N_MOMENTS]; /* host copies of a device's moments */
    float *kept[PARAM_N - PARAM_N_TRAINED];    /* running statistics before the current update */
    struct trainer_heads {
        void *rows, *ids; /* in the backend's memory: embeddings of a batch's heads, and the ids
                           * of these heads */
        float *words;     /* the same embeddings while they are exchanged */
        uint32_t *host_ids;
    } heads; /* only in a team */
};

/*
 * The model, backend and pool are borrowed; training changes the model. The caller has checked the
 * indices of the triples. ERR_UNAVAILABLE: the device has no room.
 */
MUST_CHECK int trainer_open(struct trainer *trainer, struct conve *model,
                            const struct train_opts *opts, const struct triple *triples,
                            size_t n_triples, const struct num_backend *be,
                            struct thread_pool *pool, struct err *err);
void trainer_close(struct trainer *trainer);

/*
 * Computes one update. ERR_DATA: the loss is not finite. ERR_STOPPED: the pool was told to stop,
 * and everything is as it was before the call. Precondition: the epoch is not over.
 */
MUST_CHECK int trainer_update(struct trainer *trainer, struct err *err);
bool trainer_epoch_is_over(const struct trainer *trainer);
/* The mean loss over the questions of the epoch so far. */
double trainer_loss(const struct trainer *trainer);
double trainer_learning_rate(const struct trainer *trainer);
/* Adds a comma and a member with the learning rate of the last update to metadata. */
void trainer_learning_rate_add(const struct trainer *trainer, struct buf *metadata);
/* Makes the order of the current epoch. To be called before the first update of a process. */
void trainer_epoch_prepare(struct trainer *trainer);
void trainer_epoch_next(struct trainer *trainer);

/*
 * Copies the model and the moments from a device and from the other ranks to the host. ERR_DATA: a
 * number of the model is not finite.
 */
MUST_CHECK int trainer_fetch(struct trainer *trainer, struct err *err);
/* Copies the model and the moments from the host to a device. */
void trainer_place(struct trainer *trainer);
/* Gives all ranks the progress, the model and the moments of rank 0, which has loaded them. */
MUST_CHECK int trainer_share(struct trainer *trainer, struct err *err);
/* Completes host arrays of all trained parameters by the parts of the other ranks. */
void trainer_gather(const struct trainer *trainer, float *const *at);
/* Returns the host's copy of a moment, by parameter. */
float *const *trainer_moment(const struct trainer *trainer, enum train_moment moment);

/*
 * Sets the first weights, as the plain implementation does: Xavier's normal distribution for
 * tables, convolution and fc; torch's uniform distribution for the biases of the last two; for
 * norms weight and variance 1, bias and mean 0.
 */
void train_init(struct conve *model, uint64_t seed);
