/* SPDX-License-Identifier: Apache-2.0
 *
 * One step of training: the forward pass of a batch of questions (head, relation, ?), their scores
 * with all entities, and the backward pass to the gradients. Batch norm uses the batch's own
 * statistics. Source of model and loss: ConvE, arXiv 1707.01476 ("1-N scoring").
 *
 * Work is cut where that costs least: into rows of the batch for images and maps, columns for fc,
 * and tiles of entities for scores. The loss and the gradients of a tile are computed right after
 * its scores, so the scores of all entities are never in memory together. Pieces have a fixed size
 * and are added up in their order, and dropout draws from the seed alone, so the result is the same
 * bits for any number of threads. Each rank of a team computes some of the pieces, and gathers the
 * pieces of other ranks that it needs. The result is the same bits for any number of ranks, too.
 *
 * With a format, the factors of the large products are rounded to it, piece by piece: the products
 * of fc, forward and back, and the products of the entities with x and with the slopes. The sums of
 * these products stay float32, and so do all other numbers, above all weights and moments.
 */
#pragma once

#include "conve/gradients.h"
#include "conve/weights.h"
#include "graph/triple.h"
#include "num/thread_pool.h"
#include "train/team.h"

enum train_dropout {
    DROPOUT_INPUT,
    DROPOUT_FEATURES, /* drops whole maps */
    DROPOUT_OUTPUT,
    DROPOUT_N
};

struct train_mode {
    double dropout[DROPOUT_N]; /* probabilities */
    bool drops_before_bn0;     /* as in the plain implementation; PyKEEN drops after bn0 */
    /* A label is smoothing / n_entities, and for a true tail 1 - smoothing more. */
    double label_smoothing;
    enum num_format format;  /* with float64 only NUM_FULL */
    const struct team *team; /* the team that computes each step together; NULL: this process
                              * alone */
    /*
     * Pieces have the same size whatever the size of the team. On processors this is always so;
     * without this flag a device takes larger pieces.
     */
    bool is_reproducible;
};

/*
 * Lies in the host's memory. Question i is head and relation of questions[i]. `begins` and
 * `positives` hold the true tails, as in struct num_bce.
 */
struct train_batch {
    const struct triple *questions;
    size_t n;
    const size_t *begins;
    const uint32_t *positives;
};

/* The most questions and true tails of a batch. */
struct train_limits {
    size_t n_questions, n_tails;
};

struct train_step;

/*
 * All arguments are borrowed. `weights` lie in the backend's memory and may change between runs. On
 * a device only the scores are cut into tiles, and the pool should have one thread.
 * ERR_UNAVAILABLE: the device has no room. *out must be freed after an error, too.
 */
MUST_CHECK int train_step_new(struct train_step **out, const struct num_backend *be,
                              struct thread_pool *pool, const struct conve_weights *weights,
                              const struct train_mode *mode, const struct train_limits *limits,
                              struct err *err);
void train_step_free(struct train_step *step);

/*
 * The part of a parameter whose gradient a rank computes, and which it therefore updates: a part of
 * the rows or columns, or the whole parameter, if every other rank computes all of it as well. An
 * entity's bias is a row of one column.
 */
struct train_part {
    size_t columns; /* columns of a row of the parameter */
    size_t first_row, n_rows, first_column, n_columns;
    bool is_all;
};
struct train_part train_step_part(const struct train_step *step, enum conve_param param,
                                  uint32_t rank);

/*
 * *loss: binary cross entropy, mean over questions and entities. The gradients of `share` times the
 * loss are set, or with `adds` added; they lie in the backend's memory. In a team, all ranks get
 * the loss, and each rank gets its part of the gradients; the weights must be up to date in its
 * part and in the rows of the batch's heads. A batch has at least two questions, because batch norm
 * needs two for a variance. Returns an error of a device or of the team, or ERR_STOPPED if the pool
 * was told to stop; a pool of a team must not be told that. After an error the gradients are of no
 * use.
 */
MUST_CHECK int train_step_run(struct train_step *step, const struct train_batch *batch,
                              uint64_t seed, double share, bool adds,
                              struct conve_gradients *gradients, double *loss, struct err *err);

/* Sets the format of later runs. */
void train_step_format(struct train_step *step, enum num_format format);

/*
 * Moves a norm's running mean and variance towards the mean and unbiased variance of the last
 * batch.
 */
void train_step_track(const struct train_step *step, enum conve_norm norm, double momentum,
                      void *mean, void *var);
