/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "conve/layers.h"
#include "train/step.h"

/* How work is cut: the size of one piece. */
struct train_cut {
    size_t rows;    /* rows of a batch */
    size_t columns; /* columns of fc's weights */
    size_t tile;    /* entities that are scored */
};

/* The pieces of a batch that this rank computes. */
struct train_own {
    struct team_part rows, columns, tiles;
};

/* Memory that ranks of a team need besides. */
struct train_exchange {
    void *kept;    /* partial sums of this rank's pieces, n x dim each, which wait for their turn */
    void *columns; /* by rank, the columns of the gradients of features that the rank computes */
    void *host;    /* memory through which a device's arrays travel */
    size_t host_bytes;
};

/* The memory of one thread. */
struct train_bench {
    void *scores;  /* n x tile */
    void *partial; /* n x dim */
};

/*
 * The statistics of batch norm: by norm, those of the batch, and those of pieces of rows before
 * they are merged. In the backward pass the pieces hold sums for the gradients (norm_sums()).
 */
struct norm_room {
    void *mean[NORM_N], *var[NORM_N], *inv_std[NORM_N];
    void *piece_means, *piece_vars;
    void *mean_dz, *mean_dz_xh;
};

struct train_step {
    const struct num_backend *be;
    struct thread_pool *pool;
    const struct conve_weights *weights;
    struct train_mode mode;
    struct train_limits limits;
    struct train_cut cut;
    struct train_own own;
    struct train_exchange exchange;
    struct train_bench *benches; /* by thread */

    /* Arrays of n rows: results of the forward pass, and gradients of the backward pass. */
    void *image, *normed, *maps, *features, *u, *x;
    void *d, *d_features, *d_image;
    void *ones;
    double *losses; /* by tile */

    struct norm_room norm;
    void *piece_sums; /* sums of conv's gradients, by piece */
    size_t *counts;   /* number of rows, by piece */

    /* Memory of the host, for what is copied to and from the backend's memory. */
    struct {
        size_t *counts;
        double *losses;
    } host;

    /* The current batch; its arrays are in the backend's memory. */
    struct {
        struct triple *questions;
        size_t *begins;
        uint32_t *positives;
        size_t n;
        uint64_t seed;
        double share;
        bool adds;
        struct conve_gradients *gradients;
    } batch;
};

typedef void make_fn(void *step, unsigned thread, size_t piece);
typedef int hand_over_fn(void *step, unsigned thread, size_t piece, struct err *err);
/* Calls make for the pieces of this rank, and hand_over for them in order. */
void step_phase(struct train_step *step, struct team_part own, make_fn *make,
                hand_over_fn *hand_over);

/* Rows [begin, begin + n) of the batch. */
struct rows_piece {
    size_t begin, n;
};
struct rows_piece step_rows(const struct train_step *step, size_t piece);
/* Returns where a piece's rows begin in an array with rows of `width` numbers. */
void *step_at(const struct train_step *step, void *array, struct rows_piece rows, size_t width);
size_t step_n_pieces(const struct train_step *step);
size_t step_n_tiles(const struct train_step *step);
size_t step_n_columns(const struct train_step *step); /* number of pieces of columns */
/*
 * Applies the dropout that the seed decides, forward and back. Each sample has a seed of its own,
 * so that pieces may come in any order.
 */
void step_drop(const struct train_step *step, enum train_dropout place, struct rows_piece rows,
               void *at);
/*
 * sum = the sum of n packed rows of `len` numbers, in their order; with `adds` the rows are added
 * to it.
 */
void step_sum(const struct train_step *step, const void *rows, size_t n, size_t len, bool adds,
              void *sum);
struct norm_stats step_stats(const struct train_step *step, enum conve_norm norm);

/* ---- step_ranks.c: nothing is done without a team ---- */

/*
 * Gathers an array with piece_bytes for each piece on all ranks; each rank has computed its part.
 */
void step_gather(struct train_step *step, void *at, size_t piece_bytes, struct team_part own);
/* Does the same for an array with rows of `width` numbers. */
void step_gather_rows(struct train_step *step, void *at, size_t width);
/* Does the same for the pieces' sums or statistics of a norm. */
void step_gather_norm(struct train_step *step, enum conve_norm norm);
/*
 * Returns where the partial sum of a piece goes; `index` is its position among the pieces of this
 * rank.
 */
void *step_partial(const struct train_step *step, unsigned thread, size_t index);
/* True on rank 0, which adds partial sums as they come. The others keep them for step_sum_on(). */
bool step_adds_partials(const struct train_step *step);
/*
 * Adds the partial sums that the other ranks have kept, of n_pieces in all, in the order of the
 * pieces.
 */
void step_sum_on(struct train_step *step, size_t n_pieces, void *sum);
/*
 * Sets *at to where fc's backward pass puts a piece of columns of the gradient of features. Returns
 * the distance between rows.
 */
size_t step_columns_at(const struct train_step *step, size_t piece, void **at);
void step_gather_columns(struct train_step *step);
/* Puts rows of the gradient of features together from the columns of all ranks. */
void step_columns_take(const struct train_step *step, struct rows_piece rows);

void step_take(struct train_step *step, const struct train_batch *batch);
void step_forward(struct train_step *step);
/* Computes scores, loss, and the gradients of the entities' table and of x. */
void step_scores(struct train_step *step);
void step_back(struct train_step *step);
