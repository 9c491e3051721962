/* SPDX-License-Identifier: Apache-2.0
 *
 * Entities whose embeddings are the same numbers. A matrix product may add up a score in another
 * order at the edge of a table than within it, and so give such entities scores that differ in the
 * last digits. Of entities that nothing tells apart, the ranks would then depend on their indices.
 */
#pragma once

#include "conve/model.h"

struct twin {
    uint32_t entity, other;
    bool has_same_bias;
};

/* In an order in which the score of `other` is settled before it is given to `entity`. */
struct twins {
    struct twin *at;
    size_t n;
};

void twins_find(struct twins *twins, const struct conve *model);
void twins_release(struct twins *twins);
/*
 * Gives each twin the score of its other one, in the scores of n questions. As tails they differ
 * if their biases do. A reciprocal model takes heads as the tails of other questions.
 */
void twins_level(const struct twins *twins, bool are_tails, size_t n, size_t n_entities,
                 float *scores);
