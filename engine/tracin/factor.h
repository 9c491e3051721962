/* SPDX-License-Identifier: Apache-2.0
 *
 * The gradient of one triple's loss, taken apart. With a the features, u = fc's output, x what
 * tails are compared with, c = d loss / d score, and the gradients g_h and g_r that reach the rows
 * of head and relation:
 *
 *   fc.weight    du a^T: its inner product with another is (du . du') (a . a')
 *   small        bn2, fc.bias, bn1, conv1, bn0, as they are: a thousand numbers
 *   tables       g_h at row h, g_r at row r, and at row t: c x, c of an entity's bias. They meet
 *                where rows are the same: [h=h'] g_h g_h' + [t=t'] g_t g_t' + [h=t'] g_h g_t' +
 *                [t=h'] g_t g_h' + [r=r'] g_r g_r'
 *   one vs all   all rows get s_j x, s being the slopes of all scores: (s . s') (x . x'), and what
 *                meets g_h
 *
 * Nothing is as large as the tables, but s where all entities are scored.
 */
#pragma once

#include "conve/weights.h"
#include "tracin/tracin.h"

/* What a set of parameters needs. */
struct factor_plan {
    struct conve_shape shape;
    enum num_dtype dtype;
    bool has_fc_weight, has_entity, has_relation, has_bias, is_all; /* is_all: one vs all */
    bool is_deep; /* the gradient must go through fc */
    double label_smoothing;
    size_t n_small;
    size_t small_at[PARAM_N_TRAINED]; /* SIZE_MAX: not asked for */
};

void factor_plan_init(struct factor_plan *plan, const struct conve_shape *shape,
                      const struct tracin_opts *opts);

/*
 * Of up to n_max triples, rows of n; NULL what the plan does not need. Up to x a triple is its
 * head and relation, so features may be shared.
 */
struct factors {
    const struct triple *triples;
    size_t n, n_features; /* rows */
    uint32_t *features_row;
    void *du, *features, *small, *head, *relation;
    void *slope, *tail; /* c, and c x */
    void *slopes, *x;   /* one vs all */
};

/* What they are computed in. */
struct factor_scratch {
    void *image, *normed, *u, *x, *d, *d_features, *d_image, *sums, *d_sum, *scale, *shift;
};

/* Bytes of n rows of factors, and of their scratch. */
size_t factors_bytes(const struct factor_plan *plan, size_t n);
size_t factor_scratch_bytes(const struct factor_plan *plan, size_t n);

void factors_init(struct factors *factors, const struct factor_plan *plan, size_t n_max);
void factors_release(struct factors *factors);
void factor_scratch_init(struct factor_scratch *scratch, const struct factor_plan *plan,
                         size_t n_max);
void factor_scratch_release(struct factor_scratch *scratch);

/*
 * Rows [at, at + n) of factors, none shared: n_features is the caller's n. Triples stay the
 * caller's.
 */
void factors_compute(const struct num_backend *be, const struct factor_plan *plan,
                     const struct conve_weights *weights, struct factor_scratch *scratch,
                     struct factors *factors, size_t at, size_t n);
/* All rows. Neighbours of one head and relation share what depends on these alone. */
void factors_compute_shared(const struct num_backend *be, const struct factor_plan *plan,
                            const struct conve_weights *weights, struct factor_scratch *scratch,
                            struct factors *factors);

/* ---- products ---- */

struct product_scratch {
    void *first, *second; /* m x n each */
};

/* out (tests x train, packed) += learning_rate times their inner products. */
void factors_product(const struct num_backend *be, const struct factor_plan *plan,
                     double learning_rate, const struct factors *tests, const struct factors *train,
                     struct product_scratch *scratch, void *out);
/* out[i] += learning_rate |gradient of triple i|^2; scratch: 2 n numbers. */
void factors_self(const struct num_backend *be, const struct factor_plan *plan,
                  double learning_rate, const struct factors *factors, void *scratch, double *out);
