/* SPDX-License-Identifier: Apache-2.0
 *
 * Training triples as questions, dealt out in batches. Each epoch has an order of its own, which
 * depends on the seed and the epoch alone.
 */
#pragma once

#include <stdbool.h>

#include "train/step.h"

struct batches {
    struct triple *questions;
    size_t n;        /* questions; an epoch has each of them once */
    size_t *begins;  /* question i's true tails begin at tails[begins[i]] */
    uint32_t *tails; /* ascending within a question */
    size_t size, n_batches;
    size_t batch_tails_max;
    uint32_t *order; /* the order of the current epoch */

    /* The current batch. */
    struct triple *batch_questions;
    size_t *batch_begins;
    uint32_t *batch_tails;
};

/*
 * With is_grouped a question is a head and a relation, with all tails that the training triples
 * have for them; else a question is a triple, with its own tail alone. ERR_USAGE if there are fewer
 * than two questions, or `size` is below two: batch norm needs two for a variance.
 */
MUST_CHECK int batches_init(struct batches *batches, const struct triple *triples, size_t n_triples,
                            bool is_grouped, size_t size, struct err *err);
void batches_release(struct batches *batches);
/*
 * The most questions in a batch. It may be one more than `size`: a last question that would be
 * alone joins the batch before it.
 */
size_t batches_n_max(const struct batches *batches);
struct train_limits batches_limits(const struct batches *batches);
void batches_shuffle(struct batches *batches, uint64_t seed, uint64_t epoch);
/* Returns a batch that is valid until the next call. */
struct train_batch batches_at(struct batches *batches, size_t index);
