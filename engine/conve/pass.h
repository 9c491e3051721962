/* SPDX-License-Identifier: Apache-2.0
 *
 * A batch of triples through the model as it stands, batch norm with its running statistics, and
 * the gradients back: dense, of every parameter. Training has its own (train/step.h).
 */
#pragma once

#include "conve/gradients.h"
#include "conve/layers.h"

struct conve_pass {
    const struct num_backend *be;
    const struct conve_weights *weights;
    const struct triple *triples; /* of the last conve_forward() */
    size_t n, n_max;
    /* Rows of n; x is what tails are compared with. */
    void *image, *normed, *maps, *features, *fc, *x;
    void *ones;
};

/* All borrowed; n_max: triples at a time. */
void conve_pass_init(struct conve_pass *pass, const struct num_backend *be,
                     const struct conve_weights *weights, size_t n_max);
void conve_pass_release(struct conve_pass *pass);

/* Indices are checked by the caller. */
void conve_forward(struct conve_pass *pass, const struct triple *triples, size_t n);
/* out[i]: the score of triple i, or with is_all of each entity as its tail, n x n_entities. */
void conve_scores(const struct conve_pass *pass, bool is_all, void *out);

/*
 * From d loss / d score as conve_scores() gives scores. Rows of the tables are added to, all else
 * is set.
 */
void conve_backward(const struct conve_pass *pass, bool is_all, const void *slope,
                    struct conve_gradients *gradients);
