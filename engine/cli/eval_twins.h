/* SPDX-License-Identifier: Apache-2.0
 *
 * Entities whose embeddings are the same numbers. A matrix product may add up a score at the edge
 * of a table in another order than within it, and so give such entities scores that differ in the
 * last digits. The ranks of entities that nothing tells apart would then depend on their indices.
 */
#pragma once

#include "conve/model.h"

struct twin {
    uint32_t entity, other;
    bool has_same_bias;
};

/* The order is such that the score of `other` is final before `entity` gets it. */
struct twins {
    struct twin *at;
    size_t n;
};

void twins_find(struct twins *twins, const struct conve *model);
void twins_release(struct twins *twins);
/*
 * Gives each twin the score of its other one, in the scores of n questions. Twins with different
 * biases keep their scores as tails. A reciprocal model takes heads as the tails of other
 * questions.
 */
void twins_level(const struct twins *twins, bool are_tails, size_t n, size_t n_entities,
                 float *scores);
