/* SPDX-License-Identifier: Apache-2.0
 *
 * The gradient of one triple's loss as factors, from which inner products of gradients are cheap.
 * Let a be the features, u the output of fc, x the output of the last layer (conve/shape.h),
 * c = d loss / d score, and g_h and g_r the gradients that reach the rows of head and relation:
 *
 *   fc.weight    du a^T: its inner product with another is (du . du') (a . a')
 *   small        bn2, fc.bias, bn1, conv1, bn0: the gradients themselves, a thousand numbers
 *   tables       g_h at row h, g_r at row r, g_t = c x at row t; c at row t of an entity bias.
 *                Only products at the same row are not zero: [h=h'] g_h g_h' + [t=t'] g_t g_t' +
 *                [h=t'] g_h g_t' + [t=h'] g_t g_h' + [r=r'] g_r g_r'
 *   one vs all   row j gets s_j x, s being the slopes of all scores: instead of the products with
 *                g_t and g_t', (s . s') (x . x') + s'_h (g_h . x') + s_h' (x . g_h')
 *
 * No factor is as large as the tables, except s where all entities are scored.
 */
#pragma once

#include "conve/weights.h"
#include "tracin/tracin.h"

/* What has to be computed for a set of parameters. */
struct factor_plan {
    struct conve_shape shape;
    enum num_dtype dtype;
    bool has_fc_weight, has_entity, has_relation, has_bias, is_all; /* is_all: one vs all */
    bool is_deep;           /* the gradient must go through fc */
    enum num_format format; /* the format of what is multiplied for fc_weight */
    double label_smoothing;
    size_t n_small;
    size_t small_at[PARAM_N_TRAINED]; /* the place in a row of small gradients; SIZE_MAX: not
                                       * asked for */
};

void factor_plan_init(struct factor_plan *plan, const struct conve_shape *shape,
                      const struct tracin_opts *opts);

/*
 * The factors of up to n_max triples, n rows each; NULL if the plan does not need them. All that is
 * computed up to x depends on head and relation alone, so triples may share rows of features.
 */
struct factors {
    const struct triple *triples; /* on the host, like `host` */
    size_t n, n_features;         /* rows; n_features: rows of features */
    struct {
        uint32_t *index; /* the next upload: a number for each triple */
        struct triple *firsts;
    } host;
    /* All that follows lies in memory of the backend. */
    void *ids, *first_ids; /* the triples; the first triple of each row of features */
    void *features_row;    /* by triple: its row of features */
    void *du, *features, *small, *head, *relation;
    void *slope, *tail;       /* c, and c x */
    void *slopes, *x, *place; /* for one vs all; place: that of a triple's entity in slopes */
};

/* Memory that factors are computed in. */
struct factor_scratch {
    void *image, *normed, *u, *x, *d, *d_features, *d_image, *sums, *d_sum, *scale, *shift;
    void *spare_image, *spare_dim; /* copies of shared rows, one for each triple */
    void *own;                     /* for one vs all: the slope at the tail */
};

/* The bytes of n rows of factors, and of the scratch for them. */
size_t factors_bytes(const struct factor_plan *plan, size_t n);
size_t factor_scratch_bytes(const struct factor_plan *plan, size_t n);

/* The _init functions return the errors of allocate. The caller releases after an error, too. */
MUST_CHECK int factors_init(struct factors *factors, const struct num_backend *be,
                            const struct factor_plan *plan, size_t n_max, struct err *err);
void factors_release(struct factors *factors, const struct num_backend *be);
MUST_CHECK int factor_scratch_init(struct factor_scratch *scratch, const struct num_backend *be,
                                   const struct factor_plan *plan, size_t n_max, struct err *err);
void factor_scratch_release(struct factor_scratch *scratch, const struct num_backend *be);

/*
 * Computes rows [at, at + n) of factors without sharing: the caller has set factors->n_features to
 * factors->n. factors->triples belongs to the caller.
 */
void factors_compute(const struct num_backend *be, const struct factor_plan *plan,
                     const struct conve_weights *weights, struct factor_scratch *scratch,
                     struct factors *factors, size_t at, size_t n);
/* Computes all rows. Neighbours with equal head and relation share what depends on these alone. */
void factors_compute_shared(const struct num_backend *be, const struct factor_plan *plan,
                            const struct conve_weights *weights, struct factor_scratch *scratch,
                            struct factors *factors);
/* Sets `place`: the position of each triple's entity in a matrix of n x n_entities. */
enum factor_end {
    END_HEAD,
    END_TAIL
};
void factors_places(const struct num_backend *be, const struct factor_plan *plan,
                    struct factors *factors, enum factor_end end, size_t at, size_t n);
/* Rounds the factors of fc.weight to the plan's format. */
void factors_round(const struct num_backend *be, const struct factor_plan *plan,
                   const struct factors *factors);

/* ---- products ---- */

/* In memory of the backend. */
struct product_scratch {
    void *first, *second; /* m x n each */
};

/* out (tests x train, packed) += learning_rate times the inner products of tests and train. */
void factors_product(const struct num_backend *be, const struct factor_plan *plan,
                     double learning_rate, const struct factors *tests, const struct factors *train,
                     struct product_scratch *scratch, void *out);
/* For n triples. `numbers` lies in memory of the backend, all else on the host. */
struct self_scratch {
    void *numbers, *first, *second, *weights;
};
MUST_CHECK int self_scratch_init(struct self_scratch *scratch, const struct num_backend *be,
                                 const struct factor_plan *plan, size_t n, struct err *err);
void self_scratch_release(struct self_scratch *scratch, const struct num_backend *be);
/* Computes out[i] += learning_rate |gradient of triple i|^2. Returns the errors of download. */
MUST_CHECK int factors_self(const struct num_backend *be, const struct factor_plan *plan,
                            double learning_rate, struct factors *factors,
                            struct self_scratch *scratch, double *out, struct err *err);
