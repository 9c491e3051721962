/* SPDX-License-Identifier: Apache-2.0
 *
 * One step of training: a batch of questions (head, relation, ?) forward, scored against all
 * entities, and the gradients back. Batch norm uses the batch's own statistics. Source of model
 * and loss: ConvE, arXiv 1707.01476 ("1-N scoring").
 *
 * Work is cut where it costs least: rows of the batch for images and maps, columns for fc, tiles of
 * entities for scores, whose loss and gradients are taken while a tile is at hand; the scores of
 * all entities are never in memory. Pieces are of fixed size and are added up in their order, so
 * the result is the same bits for any number of threads, and dropout draws from the seed alone.
 *
 * With a format the large products multiply numbers that are rounded to it, piece by piece: fc's,
 * forward and back, and those of entities with x and with slopes. Their sums and all else, weights
 * and moments before all, stay float32.
 */
#pragma once

#include "conve/gradients.h"
#include "conve/weights.h"
#include "graph/triple.h"
#include "num/thread_pool.h"

enum train_dropout {
    DROPOUT_INPUT,
    DROPOUT_FEATURES, /* whole maps */
    DROPOUT_OUTPUT,
    DROPOUT_N
};

struct train_mode {
    double dropout[DROPOUT_N]; /* probabilities */
    bool drops_before_bn0;     /* as the plain implementation; PyKEEN drops behind it */
    /* Labels are smoothing / n_entities, and 1 - smoothing more where the tail is true. */
    double label_smoothing;
    enum num_format format; /* NUM_FULL but of float32 */
};

/* In the host's memory. Question i is head and relation of questions[i]; its true tails as num_bce has them. */
struct train_batch {
    const struct triple *questions;
    size_t n;
    const size_t *begins;
    const uint32_t *positives;
};

/* The most that a batch has. */
struct train_limits {
    size_t n_questions, n_tails;
};

struct train_step;

/*
 * All borrowed; weights may change between runs, and lie in the backend's memory. On a device work
 * is not cut but for the scores, and the pool should be one thread. ERR_UNAVAILABLE: there is no
 * room on it. To be freed in either case.
 */
MUST_CHECK int train_step_new(struct train_step **out, const struct num_backend *be,
                              struct thread_pool *pool, const struct conve_weights *weights,
                              const struct train_mode *mode, const struct train_limits *limits,
                              struct err *err);
void train_step_free(struct train_step *step);

/*
 * *loss: binary cross entropy, mean over questions and entities. Gradients of `share` times it
 * are set, or with `adds` added; they lie in the backend's memory. At least two questions: one
 * has no variance. Fails where a device does; ERR_STOPPED where the pool is told to stop, with
 * gradients that are of no use.
 */
MUST_CHECK int train_step_run(struct train_step *step, const struct train_batch *batch,
                              uint64_t seed, double share, bool adds,
                              struct conve_gradients *gradients, double *loss, struct err *err);

/* In another format from now on. */
void train_step_format(struct train_step *step, enum num_format format);

/* A norm's running statistics, moved towards the last batch's: mean, and unbiased variance. */
void train_step_track(const struct train_step *step, enum conve_norm norm, double momentum,
                      void *mean, void *var);
