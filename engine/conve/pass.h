/* SPDX-License-Identifier: Apache-2.0
 *
 * The forward and backward pass of a batch of triples through a model that does not change: batch
 * norm uses its running statistics, and gradients are dense, for every parameter. Training has a
 * pass of its own (train/step.h).
 */
#pragma once

#include "conve/gradients.h"
#include "conve/layers.h"

struct conve_pass {
    const struct num_backend *be;
    const struct conve_weights *weights;
    const struct triple *triples; /* the triples of the last conve_forward() */
    size_t n, n_max;
    /* n rows each; x as in shape.h. */
    void *image, *normed, *maps, *features, *fc, *x;
    void *ones;
};

/* Backend and weights are borrowed; n_max: triples at a time. */
void conve_pass_init(struct conve_pass *pass, const struct num_backend *be,
                     const struct conve_weights *weights, size_t n_max);
void conve_pass_release(struct conve_pass *pass);

/* The caller has checked the indices. */
void conve_forward(struct conve_pass *pass, const struct triple *triples, size_t n);
/*
 * Computes the score of each triple; with is_all its score with each entity as tail, n x
 * n_entities.
 */
void conve_scores(const struct conve_pass *pass, bool is_all, void *out);

/*
 * slope: d loss / d score, laid out as conve_scores() lays out the scores. Gradients are added to
 * those of the tables (embeddings, entity bias); all other gradients are set.
 */
void conve_backward(const struct conve_pass *pass, bool is_all, const void *slope,
                    struct conve_gradients *gradients);
