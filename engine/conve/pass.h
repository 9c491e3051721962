/* SPDX-License-Identifier: Apache-2.0
 *
 * A batch of triples through the model, and its gradients back: dense, of every parameter, as
 * training wants them. In training batch norm uses the batch's own statistics, and dropout draws
 * from the seed alone.
 */
#pragma once

#include "conve/layers.h"

enum conve_dropout {
    DROPOUT_INPUT,
    DROPOUT_FEATURES,
    DROPOUT_OUTPUT,
    DROPOUT_N
};

struct conve_mode {
    bool is_training;
    double dropout[DROPOUT_N]; /* probabilities; of features whole maps are dropped */
    bool drops_before_bn0;     /* as the plain implementation; PyKEEN drops behind it */
    uint64_t seed;
};

struct conve_pass {
    const struct num_backend *be;
    const struct conve_weights *weights;
    struct conve_mode mode;
    const struct triple *triples; /* of the last conve_forward() */
    size_t n, n_max;
    void *image, *normed, *maps, *features, *fc,
        *x;                 /* rows of n; x is what tails are compared with */
    void *masks[DROPOUT_N]; /* 0 or 1 / (1 - p); NULL: nothing is dropped */
    void *mean[NORM_N], *var[NORM_N], *inv_std[NORM_N]; /* of the batch, in training */
    void *ones;
};

/* All borrowed; n_max: triples at a time. */
void conve_pass_init(struct conve_pass *pass, const struct num_backend *be,
                     const struct conve_weights *weights, const struct conve_mode *mode,
                     size_t n_max);
void conve_pass_release(struct conve_pass *pass);

/* Indices are checked by the caller. */
void conve_forward(struct conve_pass *pass, const struct triple *triples, size_t n);
/* out[i]: the score of triple i, or with is_all of each entity as its tail, n x n_entities. */
void conve_scores(const struct conve_pass *pass, bool is_all, void *out);

/* By parameter; NULL of what the model does not have. */
struct conve_gradients {
    enum num_dtype dtype;
    void *at[PARAM_N_TRAINED];
};
void conve_gradients_init(struct conve_gradients *gradients, const struct conve_shape *shape,
                          enum num_dtype dtype);
void conve_gradients_release(struct conve_gradients *gradients);

/*
 * From d loss / d score as conve_scores() gives scores. Rows of the tables are added to, all else
 * is set.
 */
void conve_backward(const struct conve_pass *pass, bool is_all, const void *slope,
                    struct conve_gradients *gradients);
