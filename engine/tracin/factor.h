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
    bool is_deep;           /* the gradient must go through fc */
    enum num_format format; /* of what is multiplied for fc_weight */
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
    const struct triple *triples; /* on the host, as `host` */
    size_t n, n_features;         /* rows */
    struct {
        uint32_t *index; /* whatever goes up next, a number a triple */
        struct triple *firsts;
    } host;
    /* All else lies where the backend computes. */
    void *ids, *first_ids; /* the triples, and those whose features are shared */
    void *features_row;    /* by triple */
    void *du, *features, *small, *head, *relation;
    void *slope, *tail;       /* c, and c x */
    void *slopes, *x, *place; /* one vs all; place: of a triple's entity in slopes */
};

/* What they are computed in. */
struct factor_scratch {
    void *image, *normed, *u, *x, *d, *d_features, *d_image, *sums, *d_sum, *scale, *shift;
    void *spare_image, *spare_dim; /* where rows are spread to */
    void *own;                     /* one vs all: the slope at the tail */
};

/* Bytes of n rows of factors, and of their scratch. */
size_t factors_bytes(const struct factor_plan *plan, size_t n);
size_t factor_scratch_bytes(const struct factor_plan *plan, size_t n);

/* The errors of allocate; released also then. */
MUST_CHECK int factors_init(struct factors *factors, const struct num_backend *be,
                            const struct factor_plan *plan, size_t n_max, struct err *err);
void factors_release(struct factors *factors, const struct num_backend *be);
MUST_CHECK int factor_scratch_init(struct factor_scratch *scratch, const struct num_backend *be,
                                   const struct factor_plan *plan, size_t n_max, struct err *err);
void factor_scratch_release(struct factor_scratch *scratch, const struct num_backend *be);

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
/* Where the entity of each triple lies in a matrix of n x n_entities; goes to `place`. */
enum factor_end {
    END_HEAD,
    END_TAIL
};
void factors_places(const struct num_backend *be, const struct factor_plan *plan,
                    struct factors *factors, enum factor_end end, size_t at, size_t n);
/* What goes into the products of fc_weight, to the plan's format. */
void factors_round(const struct num_backend *be, const struct factor_plan *plan,
                   const struct factors *factors);

/* ---- products ---- */

/* Where the backend computes. */
struct product_scratch {
    void *first, *second; /* m x n each */
};

/* out (tests x train, packed) += learning_rate times their inner products. */
void factors_product(const struct num_backend *be, const struct factor_plan *plan,
                     double learning_rate, const struct factors *tests, const struct factors *train,
                     struct product_scratch *scratch, void *out);
/* For n triples, and the same on the host. */
struct self_scratch {
    void *numbers, *first, *second, *weights;
};
MUST_CHECK int self_scratch_init(struct self_scratch *scratch, const struct num_backend *be,
                                 const struct factor_plan *plan, size_t n, struct err *err);
void self_scratch_release(struct self_scratch *scratch, const struct num_backend *be);
/* out[i] += learning_rate |gradient of triple i|^2. The errors of download. */
MUST_CHECK int factors_self(const struct num_backend *be, const struct factor_plan *plan,
                            double learning_rate, struct factors *factors,
                            struct self_scratch *scratch, double *out, struct err *err);
